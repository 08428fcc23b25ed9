package auth

import "fmt"

// NameMax is the most bytes in the name of a principal or a tenant.
const NameMax = 128

// nameProblem says why a text is no name, or "". Names have no dot, so that the
// first one in a token ends the name.
func nameProblem(text string) string {
	if text == "" {
		return "is empty"
	}
	if len(text) > NameMax {
		return fmt.Sprintf("has %d bytes; %d are allowed", len(text), NameMax)
	}
	for _, c := range []byte(text) {
		switch {
		case 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z', '0' <= c && c <= '9', c == '-', c == '_':
		default:
			return fmt.Sprintf("has the byte %q; letters, digits, '-' and '_' are allowed", c)
		}
	}
	return ""
}

// shown quotes a text for a message, cut to what fits one.
func shown(text string) string {
	const most = 40
	if len(text) > most {
		return fmt.Sprintf("%q…", text[:most])
	}
	return fmt.Sprintf("%q", text)
}

package broker

import (
	"fmt"
	"strings"
)

// NamePartMax is the most bytes in one part of a stream's name.
const NamePartMax = 128

// StreamName names a stream. Each part is 1 to NamePartMax bytes of ASCII letters,
// digits, '-' and '_', so that no name can mean a path and the dotted form is
// unambiguous.
type StreamName struct{ Tenant, Namespace, Stream string }

// String is the form that errors and logs use: tenant/namespace/stream.
func (n StreamName) String() string { return n.Tenant + "/" + n.Namespace + "/" + n.Stream }

// Dotted is the form that Kafka topics use: tenant.namespace.stream.
func (n StreamName) Dotted() string { return n.Tenant + "." + n.Namespace + "." + n.Stream }

// Validate reports the first part that is no valid name.
func (n StreamName) Validate() error {
	for _, part := range []struct{ what, text string }{
		{"tenant", n.Tenant}, {"namespace", n.Namespace}, {"stream", n.Stream},
	} {
		if problem := partProblem(part.text); problem != "" {
			return &NameError{Part: part.what, Text: part.text, Problem: problem}
		}
	}
	return nil
}

// ParseName reads "tenant/namespace/stream".
func ParseName(text string) (StreamName, error) {
	parts := strings.Split(text, "/")
	if len(parts) != 3 {
		return StreamName{}, &NameError{Part: "name", Text: text, Problem: "is not tenant/namespace/stream"}
	}
	n := StreamName{Tenant: parts[0], Namespace: parts[1], Stream: parts[2]}
	return n, n.Validate()
}

func partProblem(text string) string {
	if text == "" {
		return "is empty"
	}
	if len(text) > NamePartMax {
		return fmt.Sprintf("has %d bytes; %d are allowed", len(text), NamePartMax)
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

package manual

import (
	"fmt"
	"strings"
	"unicode"
)

// roff renders text so that it shows as it is. A hyphen becomes the sign that can be
// copied into a shell, and nothing at the start of a line is taken for a request.
func roff(text string) string {
	var b strings.Builder
	for i, r := range strings.Join(strings.Fields(text), " ") {
		switch {
		case r == '\\':
			b.WriteString(`\e`)
		case r == '-':
			b.WriteString(`\-`)
		case r == '\'':
			b.WriteString(`\(aq`)
		case r == '"':
			b.WriteString(`\(dq`)
		case r == '^':
			b.WriteString(`\(ha`)
		case r == '~':
			b.WriteString(`\(ti`)
		case r == '`':
			b.WriteString(`\(ga`)
		case r == '.' && i == 0:
			b.WriteString(`\&.`)
		case r > unicode.MaxASCII:
			fmt.Fprintf(&b, `\[u%04X]`, r)
		default:
			b.WriteRune(r)
		}
	}
	return b.String()
}

// quoted is text as one argument of a request.
func quoted(text string) string { return `"` + roff(text) + `"` }

func bold(text string) string { return `\fB` + roff(text) + `\fR` }

package auth

import (
	"fmt"
	"strings"
)

// Bounds of a credentials file.
const (
	// FileBytesMax is the most bytes of a file.
	FileBytesMax = 1 << 20
	// PrincipalsMax is the most principals of a file.
	PrincipalsMax = 4096
	// GrantsMax is the most grants of a principal.
	GrantsMax = 64

	// problemsMax ends the search for problems.
	problemsMax = 100
)

// line is one principal as the file has it.
type line struct {
	number int
	name   string
	hash   secretHash
	grants []grant
}

// parse reads the text of a credentials file: one principal per line, as
//
//	name  sha256$<salt>$<hash>                      <grant>...
//	name  pbkdf2-sha256$<iterations>$<salt>$<hash>  <grant>...
//
// with blanks between the fields. A field that begins with "#" ends the line, and
// a line without fields counts for nothing.
func parse(text string) (lines []line, problems []Problem) {
	first := make(map[string]int)
	number := 0
	for raw := range strings.Lines(text) {
		number++
		if len(problems) >= problemsMax {
			return nil, append(problems, Problem{Line: number, Text: "the search for problems ended here"})
		}
		fields := fieldsOf(raw)
		if len(fields) == 0 {
			continue
		}
		l, found := parseLine(fields)
		l.number = number
		if before := first[l.name]; before > 0 && nameProblem(l.name) == "" {
			found = append(found, fmt.Sprintf("the name %s is on line %d already", shown(l.name), before))
		} else {
			first[l.name] = number
		}
		for _, problem := range found {
			problems = append(problems, Problem{Line: number, Text: problem})
		}
		lines = append(lines, l)
		if len(lines) > PrincipalsMax {
			return nil, append(problems, Problem{Line: number, Text: fmt.Sprintf("there are more than %d principals", PrincipalsMax)})
		}
	}
	return lines, problems
}

// needPrincipals refuses a file without principals: it would lock everybody out, and
// is more likely one that was emptied by mistake.
func needPrincipals(lines []line) []Problem {
	if len(lines) > 0 {
		return nil
	}
	return []Problem{{Text: "it has no principal, so nobody could do anything; felixd credentials add writes one"}}
}

// parseLine reads the fields of one principal. A problem quotes none of them: any
// may be a secret in the wrong place.
func parseLine(fields []string) (l line, problems []string) {
	l.name = fields[0]
	if problem := nameProblem(l.name); problem != "" {
		problems = append(problems, "the name "+problem)
	}
	if len(fields) < 3 {
		return l, append(problems, "there are not three fields: NAME HASH GRANT..., where a grant is ACTIONS:TENANT, such as read,write:acme*")
	}
	var err error
	if l.hash, err = parseHash(fields[1]); err != nil {
		problems = append(problems, err.Error())
	}
	var more []string
	l.grants, more = parseGrants(fields[2:])
	return l, append(problems, more...)
}

// parseGrants reads all grants of a principal.
func parseGrants(texts []string) (grants []grant, problems []string) {
	if len(texts) == 0 || len(texts) > GrantsMax {
		return nil, []string{fmt.Sprintf("there are %d grants; 1 to %d are allowed", len(texts), GrantsMax)}
	}
	for i, text := range texts {
		g, err := parseGrant(text)
		if err != nil {
			problems = append(problems, fmt.Sprintf("grant %d %v", i+1, err))
			continue
		}
		grants = append(grants, g)
	}
	return grants, problems
}

// fieldsOf splits a line at blanks, without its comment.
func fieldsOf(raw string) []string {
	fields := strings.FieldsFunc(raw, func(r rune) bool { return r == ' ' || r == '\t' || r == '\r' || r == '\n' })
	for i, field := range fields {
		if strings.HasPrefix(field, "#") {
			return fields[:i]
		}
	}
	return fields
}

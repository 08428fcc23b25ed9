package engine

import (
	"slices"
	"strings"
)

// VariablePrefix is what every environment variable of Felix starts with.
const VariablePrefix = "FELIX_"

// UnknownVariable is a variable that looks like ours and that nothing reads.
type UnknownVariable struct {
	Name string
	// Closest is the known name most like it, or "" when none is near.
	Closest string
}

// UnknownVariables finds, in an environment of "NAME=value" lines, the names
// that start with VariablePrefix and are not in known. A misspelt setting is
// otherwise silent: the default would apply.
func UnknownVariables(environ, known []string) []UnknownVariable {
	var unknown []UnknownVariable
	for _, line := range environ {
		name, _, _ := strings.Cut(line, "=")
		if !strings.HasPrefix(name, VariablePrefix) || slices.Contains(known, name) {
			continue
		}
		unknown = append(unknown, UnknownVariable{Name: name, Closest: closest(name, known)})
	}
	slices.SortFunc(unknown, func(a, b UnknownVariable) int { return strings.Compare(a.Name, b.Name) })
	return unknown
}

// closest is the known name with the smallest edit distance, when at most a
// third of the name would have to change.
func closest(name string, known []string) string {
	best, bestDistance := "", (len(name)-len(VariablePrefix))/3+1
	for _, candidate := range known {
		if d := editDistance(name, candidate); d < bestDistance {
			best, bestDistance = candidate, d
		}
	}
	return best
}

// editDistance counts the insertions, deletions and replacements between two names.
func editDistance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			replaced := diagonal
			if a[i] != b[j] {
				replaced++
			}
			diagonal = row[j+1]
			row[j+1] = min(replaced, row[j]+1, row[j+1]+1)
		}
	}
	return row[len(b)]
}

package defects

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// Defect is one way to get durability wrong.
type Defect struct {
	// Name says what the changed code does.
	Name string
	// Breaks is the rule that it breaks, and what that can cost.
	Breaks string
	// Edits make the defect.
	Edits []Edit
	// Caught are the checks that notice it, each of which must. The first one is the
	// quickest.
	Caught []Check
}

// Edit replaces text in a source file.
type Edit struct {
	// File is a path from the root of the module.
	File string
	// Old occurs in the file exactly once.
	Old, New string
}

// Check is a test.
type Check struct {
	// Package is the directory of the test, from the root of the module.
	Package string
	Test    string
	// Says is a regular expression for what the test prints about the defect, and
	// does not print without it. A test that draws its faults may find one defect in
	// several ways.
	Says string
	// Seeds is how many workloads of each row a power-loss test runs. Default 2,
	// which meet most defects; the suite runs up to 8.
	Seeds int
}

// String gives the check as documents name it.
func (c Check) String() string { return c.Package + " " + c.Test }

// says looks for what is to be said of the defect.
func (c Check) says(output string) bool {
	return regexp.MustCompile(c.Says).MatchString(output)
}

// Table is all defects.
func Table() []Defect {
	return slices.Concat(writing(), flushing(), rolling(), marking(), recovering(), producing(), replacing(), replicating(), shipping(), cutting(), identifying(), deleting(), journaling(), offloading())
}

// apply gives the changed files by their path.
func (d Defect) apply(root string) (map[string]string, error) {
	changed := make(map[string]string)
	for _, e := range d.Edits {
		path := filepath.Join(root, filepath.FromSlash(e.File))
		text, ok := changed[path]
		if !ok {
			b, err := os.ReadFile(path)
			if err != nil {
				return nil, fmt.Errorf("the defect no longer applies: %w", err)
			}
			text = string(b)
		}
		if n := strings.Count(text, e.Old); n != 1 {
			return nil, fmt.Errorf("the defect no longer applies: %s holds the text to be replaced %d times instead of once:\n%s", e.File, n, e.Old)
		}
		changed[path] = strings.Replace(text, e.Old, e.New, 1)
	}
	return changed, nil
}

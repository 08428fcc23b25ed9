package main

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"unicode/utf8"

	classifier "github.com/google/licenseclassifier/v2"
	"github.com/google/licenseclassifier/v2/assets"
)

// permitted are the licences, by their SPDX names, under which code may be linked into
// felixd: those that ask for their text to be passed on and for nothing of the code
// around it.
func permitted() []string {
	return []string{"0BSD", "Apache-2.0", "BSD-2-Clause", "BSD-3-Clause", "CC-BY-4.0", "CC0-1.0", "FTL", "ISC", "MIT", "OFL-1.1", "Unlicense", "Zlib"}
}

// review is what a person found a file to say that no classifier understands. It holds
// for exactly these bytes: after a change somebody has to read the file again.
type review struct {
	module, file, sum string
	found             string
}

func reviews() []review {
	return []review{
		{"github.com/golang/freetype", "LICENSE", "d3ba056adc2b7909", "a choice of FTL and GPL-2.0-or-later; FTL is taken"},
		{"github.com/golang/freetype", "licenses/gpl.txt", "c4120c6752c910c2", "the choice that is not taken"},
		{"github.com/ajstarks/svgo", "LICENSE-link.txt", "faef26bb83b741b2", "names CC-BY-4.0, whose text is in LICENSE"},
	}
}

// reviewed is what a person found in this text, or "".
func reviewed(path string, text legal) string {
	sum := fmt.Sprintf("%x", sha256.Sum256(text.content))[:16]
	for _, r := range reviews() {
		if r.module == path && r.file == text.name && r.sum == sum {
			return r.found
		}
	}
	return ""
}

// judge knows licences by their texts.
type judge struct{ known *classifier.Classifier }

func newJudge() (judge, error) {
	known, err := assets.DefaultClassifier()
	return judge{known}, err
}

// licences are those of a module, in order, and what speaks against linking it.
func (j judge) licences(m module) (names []string, err error) {
	var problems []error
	for _, text := range m.texts {
		if text.isNotice() || reviewed(m.path, text) != "" {
			continue
		}
		found := j.find(text.content)
		if len(found) == 0 {
			problems = append(problems, fmt.Errorf("%s %s: nobody knows the licence in %s", m.path, m.version, text.name))
		}
		for _, name := range found {
			if !slices.Contains(permitted(), name) {
				problems = append(problems, fmt.Errorf("%s %s: %s is under %s, which is not among those permitted", m.path, m.version, text.name, name))
			}
			if !slices.Contains(names, name) {
				names = append(names, name)
			}
		}
	}
	if len(names) == 0 && len(problems) == 0 {
		problems = append(problems, fmt.Errorf("%s %s has no file that says its licence", m.path, m.version))
	}
	slices.Sort(names)
	return names, errors.Join(problems...)
}

// find gives the licences that a text is made of.
func (j judge) find(text []byte) (names []string) {
	for _, match := range j.known.Match(text).Matches {
		if match.MatchType == "License" && !slices.Contains(names, match.Name) {
			names = append(names, match.Name)
		}
	}
	return names
}

type licencesCommand struct{ sourceFlags }

// Run lists the modules of all architectures.
func (c *licencesCommand) Run(ctx context.Context) error {
	j, err := newJudge()
	if err != nil {
		return err
	}
	var problems []error
	shown := make(map[string]bool)
	for _, arch := range c.Arch {
		linked, err := linkedModules(ctx, c.Source, arch)
		if err != nil {
			return err
		}
		for _, m := range linked {
			if id := m.path + " " + m.version; !shown[id] {
				shown[id] = true
				names, err := j.licences(m)
				problems = append(problems, err)
				fmt.Printf("%-45s %-38s %s\n", m.path, m.version, strings.Join(names, ", "))
			}
		}
	}
	fmt.Printf("%d modules\n", len(shown))
	return errors.Join(problems...)
}

// ownLicence is the text of Felix's own licence, or says that there is none.
func ownLicence(source string) (string, error) {
	text, err := os.ReadFile(filepath.Join(source, "LICENSE"))
	if errors.Is(err, os.ErrNotExist) {
		return "The source tree of Felix states no licence of its own.\n", nil
	}
	return string(text), err
}

// notices is what has to be passed on with the program: every legal file of every
// module, as it is.
func notices(own string, linked []module) []byte {
	var b bytes.Buffer
	fmt.Fprintf(&b, "Felix, a durable log\n\n%s\nThe program is linked from the modules below, each on its own terms.\n", own)
	for _, m := range linked {
		for _, text := range m.texts {
			fmt.Fprintf(&b, "\n%s\n%s %s: %s\n", strings.Repeat("=", 78), m.path, m.version, text.name)
			if found := reviewed(m.path, text); found != "" {
				fmt.Fprintf(&b, "(%s)\n", found)
			}
			fmt.Fprintf(&b, "%s\n\n%s\n", strings.Repeat("=", 78), strings.TrimSpace(readable(text.content)))
		}
	}
	return b.Bytes()
}

// readable is a text in UTF-8. One that is not is taken for Latin 1, in which names of
// authors were once written.
func readable(text []byte) string {
	if utf8.Valid(text) {
		return string(text)
	}
	runes := make([]rune, len(text))
	for i, b := range text {
		runes[i] = rune(b)
	}
	return string(runes)
}

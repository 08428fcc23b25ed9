package main

import (
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
)

func testJudge(t *testing.T) judge {
	t.Helper()
	j, err := newJudge()
	if err != nil {
		t.Fatal(err)
	}
	return j
}

// mit is a licence that everybody knows.
const mit = `Copyright (c) 2001 Somebody

Permission is hereby granted, free of charge, to any person obtaining a copy of this software and associated documentation files (the
"Software"), to deal in the Software without restriction, including without limitation the rights to use, copy, modify, merge, publish,
distribute, sublicense, and/or sell copies of the Software, and to permit persons to whom the Software is furnished to do so, subject to
the following conditions:

The above copyright notice and this permission notice shall be included in all copies or substantial portions of the Software.

THE SOFTWARE IS PROVIDED "AS IS", WITHOUT WARRANTY OF ANY KIND, EXPRESS OR IMPLIED, INCLUDING BUT NOT LIMITED TO THE WARRANTIES OF
MERCHANTABILITY, FITNESS FOR A PARTICULAR PURPOSE AND NONINFRINGEMENT. IN NO EVENT SHALL THE AUTHORS OR COPYRIGHT HOLDERS BE LIABLE FOR ANY
CLAIM, DAMAGES OR OTHER LIABILITY, WHETHER IN AN ACTION OF CONTRACT, TORT OR OTHERWISE, ARISING FROM, OUT OF OR IN CONNECTION WITH THE
SOFTWARE OR THE USE OR OTHER DEALINGS IN THE SOFTWARE.
`

// gpl is the text of a licence that does not permit linking it into everything.
func gpl(t *testing.T) string {
	t.Helper()
	for _, path := range []string{"/usr/share/common-licenses/GPL-2", "/usr/share/common-licenses/GPL-3"} {
		if text, err := os.ReadFile(path); err == nil {
			return string(text)
		}
	}
	t.Skip("there is no text of the GPL on this machine")
	return ""
}

func TestAModuleIsJudgedByItsTexts(t *testing.T) {
	j := testJudge(t)
	for name, c := range map[string]struct {
		texts []legal
		want  string // the licences, or a part of the error
		fails bool
	}{
		"one that is permitted":           {[]legal{{"LICENSE", []byte(mit)}}, "MIT", false},
		"a notice beside it":              {[]legal{{"LICENSE", []byte(mit)}, {"NOTICE", []byte("by Somebody")}}, "MIT", false},
		"none at all":                     {nil, "has no file that says its licence", true},
		"a notice alone":                  {[]legal{{"NOTICE", []byte(mit)}}, "has no file that says its licence", true},
		"words that nobody knows":         {[]legal{{"LICENSE", []byte("Ask me first.")}}, "nobody knows the licence in LICENSE", true},
		"a second one that nobody knows":  {[]legal{{"LICENSE", []byte(mit)}, {"sub/LICENSE", []byte("Ask me first.")}}, "nobody knows the licence in sub/LICENSE", true},
		"one that is not permitted":       {[]legal{{"COPYING", []byte(gpl(t))}}, "is under GPL-", true},
		"one that is not, beside another": {[]legal{{"LICENSE", []byte(mit + "\n\n" + gpl(t))}}, "is under GPL-", true},
	} {
		t.Run(name, func(t *testing.T) {
			names, err := j.licences(module{path: "example.org/m", version: "v1.0.0", texts: c.texts})
			switch {
			case c.fails && (err == nil || !strings.Contains(err.Error(), c.want)):
				t.Errorf("the error is %v, want %q", err, c.want)
			case !c.fails && (err != nil || strings.Join(names, " ") != c.want):
				t.Errorf("%v, %v, want %s", names, err, c.want)
			}
		})
	}
}

func TestAReviewHoldsForTheTextThatWasRead(t *testing.T) {
	linked, err := linkedModules(t.Context(), "..", runtime.GOARCH)
	if err != nil {
		t.Fatal(err)
	}
	j := testJudge(t)
	used := 0
	for _, m := range linked {
		if _, err := j.licences(m); err != nil {
			t.Error(err)
		}
		for i, text := range m.texts {
			if reviewed(m.path, text) == "" {
				continue
			}
			used++
			changed := m
			changed.texts = slices.Clone(m.texts)
			changed.texts[i].content = append([]byte("Now with a fee. "), text.content...)
			if _, err := j.licences(changed); err == nil {
				t.Errorf("%s %s was changed and nobody minds", m.path, text.name)
			}
		}
	}
	if used != len(reviews()) {
		t.Errorf("%d of %d reviews are of what is linked in", used, len(reviews()))
	}
	if len(linked) < 20 {
		t.Errorf("only %d modules are linked in", len(linked))
	}
}

func TestTextsBesideLinkedPackagesAndAboveThemAreRead(t *testing.T) {
	root := t.TempDir()
	for path, text := range map[string]string{
		"LICENSE": "a", "LICENSE.go": "code", "licenses/one.txt": "b", "sub/COPYING": "c", "other/LICENSE": "not asked for", "licensed.txt": "no",
	} {
		path = filepath.Join(root, path)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	var m module
	for _, dir := range []string{filepath.Join(root, "sub"), root} {
		if err := m.read(root, dir); err != nil {
			t.Fatal(err)
		}
	}
	var names []string
	for _, text := range m.texts {
		names = append(names, text.name)
	}
	if want := []string{"sub/COPYING", "LICENSE", "licenses/one.txt"}; !slices.Equal(names, want) {
		t.Errorf("%v were read, want %v", names, want)
	}
}

func TestAnOldEncodingBecomesReadable(t *testing.T) {
	if got := readable([]byte("Caf\xe9")); got != "Café" {
		t.Errorf("%q", got)
	}
	if got := readable([]byte("Café")); got != "Café" {
		t.Errorf("%q", got)
	}
}

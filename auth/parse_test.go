package auth

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
)

func TestAFileIsReadWithItsCommentsAndBlanks(t *testing.T) {
	c := loaded(
		t, "# who may do what\r\n", "\n", "  \t \n",
		"  "+strings.TrimSpace(lineOf(t, "a", "write,read:acme*", "admin:x"))+"  # a comment\r\n",
		"\t#"+lineOf(t, "off", "read:*"),
		lineOf(t, "b_2-B", "read:*"),
		strings.TrimSuffix(fastLineOf(t, "made", NewSecret(), "read:*"), "\n"),
	)
	want := []Listed{
		{Name: "a", Grants: []string{"read,write:acme*", "admin:x"}, Scheme: "pbkdf2-sha256", Iterations: IterationsMin, Line: 4},
		{Name: "b_2-B", Grants: []string{"read:*"}, Scheme: "pbkdf2-sha256", Iterations: IterationsMin, Line: 6},
		{Name: "made", Grants: []string{"read:*"}, Scheme: "sha256", Line: 7},
	}
	if diff := cmp.Diff(want, c.List()); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestAFileWithoutPrincipalsIsRefused(t *testing.T) {
	for _, text := range []string{"", "\n", "# nobody\n"} {
		_, err := Load(fileOf(t, text))
		var refused *FileError
		if !errors.As(err, &refused) || len(refused.Problems) != 1 || !strings.Contains(err.Error(), "no principal") {
			t.Errorf("%q: %v", text, err)
		}
	}
}

func TestAllProblemsAreReportedAtOnceWithTheirLines(t *testing.T) {
	good := lineOf(t, "a", "read:*")
	hash := strings.Fields(good)[1]
	_, err := Load(fileOf(
		t, good, "# comment\n", "b.c "+hash+" read:*\n", "d "+hash+"\n", good,
		"e hunter2hunter2hunter2 read:*\n", "f "+hash+" fly:* read:\n",
	))
	var problem *FileError
	if !errors.As(err, &problem) {
		t.Fatalf("not a FileError: %v", err)
	}
	lines := make(map[int][]string)
	for _, p := range problem.Problems {
		lines[p.Line] = append(lines[p.Line], p.Text)
	}
	for line, wants := range map[int][]string{
		3: {"'.'"}, 4: {"not three fields"}, 5: {"is on line 1 already"},
		6: {"felixd credentials add hashes it"}, 7: {"grant 1 has an action", "grant 2 names no tenant"},
	} {
		if len(lines[line]) != len(wants) {
			t.Errorf("line %d: %q", line, lines[line])
			continue
		}
		for i, want := range wants {
			if !strings.Contains(lines[line][i], want) || !strings.Contains(err.Error(), fmt.Sprintf("line %d: %s", line, lines[line][i])) {
				t.Errorf("line %d: %q, want %q, all in %q", line, lines[line][i], want, err)
			}
		}
	}
	if len(lines) != 5 {
		t.Errorf("problems on other lines too: %v", lines)
	}
	if strings.Contains(err.Error(), "hunter2") || strings.Contains(err.Error(), hash) {
		t.Errorf("the error holds a secret or a hash: %v", err)
	}
}

func TestNoProblemQuotesASecretInTheWrongPlace(t *testing.T) {
	hash := strings.Fields(lineOf(t, "a", "read:*"))[1]
	const secret = "hunter2:hunter2.hunter2"
	for _, text := range []string{secret, secret + " a read:*", "a " + secret + " read:*", "a " + hash + " " + secret, "a read:* " + hash, hash + " a read:*", hash + " a\n" + hash + " a"} {
		_, err := Load(fileOf(t, text))
		if err == nil || strings.Contains(err.Error(), "hunter2") || strings.Contains(err.Error(), hash[:25]) {
			t.Errorf("%v", err)
		}
	}
}

func TestAHashThatCannotBeReadOrCostsTooMuchIsRefused(t *testing.T) {
	salt, sum := strings.Repeat("A", 22), strings.Repeat("A", 43)
	for text, want := range map[string]string{
		"plain-secret":                                              "pbkdf2-sha256$ITERATIONS$SALT$HASH",
		"pbkdf2-sha512$1000$" + salt + "$" + sum:                    "pbkdf2-sha256$ITERATIONS$SALT$HASH",
		"pbkdf2-sha256$1000$" + salt:                                "pbkdf2-sha256$ITERATIONS$SALT$HASH",
		"pbkdf2-sha256$1000$" + salt + "$" + sum + "$":              "pbkdf2-sha256$ITERATIONS$SALT$HASH",
		"pbkdf2-sha256$999$" + salt + "$" + sum:                     "from 1000 to 10000000",
		"pbkdf2-sha256$10000001$" + salt + "$" + sum:                "from 1000 to 10000000",
		"pbkdf2-sha256$99999999999999999999$" + salt + "$" + sum:    "from 1000 to 10000000",
		"pbkdf2-sha256$-1000$" + salt + "$" + sum:                   "from 1000 to 10000000",
		"pbkdf2-sha256$$" + salt + "$" + sum:                        "from 1000 to 10000000",
		"pbkdf2-sha256$1000$" + salt[:20] + "$" + sum:               "16 to 64 bytes",
		"pbkdf2-sha256$1000$" + strings.Repeat("A", 88) + "$" + sum: "16 to 64 bytes",
		"pbkdf2-sha256$1000$" + salt + "==$" + sum:                  "without padding",
		"pbkdf2-sha256$1000$" + salt[:21] + "B$" + sum:              "16 to 64 bytes", // bits past the end
		"pbkdf2-sha256$1000$" + salt + "$" + sum[:42]:               "is not 32 bytes",
		"pbkdf2-sha256$1000$" + salt + "$" + sum + "=":              "without padding",
		"pbkdf2-sha256$1000$" + salt + "$" + sum[:42] + "!":         "is not 32 bytes",
		"pbkdf2-sha256$" + salt + "$" + sum:                         "sha256$SALT$HASH",
		"sha256$1000$" + salt + "$" + sum:                           "sha256$SALT$HASH",
		"sha256$" + salt:                                            "sha256$SALT$HASH",
		"sha256$" + salt[:20] + "$" + sum:                           "16 to 64 bytes",
		"sha256$" + salt + "$" + sum[:42]:                           "is not 32 bytes",
	} {
		_, err := parseHash(text)
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", text, err, want)
		}
	}
	if _, err := parseHash("pbkdf2-sha256$10000000$" + salt + "$" + sum); err != nil {
		t.Errorf("the most iterations: %v", err)
	}
}

func TestPrincipalsGrantsAndProblemsAreBounded(t *testing.T) {
	hash := strings.Fields(lineOf(t, "a", "read:*"))[1]
	var many strings.Builder
	for i := range PrincipalsMax {
		fmt.Fprintf(&many, "p%d %s read:*\n", i, hash)
	}
	if lines, problems := parse(many.String()); len(problems) > 0 || len(lines) != PrincipalsMax {
		t.Errorf("%d lines: %v", len(lines), problems)
	}
	for want, text := range map[string]string{
		"more than 4096 principals":      many.String() + "last " + hash + " read:*\n",
		"65 grants; 1 to 64 are allowed": "a " + hash + strings.Repeat(" read:a", GrantsMax+1),
		"search for problems ended":      strings.Repeat("a\n", 1000),
		"has 129 bytes; 128 are allowed": strings.Repeat("n", 129) + " " + hash + " read:*",
	} {
		_, problems := parse(text)
		if len(problems) == 0 || !strings.Contains(problems[len(problems)-1].Text, want) || len(problems) > problemsMax+GrantsMax {
			t.Errorf("%d problems, the last %v, want %q", len(problems), problems[max(0, len(problems)-1):], want)
		}
	}
	err := &FileError{Path: "f", Problems: make([]Problem, 50)}
	if !strings.HasSuffix(err.Error(), "; and 30 more problems") {
		t.Errorf("a long message: %v", err)
	}
}

// FuzzCredentialsFile wants every text read or refused with line numbers, within
// bounds, and what was read to be read again from its printed form.
func FuzzCredentialsFile(f *testing.F) {
	good := lineOf(f, "a", "read,write:acme*", "admin:*")
	for _, seed := range []string{
		good, fastLineOf(f, "made", NewSecret(), "read:*"), good + good, "# x\n" + good, "a b\n", "\xef\xbb\xbf" + good, "a$b $$$ :\n", strings.ReplaceAll(good, "$1000$", "$9999999999$"),
		strings.ReplaceAll(good, " ", "\t"), strings.ReplaceAll(good, "\n", "\r\n"), "\x00 \x00 \x00", "a\n\n\n\nb", "a " + strings.Repeat("$", 500) + " read:a",
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		lines, problems := parse(text)
		count := strings.Count(text, "\n") + 1
		for _, p := range problems {
			if p.Line < 1 || p.Line > count || p.Text == "" || !utf8.ValidString(p.Text) || len(p.Text) > 1000 {
				t.Fatalf("a problem on line %d of %d: %q", p.Line, count, p.Text)
			}
		}
		if len(problems) > 0 {
			return
		}
		var printed strings.Builder
		for _, l := range lines {
			slow := !strings.HasPrefix(l.hash.text, "sha256$")
			if slow != (l.hash.iterations >= IterationsMin) || l.hash.iterations > IterationsMax || len(l.grants) == 0 {
				t.Fatalf("line %d is out of bounds: %+v", l.number, l)
			}
			fmt.Fprintf(&printed, "%s %s", l.name, l.hash.text)
			for _, g := range l.grants {
				fmt.Fprintf(&printed, " %s", g)
			}
			fmt.Fprintln(&printed)
		}
		again, problems := parse(printed.String())
		if len(problems) > 0 || len(again) != len(lines) {
			t.Fatalf("%d of %d lines are read again: %v", len(again), len(lines), problems)
		}
		for i, l := range lines {
			l.number = again[i].number
			if diff := cmp.Diff(l, again[i], cmp.AllowUnexported(line{}, secretHash{}, grant{})); diff != "" {
				t.Fatal(diff)
			}
		}
	})
}

package auth

import (
	"strings"
	"testing"
)

func TestAGrantAllowsWhatItSaysAndNothingElse(t *testing.T) {
	for _, row := range []struct {
		grants  string
		allowed []string // "action tenant"
		denied  []string
	}{
		{"read:acme", []string{"read acme"}, []string{"write acme", "admin acme", "read acme2", "read acm", "read ", "read ACME"}},
		{"read:acme*", []string{"read acme", "read acme2", "read acme-eu"}, []string{"read acm", "write acme", "read xacme", "read "}},
		{"write:*", []string{"write acme", "write x", "write "}, []string{"read acme", "admin acme"}},
		{"read,write:acme", []string{"read acme", "write acme"}, []string{"admin acme"}},
		{"admin:*", []string{"admin acme"}, []string{"read acme", "write acme"}},
		{"read:a write:b", []string{"read a", "write b"}, []string{"write a", "read b"}},
		{"read:a read:b", []string{"read a", "read b"}, []string{"read c"}},
		{"read,read:a", []string{"read a"}, []string{"write a"}},
		{"admin,write,read:t", []string{"read t", "write t", "admin t"}, []string{"read u"}},
	} {
		c := loaded(t, lineOf(t, "p", row.grants))
		p, err := c.Verify(t.Context(), "p", secretOf("p"))
		if err != nil {
			t.Fatal(err)
		}
		allows := func(text string) bool {
			word, tenant, _ := strings.Cut(text, " ")
			action, known := actionOf(word)
			if !known {
				t.Fatalf("no action %q", word)
			}
			return p.Allows(action, tenant)
		}
		for _, text := range row.allowed {
			if !allows(text) {
				t.Errorf("%s does not allow %s", row.grants, text)
			}
		}
		for _, text := range row.denied {
			if allows(text) {
				t.Errorf("%s allows %s", row.grants, text)
			}
		}
		if p.Allows(actionCount, "acme") || p.Allows(255, "acme") {
			t.Errorf("%s allows an action that is none", row.grants)
		}
	}
}

func TestAGrantThatCannotBeReadSaysWhatIsWrong(t *testing.T) {
	for text, want := range map[string]string{
		"read":                             "is not ACTIONS:TENANT",
		"":                                 "is not ACTIONS:TENANT",
		"read:":                            "names no tenant",
		":acme":                            "has an action that is none of",
		"read,:acme":                       "has an action that is none of",
		"Read:acme":                        "has an action that is none of",
		"all:acme":                         "none of read, write, admin",
		"read:ac*me":                       `the byte '*'`,
		"read:**":                          `the byte '*'`,
		"read:a/b":                         `the byte '/'`,
		"read:..":                          `the byte '.'`,
		"read:a:b":                         `the byte ':'`,
		"read:\x00":                        `the byte '\x00'`,
		"read:täglich*":                    "the byte",
		"read:" + strings.Repeat("a", 129): "has 129 bytes",
	} {
		_, err := parseGrant(text)
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", text, err, want)
		}
	}
}

func TestAGrantIsPrintedAsItCanBeReadAgain(t *testing.T) {
	for text, want := range map[string]string{
		"write,read:acme*": "read,write:acme*",
		"admin:*":          "admin:*",
		"read:acme":        "read:acme",
	} {
		g, err := parseGrant(text)
		if err != nil {
			t.Fatal(err)
		}
		again, err := parseGrant(g.String())
		if g.String() != want || err != nil || again != g {
			t.Errorf("%s is printed as %s, which is %v, %v", text, g, again, err)
		}
	}
}

func TestWithoutAuthenticationEverythingIsAllowed(t *testing.T) {
	var nobody *Principal
	for _, p := range []*Principal{nobody, Anonymous()} {
		for action := range actionCount {
			if !p.Allows(action, "acme") {
				t.Errorf("%v is not allowed", action)
			}
		}
		if p.Name() != "(anonymous)" {
			t.Errorf("the name is %q", p.Name())
		}
	}
}

func TestAZeroPrincipalMayDoNothing(t *testing.T) {
	if new(Principal).Allows(Read, "acme") {
		t.Error("it is allowed to read")
	}
}

func TestActionsHaveTheWordsOfTheFile(t *testing.T) {
	if got := Read.String() + Write.String() + Admin.String() + Action(9).String(); got != "readwriteadminunknown action" {
		t.Error(got)
	}
}

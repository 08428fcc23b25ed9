package main

import (
	"bytes"
	"strings"
	"testing"
)

// A demo that could not fail would show nothing.
func TestTheDemoSeesWhatIsMissingAndWhatCameTwice(t *testing.T) {
	for name, c := range map[string]struct {
		payloads       []string
		missing, twice int
	}{
		"all is well":          {[]string{"a", "b", "c"}, 0, 0},
		"one is missing":       {[]string{"a", "b"}, 1, 0},
		"one is another":       {[]string{"a", "x", "c"}, 1, 0},
		"one is there twice":   {[]string{"a", "b", "c", "a"}, 0, 1},
		"they changed places":  {[]string{"b", "a", "c"}, 2, 0},
		"nothing came through": {nil, 3, 0},
	} {
		t.Run(name, func(t *testing.T) {
			d := &demo{feed: &demoFeed{payloads: c.payloads}, acked: map[uint64]string{0: "a", 1: "b", 2: "c"}}
			if missing, twice := d.missing(); missing != c.missing || twice != c.twice {
				t.Errorf("%d missing and %d twice, want %d and %d", missing, twice, c.missing, c.twice)
			}
		})
	}
}

func TestAClaimThatDoesNotHoldIsCountedAndShown(t *testing.T) {
	var stdout bytes.Buffer
	d := &demo{out: &output{w: &stdout}}
	if err := d.claim(false, "one and one is three", "%d", 1+1); err != nil {
		t.Fatal(err)
	}
	if d.claims != 1 || d.failed != 1 || !strings.HasPrefix(stdout.String(), "FAIL  one and one is three: 2") {
		t.Errorf("%d claims, %d failed: %s", d.claims, d.failed, stdout.String())
	}
}

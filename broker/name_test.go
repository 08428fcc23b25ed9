package broker_test

import (
	"errors"
	"strings"
	"testing"

	"felix.local/felix/broker"
)

func TestANamePartIsLettersDigitsDashAndUnderscore(t *testing.T) {
	for _, part := range []string{
		"a", "Z", "0", "-", "_", "orders", "Orders-2026_eu", strings.Repeat("x", broker.NamePartMax), "CON", "tmp", "deleted",
	} {
		for _, n := range inEachPlace(part) {
			if err := n.Validate(); err != nil {
				t.Errorf("%q: %v", part, err)
			}
			back, err := broker.ParseName(n.String())
			if err != nil || back != n {
				t.Errorf("%v reads back as %v, %v", n, back, err)
			}
		}
	}
}

func TestANameThatCouldMeanAPathIsRefused(t *testing.T) {
	for what, part := range map[string]string{
		"empty": "", "dot": ".", "dots": "..", "parent": "../x", "slash": "a/b", "absolute": "/etc", "backslash": `a\b`,
		"NUL": "a\x00b", "newline": "a\nb", "space": "a b", "dotted": "a.b", "hidden": ".felixd", "tilde": "~root",
		"percent": "%2e%2e", "300 characters": strings.Repeat("n", 300), "one too long": strings.Repeat("n", broker.NamePartMax+1),
		"umlaut": "größe", "emoji": "📦", "right to left": "a\u202eb", "no UTF-8": "\xff\xfe", "DEL": "a\x7f", "high bit": "a\x80",
		"full-width slash": "a\uff0fb", "combining": "e\u0301",
	} {
		t.Run(what, func(t *testing.T) {
			for _, n := range inEachPlace(part) {
				var refused *broker.NameError
				if err := n.Validate(); !errors.As(err, &refused) || refused.Text != part {
					t.Errorf("Validate says %v", err)
				} else if len(err.Error()) > 400 {
					t.Errorf("the error has %d bytes", len(err.Error()))
				}
				if back, err := broker.ParseName(n.String()); err == nil {
					t.Errorf("ParseName(%q) gives %v", n.String(), back)
				}
			}
		})
	}
}

// inEachPlace gives the names that have part as one of their parts.
func inEachPlace(part string) []broker.StreamName {
	return []broker.StreamName{
		{Tenant: part, Namespace: "n", Stream: "s"}, {Tenant: "t", Namespace: part, Stream: "s"}, {Tenant: "t", Namespace: "n", Stream: part},
	}
}

func TestATextIsANameOnlyWithThreeParts(t *testing.T) {
	for _, text := range []string{"", "a", "a/b", "a/b/c/d", "/a/b/c", "a/b/c/", "a//c", "//", "a.b.c"} {
		var refused *broker.NameError
		if n, err := broker.ParseName(text); !errors.As(err, &refused) {
			t.Errorf("ParseName(%q) gives %v, %v", text, n, err)
		}
	}
}

// Every way in refuses such a name before anything is looked up or made.
func TestNoNameReachesTheDiskUnchecked(t *testing.T) {
	r := newRig(t)
	before := listing(t, r.cfg.Root)
	for _, n := range inEachPlace("../../x") {
		var refused *broker.NameError
		_, created, err := r.b.CreateStream(r.ctx, n, broker.StreamConfig{Durable: true})
		if !errors.As(err, &refused) || created {
			t.Errorf("creating %q: %v", n, err)
		}
		if err := r.b.DeleteStream(r.ctx, n); !errors.As(err, &refused) {
			t.Errorf("deleting %q: %v", n, err)
		}
		if _, err := r.b.Stream(n); !errors.As(err, &refused) {
			t.Errorf("looking up %q: %v", n, err)
		}
	}
	if after := listing(t, r.cfg.Root); after != before {
		t.Errorf("the root held\n%s\nand holds\n%s", before, after)
	}
}

// The longest names have files and directories that any filesystem takes.
func TestTheLongestNamesAreServed(t *testing.T) {
	long := strings.Repeat("L", broker.NamePartMax)
	r := newRig(t)
	a := broker.StreamName{Tenant: long, Namespace: long, Stream: long}
	b := broker.StreamName{Tenant: long, Namespace: long, Stream: long[1:] + "x"}
	for _, n := range []broker.StreamName{a, b} {
		r.publish(r.create(n, broker.StreamConfig{Durable: true}), 0, n.Stream[100:])
	}
	r.reopen()
	for _, n := range []broker.StreamName{a, b} {
		r.wantTexts(r.stream(n), 0, 0, n.Stream[100:])
	}
}

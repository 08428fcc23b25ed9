package sidecar

import (
	"bytes"
	"errors"
	"io"
	"regexp"
	"strings"
	"testing"

	"felix.local/felix/internal/golden"
)

func TestALeaderThatCouldNotBeReadBackIsNotWritten(t *testing.T) {
	for name, c := range map[string]struct {
		leader string
		want   error
	}{
		"1024 bytes":    {strings.Repeat("x", 1024), nil},
		"1025 bytes":    {strings.Repeat("x", 1025), ErrContent},
		"not UTF-8":     {"a\xffb", ErrContent},
		"two-byte text": {strings.Repeat("é", 512), nil},
		"nobody":        {"", nil},
	} {
		t.Run(name, func(t *testing.T) {
			if err := CheckLeader(c.leader); !errors.Is(err, c.want) {
				t.Fatalf("checked: %v, want %v", err, c.want)
			}
			b, err := Ballot{Generation: 9, Leader: c.leader}.AppendTo([]byte("head"))
			if !errors.Is(err, c.want) {
				t.Fatalf("%v, want %v", err, c.want)
			}
			if err != nil {
				if string(b) != "head" {
					t.Fatalf("%q was appended", b)
				}
				return
			}
			if len(b) > len("head")+BallotBytesMax {
				t.Fatalf("%d bytes", len(b))
			}
			back, err := DecodeBallot(b[len("head"):])
			if err != nil || back.Leader != c.leader || back.Generation != 9 {
				t.Fatalf("%+v, %v", back, err)
			}
		})
	}
}

func TestAnIntactBallotWithTooLongALeaderIsRefused(t *testing.T) {
	for size, want := range map[int]error{1024: nil, 1025: ErrContent, 65535: ErrContent} {
		b := append([]byte("FLBL\x00\x01"), byte(size>>8), byte(size), 0, 0, 0, 0, 0, 0, 0, 3)
		b = appendChecksum(append(b, bytes.Repeat([]byte("x"), size)...), 0)
		if _, err := DecodeBallot(b); !errors.Is(err, want) {
			t.Errorf("%d bytes: %v, want %v", size, err, want)
		}
	}
}

func TestFlagsOfALaterBuildSurviveARewrite(t *testing.T) {
	b := seal("replica", append(golden.Bytes(t, "replica")[:6:6], append([]byte{0x80, 0x04}, golden.Bytes(t, "replica")[8:]...)...))
	r, err := DecodeReplica(b)
	if err != nil || r.OtherFlags != 0x8004 || r.RetentionHeld {
		t.Fatalf("%+v, %v", r, err)
	}
	r.RetentionHeld, r.Commit = true, 11
	again, err := DecodeReplica(r.AppendTo(nil))
	if err != nil || again != r || again.OtherFlags != 0x8004 || !again.RetentionHeld {
		t.Fatalf("%+v, %v", again, err)
	}
	// The bit that is known has one place to say it.
	plain, err := DecodeReplica(Replica{OtherFlags: 0xffff}.AppendTo(nil))
	if err != nil || plain.RetentionHeld || plain.OtherFlags != 0xfffe {
		t.Fatalf("%+v, %v", plain, err)
	}
}

func TestNodeIDsAreSafePathSegments(t *testing.T) {
	for id, want := range map[string]error{
		"8f14e45fceea467f9c1b2d3e4f506172": nil,
		"broker-1":                         nil,
		"Broker_1.eu":                      nil,
		"-":                                nil,
		"a..b":                             nil,
		strings.Repeat("x", 255):           nil,
		strings.Repeat("x", 256):           ErrContent,
		"":                                 ErrContent,
		".":                                ErrContent,
		"..":                               ErrContent,
		".hidden":                          ErrContent,
		"a/b":                              ErrContent,
		`a\b`:                              ErrContent,
		"a b":                              ErrContent,
		"é":                                ErrContent,
		"a\x00":                            ErrContent,
		"a\n":                              ErrContent,
	} {
		if err := NodeID(id).Check(); !errors.Is(err, want) {
			t.Errorf("%q: %v, want %v", id, err, want)
		}
	}
	for text, want := range map[string]NodeID{"": "", " \n\t": "", "\n broker-1\r\n": "broker-1"} {
		if id, err := DecodeNodeID([]byte(text)); err != nil || id != want {
			t.Errorf("%q: %q, %v, want %q", text, id, err, want)
		}
	}
	for n, want := range map[int]error{FileBytesMax: nil, FileBytesMax + 1: ErrSize} {
		if _, err := DecodeNodeID(bytes.Repeat([]byte(" "), n)); !errors.Is(err, want) {
			t.Errorf("%d blanks: %v, want %v", n, err, want)
		}
	}
}

func TestNewIDsComeFromTheRandomBytes(t *testing.T) {
	random := bytes.Repeat([]byte{0xff}, 16)
	storage, err := NewStorageID(bytes.NewReader(random))
	if err != nil || storage.String() != strings.Repeat("f", 32) {
		t.Errorf("%v, %v", storage, err)
	}
	node, err := NewNodeID(bytes.NewReader(random))
	if err != nil || node != "ffffffffffff4fffbfffffffffffffff" || node.Check() != nil {
		t.Errorf("%v, %v", node, err)
	}
	node, err = NewNodeID(bytes.NewReader(make([]byte, 16)))
	if err != nil || !regexp.MustCompile(`^[0-9a-f]{12}4[0-9a-f]{3}[89ab][0-9a-f]{15}$`).MatchString(string(node)) {
		t.Errorf("%v, %v", node, err)
	}
	if storage, err = NewStorageID(bytes.NewReader(random[:15])); !errors.Is(err, io.ErrUnexpectedEOF) || storage != (StorageID{}) {
		t.Errorf("15 bytes: %v, %v", storage, err)
	}
	if node, err = NewNodeID(bytes.NewReader(random[:15])); !errors.Is(err, io.ErrUnexpectedEOF) || node != "" {
		t.Errorf("15 bytes: %v, %v", node, err)
	}
}

func TestMarkersAreNamedAfterTheirStreams(t *testing.T) {
	names := make(map[string]bool)
	for _, c := range []struct{ tenant, namespace, stream, want string }{
		{"acme", "default", "orders", "acme_default_orders-fcb9248e5af0da18"},
		{"", "", "", "_____-81d23fd7003c2305"},
		{"a/b", "c.d", "..", "a_b_c_d___-2ecaae4254469638"},
		{"Ünï", "ns", "ordres-é", "_n__ns_ordres-_-d719ca8bee21b551"},
		{strings.Repeat("x", 40), "ns", "s", strings.Repeat("x", 32) + "_ns_s-94216778636da808"},
		{strings.Repeat("x", 41), "ns", "s", strings.Repeat("x", 32) + "_ns_s-be39adda1da71611"},
		{"a", "bc", "d", "a_bc_d-84aa993085ef4e65"},
		{"ab", "c", "d", "ab_c_d-b275ff65e9ea0e0d"},
	} {
		name := MarkerName(c.tenant, c.namespace, c.stream)
		if name != c.want || names[name] {
			t.Errorf("%q, want %q", name, c.want)
		}
		names[name] = true
	}
}

func TestAMarkerOfALaterBuildKeepsItsMeaning(t *testing.T) {
	text := "version 1\ncreated_by felix 9\nincarnation 18446744073709551615\ndeleted_through 6\ndeleting 0\n"
	want := Marker{Incarnation: 1<<64 - 1, DeletedThrough: 6}
	for _, b := range [][]byte{[]byte(text), seal("marker", []byte(text+"crc32 0\n"))} {
		if m, err := DecodeMarker(b); err != nil || m != want {
			t.Errorf("%q: %+v, %v", b, m, err)
		}
	}
	for _, bad := range []string{
		strings.Replace(text, "18446744073709551615", "18446744073709551616", 1),
		strings.Replace(text, "deleting 0", "deleting", 1),
		strings.Replace(text, "deleting 0", "deleting 00x", 1),
		strings.Replace(text, "deleting 0\n", "", 1),
		string(seal("marker", []byte(text+"crc32 0\n"))) + "later 1\n",
		text + "crc32 zz\n",
		text + "\n",
	} {
		if m, err := DecodeMarker([]byte(bad)); !errors.Is(err, ErrContent) || m != (Marker{}) {
			t.Errorf("%q: %+v, %v", bad, m, err)
		}
	}
	long := text + "more " + strings.Repeat("x", FileBytesMax-len(text)-len("more \n")) + "\n"
	if m, err := DecodeMarker([]byte(long)); err != nil || m != want {
		t.Errorf("%d bytes: %+v, %v", len(long), m, err)
	}
	if _, err := DecodeMarker([]byte(long + "x 1\n")); !errors.Is(err, ErrSize) {
		t.Errorf("%d bytes: %v", len(long)+4, err)
	}
}

func TestErrorsSayWhatWasFound(t *testing.T) {
	for want, decode := range map[string]func() error{
		"replica: too short: 3 bytes, expected 28": func() error {
			_, err := DecodeReplica([]byte("FLR"))
			return err
		},
		"replica: not a file of this kind: found 464c424c, expected 464c5253": func() error {
			_, err := DecodeReplica(golden.Bytes(t, "ballot"))
			return err
		},
		"replica: unknown version: 2, this build knows 1": func() error {
			_, err := DecodeReplica([]byte("FLRS\x00\x02"))
			return err
		},
		"replica: too long: 29 bytes, expected 28": func() error {
			_, err := DecodeReplica(append(golden.Bytes(t, "replica"), 0))
			return err
		},
		"ballot: wrong checksum: found cb84bcf5, expected afe5d13c": func() error {
			b := golden.Bytes(t, "ballot")
			b[15]++
			_, err := DecodeBallot(b)
			return err
		},
		"run-state: impossible content: state 9 is neither running (1) nor stopped cleanly (2)": func() error {
			_, err := DecodeRunState(RunState{State: 9}.AppendTo(nil))
			return err
		},
		"marker: too short: the last line has no end": func() error {
			_, err := DecodeMarker([]byte("version 1"))
			return err
		},
	} {
		if err := decode(); err == nil || err.Error() != want {
			t.Errorf("%v\nwant %s", err, want)
		}
	}
}

func TestStatesHaveNames(t *testing.T) {
	for s, want := range map[State]string{Running: "running", Stopped: "stopped cleanly", 0: "unknown"} {
		if s.String() != want {
			t.Errorf("%d is %q, want %q", s, s, want)
		}
	}
}

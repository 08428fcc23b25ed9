package sidecar

import (
	"encoding/hex"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"felix.local/felix/internal/golden"
)

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// history makes epochs of (generation, start) pairs.
func history(pairs ...uint64) Epochs {
	var e Epochs
	for i := 0; i < len(pairs); i += 2 {
		e.Record(pairs[i], pairs[i+1])
	}
	return e
}

var values = cmp.AllowUnexported(Epochs{}, Offload{})

// codec is one kind of file, its values as any.
type codec struct {
	decode func([]byte) (any, error)
	encode func(any) []byte
}

func codecOf[T any](decode func([]byte) (T, error), encode func(T) []byte) codec {
	return codec{
		decode: func(b []byte) (any, error) { return decode(b) },
		encode: func(v any) []byte { return encode(v.(T)) },
	}
}

// codecs are by the names of the files.
func codecs() map[string]codec {
	return map[string]codec{
		"epochs":  codecOf(DecodeEpochs, func(e Epochs) []byte { return e.AppendTo(nil) }),
		"replica": codecOf(DecodeReplica, func(r Replica) []byte { return r.AppendTo(nil) }),
		"ballot": codecOf(DecodeBallot, func(b Ballot) []byte {
			out, err := b.AppendTo(nil)
			if err != nil {
				panic(err)
			}
			return out
		}),
		"offload.manifest": codecOf(DecodeOffload, func(o Offload) []byte { return o.AppendTo(nil) }),
		"keys.idx": codecOf(DecodeKeysIndex, func(x KeysIndex) []byte {
			out, err := x.AppendTo(nil)
			if err != nil {
				panic(err)
			}
			return out
		}),
		"storage-id":   codecOf(DecodeStorageID, func(id StorageID) []byte { return id.AppendTo(nil) }),
		"run-state":    codecOf(DecodeRunState, func(r RunState) []byte { return r.AppendTo(nil) }),
		"registration": codecOf(DecodeRegistration, func(r Registration) []byte { return r.AppendTo(nil) }),
		"node-id":      codecOf(DecodeNodeID, func(id NodeID) []byte { return id.AppendTo(nil) }),
		"marker":       codecOf(DecodeMarker, func(m Marker) []byte { return m.AppendTo(nil) }),
	}
}

// codecFor finds the codec of a golden file, whose name begins with the file's.
func codecFor(t testing.TB, name string) codec {
	t.Helper()
	for file, c := range codecs() {
		if strings.HasPrefix(name, file) {
			return c
		}
	}
	t.Fatalf("%q is no kind of file", name)
	return codec{}
}

// sampleID is the id of the vectors.
var sampleID = StorageID{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15}

// sampleCopy and sampleKeys are those of the vectors.
var sampleCopy = OffloadedCopy{
	Last: 999, Size: 65536, OldestMicros: 1000, NewestMicros: 2000, Checksum: 0xdeadbeef,
	Key: "broker-1/acme_default_orders_0-0d3aed4b998d2798/00000000000000000000-00000000000000000000.segment",
}

var sampleKeys = KeysIndex{
	KeysHeader: KeysHeader{CoveredThrough: 4, LogBytes: 72, LastChecksum: 0x11223344},
	Entries: []KeyEntry{
		{Key: "a", Offset: 2, Version: 2, PayloadBytes: 18},
		{Key: "b", Offset: 3, Version: 3, ExpiresAtMillis: 1000, PayloadBytes: 18},
	},
}

// goldenValues are what the vectors hold.
func goldenValues() map[string]any {
	return map[string]any{
		"epochs":                 history(1, 0, 3, 10),
		"replica":                Replica{Generation: 3, Commit: 10},
		"replica-held":           Replica{Generation: 3, Commit: 10, RetentionHeld: true},
		"ballot":                 Ballot{Generation: 3, Leader: "broker-1"},
		"ballot-given-up":        Ballot{Generation: 3},
		"offload.manifest":       Offload{copies: []OffloadedCopy{sampleCopy}},
		"offload.manifest-empty": Offload{},
		"keys.idx":               sampleKeys,
		"keys.idx-empty":         KeysIndex{},
		"storage-id":             sampleID,
		"storage-id-packed":      sampleID,
		"run-state-running":      RunState{State: Running, AcksBeforeSync: true, ID: sampleID},
		"run-state-stopped":      RunState{State: Stopped, ID: sampleID},
		"registration":           Registration{Incarnation: 7},
		"registration-packed":    Registration{Incarnation: 7},
		"node-id":                NodeID("8f14e45fceea467f9c1b2d3e4f506172"),
		"marker":                 Marker{Incarnation: 0x6411a0ccf2e40, DeletedThrough: 7, Deleting: true},
		"marker-plain":           Marker{},
	}
}

func TestGoldenFilesDecodeAndEncode(t *testing.T) {
	// These are read, and written in another way.
	readOnly := map[string]bool{"storage-id-packed": true, "registration-packed": true, "marker-plain": true}
	for name, want := range goldenValues() {
		t.Run(name, func(t *testing.T) {
			c, b := codecFor(t, name), golden.Bytes(t, name)
			got, err := c.decode(b)
			if diff := cmp.Diff(want, got, values); err != nil || diff != "" {
				t.Fatalf("decoding: %v\n%s", err, diff)
			}
			if encoded := c.encode(want); string(encoded) != string(b) != readOnly[name] {
				t.Fatalf("encoded:\n%swant:\n%s", hex.Dump(encoded), hex.Dump(b))
			}
			if diff := cmp.Diff(want, mustDecode(t, c, c.encode(want)), values); diff != "" {
				t.Fatal(diff)
			}
		})
	}
}

func mustDecode(t testing.TB, c codec, b []byte) any {
	t.Helper()
	v, err := c.decode(b)
	must(t, err)
	return v
}

func TestEncodingAppends(t *testing.T) {
	head := []byte("head")
	for name, appended := range map[string][]byte{
		"epochs":            history(1, 0, 3, 10).AppendTo(head),
		"replica":           Replica{Generation: 3, Commit: 10}.AppendTo(head),
		"storage-id":        sampleID.AppendTo(head),
		"run-state-stopped": RunState{State: Stopped, ID: sampleID}.AppendTo(head),
		"registration":      Registration{Incarnation: 7}.AppendTo(head),
		"marker":            Marker{Incarnation: 0x6411a0ccf2e40, DeletedThrough: 7, Deleting: true}.AppendTo(head),
	} {
		if want := "head" + string(golden.Bytes(t, name)); string(appended) != want {
			t.Errorf("%s: %q, want %q", name, appended, want)
		}
	}
	if o := (Offload{copies: []OffloadedCopy{sampleCopy}}); string(o.AppendTo(head)) != "head"+string(golden.Bytes(t, "offload.manifest")) {
		t.Errorf("offload.manifest: %q", o.AppendTo(head))
	}
	if keys, err := sampleKeys.AppendTo(head); err != nil || string(keys) != "head"+string(golden.Bytes(t, "keys.idx")) {
		t.Errorf("keys.idx: %q, %v", keys, err)
	}
	appended, err := Ballot{Generation: 3, Leader: "broker-1"}.AppendTo(head)
	if want := "head" + string(golden.Bytes(t, "ballot")); err != nil || string(appended) != want {
		t.Errorf("ballot: %q, %v, want %q", appended, err, want)
	}
}

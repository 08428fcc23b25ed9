package main

import (
	"bytes"
	"maps"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"felix.local/felix/segment"
	"felix.local/felix/test/matrix/plan"
)

// segmentAt makes a segment file of three records, all stamped with a time.
func segmentAt(micros uint64) []byte {
	b := segment.Header{Version: segment.VersionOldest, BaseOffset: 5, CreatedAtMicros: micros}.AppendTo(nil)
	for i, text := range []string{"one", "", "three"} {
		record := make([]byte, segment.EncodedSize(segment.Mark{}, len(text)))
		segment.EncodeRecord(record, uint64(5+i), micros+uint64(i), segment.Mark{}, []byte(text))
		b = append(b, record...)
	}
	return b
}

func TestSegmentsThatDifferInTheirTimesAloneAreTheSame(t *testing.T) {
	name := "shard/" + segment.LogName(3)
	a, b := segmentAt(1_000), segmentAt(1_700_000_000_000_000)
	if bytes.Equal(a, b) {
		t.Fatal("the times make no difference")
	}
	for _, s := range [][]byte{a, b} {
		if err := withoutTimes(name, s); err != nil {
			t.Fatal(err)
		}
	}
	if diff := cmp.Diff(a, b); diff != "" {
		t.Error(diff)
	}
	if !bytes.Contains(a, []byte("three")) {
		t.Error("the payloads are gone too")
	}
}

func TestADamagedSegmentHasNoChecksum(t *testing.T) {
	b := segmentAt(1)
	b[len(b)-1] ^= 1
	if err := withoutTimes(segment.LogName(3), b); err == nil {
		t.Error("damage is hidden")
	}
	before := bytes.Clone(b)
	if err := withoutTimes("durable.mark", b); err != nil || !bytes.Equal(b, before) {
		t.Errorf("another file is changed: %v", err)
	}
}

// Twice by the same backend and once by the other, on the disk for temporary files.
func TestStoresAreWrittenTheSameEveryTime(t *testing.T) {
	write := func(setting string) plan.Written {
		t.Setenv("FELIX_STORAGE_IO_URING", setting)
		out := plan.Written{Digests: make(map[string]string), Missing: make(map[string]string)}
		if err := writeStores(t.Context(), t.TempDir(), &out); err != nil {
			t.Fatal(err)
		}
		return out
	}
	first, second, third := write("0"), write("0"), write("1")
	if diff := cmp.Diff(first.Digests, second.Digests); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff(first.Digests, third.Digests); diff != "" {
		t.Error(diff)
	}
	if len(first.Digests) < 2 || first.Files < 20 {
		t.Errorf("got %+v", first)
	}
	// A filesystem without the journal says of each of them that it is missing.
	var names []string
	for _, s := range storeRuns() {
		names = append(names, s.digests()...)
	}
	if diff := cmp.Diff(slices.Sorted(slices.Values(names)), slices.Sorted(maps.Keys(first.Digests))); diff != "" {
		t.Error(diff)
	}
}

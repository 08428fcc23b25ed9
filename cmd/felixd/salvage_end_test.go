package main

import (
	"bytes"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"felix.local/felix/segment"
)

// A record with the last 64-bit offset belongs nowhere. Going back to it as the
// place to resume printed gaps for ever.
func TestARecordWithTheLastOffsetEndsASalvage(t *testing.T) {
	data := segment.Header{Version: segment.VersionDefault}.AppendTo(nil)
	for _, offset := range []uint64{0, math.MaxUint64} {
		record := make([]byte, segment.EncodedSize(segment.Mark{}, 2))
		segment.EncodeRecord(record, offset, 9, segment.Mark{}, []byte("hi"))
		data = append(data, record...)
	}
	path := filepath.Join(t.TempDir(), segment.LogName(0))
	if err := os.WriteFile(path, data, 0o600); err != nil {
		t.Fatal(err)
	}
	var stdout, stderr bytes.Buffer
	if code := run([]string{"log", "dump", "--json", "--skip-damaged", path}, &stdout, &stderr); code != exitGaps {
		t.Errorf("exit code %d, want %d\n%s", code, exitGaps, stderr.String())
	}
	if got := strings.Count(stdout.String(), `"event":"record"`); got != 1 {
		t.Errorf("%d records exported, want the 1 that has a place", got)
	}
}

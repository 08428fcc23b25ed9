package engine_test

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"felix.local/felix/engine"
	"felix.local/felix/segment"
)

// placeSegment writes a segment file of any version as an older build would have
// left it.
func placeSegment(t testing.TB, dir string, id uint64, header segment.Header, payloads ...string) {
	t.Helper()
	if err := os.MkdirAll(dir, 0o750); err != nil {
		t.Fatal(err)
	}
	b := header.AppendTo(nil)
	for i, text := range payloads {
		record := make([]byte, segment.EncodedSize(segment.Mark{}, len(text)))
		segment.EncodeRecord(record, header.BaseOffset+uint64(i), 9, segment.Mark{}, []byte(text))
		b = append(b, record...)
	}
	if err := os.WriteFile(filepath.Join(dir, segment.LogName(id)), b, 0o640); err != nil {
		t.Fatal(err)
	}
}

func (r *rig) versions() string {
	var list []string
	for _, d := range r.checkChain() {
		list = append(list, fmt.Sprintf("v%d:%d-%d", d.Version, d.BaseOffset, d.NextOffset))
	}
	return fmt.Sprint(list)
}

func (r *rig) wantVersions(want string) {
	r.Helper()
	if got := r.versions(); got != want {
		r.Fatalf("segments are %s, want %s", got, want)
	}
}

func mark(kind segment.Kind) engine.Record {
	record := engine.Record{Mark: segment.Mark{Kind: kind}, Payload: []byte("marked")}
	switch kind {
	case segment.BatchOpen:
		record.Mark.Producer, record.Mark.Sequence, record.Mark.Len = 1, 1, 1
	case segment.GenerationStart:
		record.Payload = segment.GenerationStartPayload(3)
	}
	return record
}

func TestARecordThatNeedsANewerVersionRollsFirst(t *testing.T) {
	root := memoryDir(t)
	placeSegment(t, filepath.Join(root, testKey(0).DirName()), 0,
		segment.Header{Version: 2, CreatedAtMicros: 5}, "a", "b")
	r := newRigIn(t, root)

	r.append(engine.Record{Payload: []byte("c")})
	r.wantVersions("[v2:0-3]")
	r.append(mark(segment.BatchOpen))
	r.wantVersions("[v2:0-3 v3:3-4]")
	r.append(engine.Record{}, mark(segment.BatchContinue))
	r.wantVersions("[v2:0-3 v3:3-6]")
	r.append(engine.Record{}, mark(segment.GenerationStart))
	r.wantVersions("[v2:0-3 v3:3-6 v4:6-8]")
	r.append(mark(segment.BatchOpen))
	r.reopen()
	r.append(engine.Record{Payload: make([]byte, 5000)})
	if _, err := r.log.Seal(r.ctx); err != nil {
		t.Fatal(err)
	}
	r.append(engine.Record{})
	r.wantVersions("[v2:0-3 v3:3-6 v4:6-9 v4:9-10 v4:10-11]")
	if n := len(r.readAll()); n != 11 {
		t.Fatalf("%d records", n)
	}
}

func TestAnEmptySegmentOfAnOlderVersionIsReplaced(t *testing.T) {
	r := newRig(t)
	r.append(mark(segment.GenerationStart))
	r.wantVersions("[v4:0-1]")
	entries, err := filepath.Glob(filepath.Join(r.log.Dir(), "*.log"))
	if err != nil || len(entries) != 1 {
		t.Fatalf("files %v, %v", entries, err)
	}
	r.reopen()
	r.append(engine.Record{})
	r.wantVersions("[v4:0-2]")
}

func TestAV2LogThatRollsForRoomGoesOnAtV3(t *testing.T) {
	root := memoryDir(t)
	placeSegment(t, filepath.Join(root, testKey(0).DirName()), 0, segment.Header{Version: 2, CreatedAtMicros: 5}, "a")
	r := newRigIn(t, root)
	r.append(engine.Record{Payload: make([]byte, 4060)})
	r.wantVersions("[v2:0-1 v3:1-2]")
}

func TestASealedV2LogGoesOnAtV3(t *testing.T) {
	root := memoryDir(t)
	placeSegment(t, filepath.Join(root, testKey(0).DirName()), 0, segment.Header{Version: 2, CreatedAtMicros: 5}, "a")
	r := newRigIn(t, root)
	if _, err := r.log.Seal(r.ctx); err != nil {
		t.Fatal(err)
	}
	r.append(engine.Record{})
	r.wantVersions("[v2:0-1 v3:1-2]")
}

package engine_test

import (
	"os"
	"path/filepath"
	"testing"

	"felix.local/felix/engine"
	"felix.local/felix/recovery"
	"felix.local/felix/segment"
)

// The header of a segment that a background roll opened is durable with the log's
// next flush, and the mark has moved to that segment before: at zero bytes.
func TestAPowerCutThatTakesTheHeaderOfABackgroundRollTakesThatSegmentAlone(t *testing.T) {
	r := newOrderRig(t, engine.FsyncPeriodic, true)
	r.until(func() bool { return r.store.Stats().RollsBackground > 0 })
	r.appendSizes(80, 80)
	// A truncation that cuts nothing returns when the seal and its mark are done.
	if err := r.log.Truncate(r.ctx, r.log.TailOffset()); err != nil {
		t.Fatal(err)
	}
	active := r.active()
	if mark, ok := recovery.DecodeMark(r.file(recovery.MarkName)); !ok || mark != (recovery.Mark{Segment: active.ID}) {
		t.Fatalf("the mark is %+v (%v), want segment %d at 0", mark, ok, active.ID)
	}
	root := fastDir(t)
	copyTree(t, r.root, root)
	path := filepath.Join(root, r.dirName(), segment.LogName(active.ID))
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	clear(b[:segment.HeaderSize])
	if err := os.WriteFile(path, b, 0o640); err != nil {
		t.Fatal(err)
	}
	after := openCopy(t, root, "", sharedPool(t))
	after.wantRecords(active.BaseOffset)
	report := after.log.Recovery()
	if len(report.SideCopies) != 1 || len(report.Warnings) != 0 {
		t.Errorf("%+v", report)
	}
	after.close()
}

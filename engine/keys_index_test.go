package engine_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"

	"felix.local/felix/device"
	"felix.local/felix/engine"
	"felix.local/felix/internal/faultdisk"
	"felix.local/felix/segment"
	"felix.local/felix/sidecar"
)

// keysThrough is an index of the records that are held up to, not including, an
// offset.
func (r *rig) keysThrough(covered uint64, change ...func(*sidecar.KeysIndex)) []byte {
	r.Helper()
	x := sidecar.KeysIndex{KeysHeader: sidecar.KeysHeader{CoveredThrough: covered}}
	base := r.log.BaseOffset()
	if covered > base {
		x.LastChecksum = r.checksumOf(covered - 1)
		x.Entries = []sidecar.KeyEntry{{Key: "a", Offset: base}, {Key: "b", Offset: covered - 1}}
	}
	for _, f := range change {
		f(&x)
	}
	b, err := x.AppendTo(nil)
	r.must(err)
	return b
}

// checksumOf reads the checksum of a record from its segment's file.
func (r *rig) checksumOf(offset uint64) uint32 {
	r.Helper()
	disk := r.cfg.FS
	if disk == nil {
		disk = device.OS()
	}
	for _, d := range r.log.Segments() {
		if offset < d.BaseOffset || offset >= d.NextOffset {
			continue
		}
		b, err := sidecar.Read(disk, r.log.Dir(), segment.LogName(d.ID), 1<<20)
		r.must(err)
		for at := int64(segment.HeaderSize); ; {
			h, err := segment.DecodeRecordHeader(b[at:])
			r.must(err)
			if h.Offset == offset {
				return h.Checksum
			}
			at += h.Size()
		}
	}
	r.Fatalf("no segment holds record %d", offset)
	return 0
}

// An index that is of use to its cache stays as it is; any other goes at open, for
// good, before the log can grow back to what it covers.
func TestAnOpenLeavesAnIndexOfKeysThatFitsItsLog(t *testing.T) {
	type keys = sidecar.KeysIndex
	for name, c := range map[string]struct {
		covered uint64
		change  func(*keys)
		damage  func([]byte) []byte
		stays   bool
	}{
		"through the tail":             {covered: 18, stays: true},
		"through a segment's end":      {covered: 12, stays: true},
		"through one record":           {covered: 10, stays: true},
		"of nothing":                   {covered: 9, stays: true},
		"of nothing, with a checksum":  {covered: 9, change: func(x *keys) { x.LastChecksum = 5 }, stays: true},
		"without keys":                 {covered: 11, change: func(x *keys) { x.Entries = nil }, stays: true},
		"past the tail":                {covered: 18, change: func(x *keys) { x.CoveredThrough = 19 }},
		"of before the log":            {covered: 9, change: func(x *keys) { x.CoveredThrough = 8 }},
		"of another record":            {covered: 12, change: func(x *keys) { x.LastChecksum++ }},
		"with a key before the log":    {covered: 12, change: func(x *keys) { x.Entries[0].Offset = 8 }},
		"with a key past what it says": {covered: 12, change: func(x *keys) { x.Entries[1].Offset = 12 }},
		"cut short":                    {covered: 12, damage: func(b []byte) []byte { return b[:len(b)-1] }},
		"empty":                        {covered: 12, damage: func([]byte) []byte { return nil }},
		"rotten":                       {covered: 12, damage: func(b []byte) []byte { b[len(b)/2] ^= 1; return b }},
		"of a later version":           {covered: 12, damage: func(b []byte) []byte { b[5]++; return b }},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, smallSegments, func(c *engine.Config) { c.RetentionInterval = 1 << 40 })
			for range offloadRecords {
				r.appendSizes(100)
			}
			if got, err := r.log.TrimBefore(r.ctx, 9); err != nil || got.BaseOffset != 9 {
				t.Fatalf("%+v, %v", got, err)
			}
			b := r.keysThrough(c.covered, func(x *sidecar.KeysIndex) {
				if c.change != nil {
					c.change(x)
				}
			})
			if c.damage != nil {
				b = c.damage(b)
			}
			r.putSmall(sidecar.KeysIndexName, b)
			_, problem := engine.CheckKeysIndex(device.OS(), r.log.Dir(), r.log.Segments())
			r.reopen()
			after := r.small(sidecar.KeysIndexName)
			if (problem == nil) != c.stays || c.stays && string(after) != string(b) || !c.stays && after != nil {
				t.Errorf("problem %v; after an open there are %d bytes", problem, len(after))
			}
			r.checkPayloads(func(uint64) int { return 100 })
		})
	}
}

func TestAnIndexOfKeysThatStaysAlthoughItIsOfNoUseKeepsTheLogClosed(t *testing.T) {
	disk, onDisk := withFaults(t)
	r := newRig(t, onDisk)
	dir := r.log.Dir()
	r.putSmall(sidecar.KeysIndexName, []byte("FXIX"))
	r.must(r.log.Close(r.ctx))
	disk.Inject(faultdisk.Fault{Kinds: faultdisk.Remove, Path: named(sidecar.KeysIndexName), Errno: syscall.EIO})
	_, err := r.store.OpenLog(r.ctx, testKey(0))
	if errorAs[*engine.LogError](t, err); !strings.Contains(fmt.Sprint(err), sidecar.KeysIndexName) {
		t.Error(err)
	}
	// What is no file is nobody's index.
	path := filepath.Join(dir, sidecar.KeysIndexName)
	r.must(errors.Join(os.Remove(path), os.Mkdir(path, 0o750)))
	r.log, err = r.store.OpenLog(r.ctx, testKey(0))
	r.must(err)
}

// Whatever it covers, an index of keys is gone when a truncation or a reset returns,
// and a power loss before leaves none that tells of records which are not there.
func TestAPowerLossInACutLeavesNoIndexOfKeysOfWhatIsGone(t *testing.T) {
	for name, c := range map[string]struct {
		covered, tail uint64
		cut           func(r *rig) error
	}{
		"truncated in front of its end": {14, 9, func(r *rig) error { return r.log.Truncate(r.ctx, 9) }},
		"truncated behind its end":      {5, 9, func(r *rig) error { return r.log.Truncate(r.ctx, 9) }},
		"restored":                      {14, 9, func(r *rig) error { return r.log.RestoreTo(r.ctx, 9) }},
		"reset":                         {14, 7, func(r *rig) error { return r.log.ResetTo(r.ctx, 7) }},
		"reset to its end":              {14, 14, func(r *rig) error { return r.log.ResetTo(r.ctx, 14) }},
		"reset to its beginning":        {0, 0, func(r *rig) error { return r.log.ResetTo(r.ctx, 0) }},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { // no timer is due meanwhile
				r := newSimRig(t, smallSegments)
				for range offloadRecords {
					r.appendSizes(100)
				}
				r.putSmall(sidecar.KeysIndexName, r.keysThrough(c.covered))
				returned, kept := false, 0
				r.eachImage(func() error {
					err := c.cut(r.rig)
					synctest.Wait() // for what goes on in the background, which looks at this too
					returned = true
					return err
				}, func(image *rig) {
					if image.small(sidecar.KeysIndexName) == nil {
						return
					}
					kept++
					if _, problem := engine.CheckKeysIndex(image.cfg.FS, image.log.Dir(), image.log.Segments()); problem != nil || returned {
						t.Errorf("returned %v: the index of keys is there, and the log holds [%d, %d): %v",
							returned, image.log.BaseOffset(), image.log.TailOffset(), problem)
					}
				})
				if kept == 0 || r.log.TailOffset() != c.tail {
					t.Errorf("%d images with an index; the log ends at %d", kept, r.log.TailOffset())
				}
				if r.small(sidecar.KeysIndexName) != nil {
					t.Error("the index of keys is there, and records were cut")
				}
			})
		})
	}
}

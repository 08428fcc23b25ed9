package engine_test

import (
	"path/filepath"
	"runtime"
	"testing"

	"felix.local/felix/device"
	"felix.local/felix/engine"
	"felix.local/felix/internal/faultdisk"
	"felix.local/felix/recovery"
	"felix.local/felix/segment"
)

// orderRig is a log on a disk that writes down what was asked of it.
type orderRig struct {
	*rig
	disk *faultdisk.Disk
	mark *markWatch
}

func newOrderRig(t testing.TB, mode engine.FsyncMode, background bool, wrap ...func(device.Queue) device.Queue) *orderRig {
	t.Helper()
	w := newFaultWorld("", sharedPool(t), faultConfig(mode, background), faultdisk.Options{})
	for _, f := range wrap {
		w.cfg.Queue = f(w.cfg.Queue)
	}
	r := newRigIn(t, fastDir(t), func(c *engine.Config) { *c = w.cfg })
	return &orderRig{rig: r, disk: w.disk, mark: w.mark}
}

// until appends single records until the condition holds.
func (r *orderRig) until(reached func() bool) {
	r.Helper()
	for range 200 {
		if reached() {
			return
		}
		r.appendSizes(80)
	}
	r.Fatal("200 records did not bring it about")
}

// now is the disk's clock: every operation that has ended, ended before it.
func (r *orderRig) now() int {
	now := 0
	for _, e := range r.disk.Log(faultdisk.All) {
		now = max(now, e.Start, e.End)
	}
	return now
}

// quiet waits until no operation is under way.
func (r *orderRig) quiet() {
	r.Helper()
	for r.ctx.Err() == nil {
		busy := false
		for _, e := range r.disk.Log(faultdisk.All) {
			busy = busy || e.End == 0
		}
		if !busy {
			return
		}
		runtime.Gosched()
	}
	r.Fatal(r.ctx.Err())
}

// event is one that a rule of order is about.
type event struct {
	kinds faultdisk.Kinds
	name  string
	// at is the position of writes, -1 for any but 0, which is the header's;
	// ignored elsewhere.
	at int64
}

const anyRecord = -1

func (w event) is(e faultdisk.Event) bool {
	if e.Kind&w.kinds == 0 || e.Name != w.name || e.Err != nil || e.End == 0 {
		return false
	}
	if e.Kind&faultdisk.Writes == 0 {
		return true
	}
	return w.at == e.Pos || w.at == anyRecord && e.Pos > 0
}

// inOrder finds the events one after the other, each started when the one before
// it had ended, and returns them. The first is the earliest after the moment
// from.
func (r *orderRig) inOrder(from int, wanted ...event) []faultdisk.Event {
	r.Helper()
	log := r.disk.Log(faultdisk.All)
	var found []faultdisk.Event
	for _, w := range wanted {
		at := -1
		for i, e := range log {
			if w.is(e) && e.Start > from {
				at = i
				break
			}
		}
		if at < 0 {
			r.Fatalf("no %v of %s after moment %d, behind %v\n%v", w.kinds, w.name, from, found, r.after(0))
		}
		found = append(found, log[at])
		from = log[at].End
	}
	return found
}

// after lists what started after a moment.
func (r *orderRig) after(from int) []faultdisk.Event {
	var out []faultdisk.Event
	for _, e := range r.disk.Log(faultdisk.Changes) {
		if e.Start > from {
			out = append(out, e)
		}
	}
	return out
}

// only returns the events of one kind and name after a moment.
func (r *orderRig) only(from int, w event) []faultdisk.Event {
	var out []faultdisk.Event
	for _, e := range r.after(from) {
		if w.is(e) {
			out = append(out, e)
		}
	}
	return out
}

func (r *orderRig) active() segment.Descriptor {
	segments := r.log.Segments()
	return segments[len(segments)-1]
}

func (r *orderRig) dirName() string { return filepath.Base(r.log.Dir()) }

func (r *orderRig) flushDir() event { return event{kinds: faultdisk.FlushDir, name: r.dirName()} }

func flushOf(id uint64) event { return event{kinds: faultdisk.Flush, name: segment.LogName(id)} }

func markSync() event {
	return event{kinds: faultdisk.WriteDsync, name: recovery.MarkName}
}

// named matches one file by its name.
func named(name string) func(string) bool {
	return func(path string) bool { return filepath.Base(path) == name }
}

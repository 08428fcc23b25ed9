package simdisk

import "felix.local/felix/device"

// Change is something that is about to change what a crash leaves: a call of the
// namespace, a Truncate, or a data-path operation being issued, landing in the
// page cache or completing.
type Change struct {
	// What is "create", "mkdir", "rename", "remove", "truncate", "issue", "land"
	// or "settle".
	What string
	Path string
	// Kind and Pos describe an operation that is issued, lands or settles; Pos is
	// the new length of a truncation.
	Kind device.Kind
	Pos  int64
}

// BeforeChange calls hook before each change from now on, on the goroutine that
// makes it, with no lock held; nil ends that. A crash image taken inside is what
// a power loss at that moment leaves. The hook must not change this disk.
func (d *Disk) BeforeChange(hook func(Change)) {
	if hook == nil {
		d.hook.Store(nil)
		return
	}
	d.hook.Store(&hook)
}

func (d *Disk) before(c Change) {
	if hook := d.hook.Load(); hook != nil {
		(*hook)(c)
	}
}

package engine

import (
	"sync/atomic"

	"felix.local/felix/device"
)

// openFile is a file shared by a writer, a flush and readers. It is closed when
// the last of them lets go, so that no operation ever names a closed descriptor.
// A durability error that Close reports cannot be ours: whatever was
// acknowledged had been flushed through the same descriptor before.
type openFile struct {
	device.File
	refs atomic.Int32
}

func newOpenFile(f device.File) *openFile {
	o := &openFile{File: f}
	o.refs.Store(1)
	return o
}

// hold takes another reference; the caller owns one already, or a lock under
// which the owner's cannot go away.
func (o *openFile) hold() *openFile {
	o.refs.Add(1)
	return o
}

// release lets go and closes the file after the last reference.
func (o *openFile) release() {
	switch n := o.refs.Add(-1); {
	case n == 0:
		_ = o.File.Close()
	case n < 0:
		panic("engine: a file was released twice")
	}
}

// Unwrap gives the file below, for its descriptor.
func (o *openFile) Unwrap() device.File { return o.File }

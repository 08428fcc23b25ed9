//go:build giouring

package uring

import (
	"bytes"
	"math"
	"testing"
	"unsafe"

	"github.com/pawelgaczynski/giouring"
	"golang.org/x/sys/unix"
)

// TestBothDriversPrepareTheSameBytes compares the native entries with what the
// library's own functions write, in a slot that last held something else.
func TestBothDriversPrepareTheSameBytes(t *testing.T) {
	type theirs = giouring.SubmissionQueueEntry
	addr := unsafe.Add(nil, 0x7fff_1234_5000)
	for _, row := range []struct {
		name    string
		ours    sqe
		prepare func(*theirs)
	}{
		{"write", writeEntry(7, addr, 4096, 1<<40, false), func(e *theirs) { e.PrepareWrite(7, uintptr(addr), 4096, 1<<40) }},
		{"write at zero", writeEntry(0, addr, math.MaxUint32, 0, false), func(e *theirs) { e.PrepareWrite(0, uintptr(addr), math.MaxUint32, 0) }},
		{"durable write", writeEntry(7, addr, 512, 512, true), func(e *theirs) {
			e.PrepareWrite(7, uintptr(addr), 512, 512)
			e.OpcodeFlags = unix.RWF_DSYNC
		}},
		{"data flush", flushEntry(9, true), func(e *theirs) { e.PrepareFsync(9, giouring.FsyncDatasync) }},
		{"full flush", flushEntry(9, false), func(e *theirs) { e.PrepareFsync(9, 0) }},
		{"allocate", allocateEntry(9, 1<<33, 1<<34), func(e *theirs) { e.PrepareFallocate(9, unix.FALLOC_FL_KEEP_SIZE, 1<<33, 1<<34) }},
		{"poll", pollEntry(11), func(e *theirs) { e.PreparePollAdd(11, unix.POLLIN) }},
	} {
		t.Run(row.name, func(t *testing.T) {
			row.ours.userData = 0xfeed_0000_0042
			var direct theirs
			row.prepare(&direct)
			direct.UserData = row.ours.userData
			if a, b := bytesOf(&row.ours), bytesOf(&direct); !bytes.Equal(a, b) {
				t.Errorf("native   %x\ngiouring %x", a, b)
			}
			used := theirs{OpCode: 1, Flags: 2, IoPrio: 3, OpcodeFlags: 4, BufIG: 5, Personality: 6, SpliceFdIn: 7}
			prepareGiouring(&used, &row.ours)
			if a, b := bytesOf(&row.ours), bytesOf(&used); !bytes.Equal(a, b) {
				t.Errorf("in a used slot:\nnative   %x\ngiouring %x", a, b)
			}
		})
	}
}

func bytesOf[T any](v *T) []byte {
	return unsafe.Slice((*byte)(unsafe.Pointer(v)), unsafe.Sizeof(*v))
}

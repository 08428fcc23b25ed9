package uring

import (
	"fmt"
	"io"
	"syscall"
	"unsafe"

	"felix.local/felix/device"
)

// begin puts op into a slot and queues its first entry, or completes it when the
// ring has nothing to do for it.
func (l *loop) begin(op *device.Op) {
	fd, err := -1, error(nil)
	switch {
	case op.Kind >= device.KindCount:
		err = device.ErrUnsupported
	case hasPosition(op.Kind) && op.Pos < 0, op.Kind == device.Allocate && op.Len < 0:
		// A write at position -1 would go to the descriptor's own position.
		err = syscall.EINVAL
	case isWrite(op.Kind) && len(op.Buf) == 0:
		op.Pieces = 1
		l.ring.complete(op, 0, nil)
		return
	default:
		var ok bool
		if fd, ok = device.FD(op.File); !ok {
			err = device.ErrUnsupported
		}
	}
	if err != nil {
		l.ring.complete(op, 0, failure(op, 0, err))
		return
	}
	l.ring.counters.inFlight.Add(1)
	l.send(l.slots.take(op, fd, int64(op.SubmittedAt.Sub(l.ring.opened))))
}

func isWrite(k device.Kind) bool { return k == device.Write || k == device.WriteDsync }

func isFlush(k device.Kind) bool { return k == device.Flush || k == device.FlushAll }

func hasPosition(k device.Kind) bool { return isWrite(k) || k == device.Allocate }

// send queues the entry for what is left of a slot's operation.
func (l *loop) send(index uint32) {
	at := &l.slots.all[index]
	op := at.op
	op.Pieces++
	var e sqe
	switch op.Kind {
	case device.Write, device.WriteDsync:
		rest := at.buf[at.done:]
		at.asked = min(len(rest), l.options.TransferBytes)
		e = writeEntry(at.fd, unsafe.Pointer(&rest[0]), uint32(at.asked), op.Pos+int64(at.done), op.Kind == device.WriteDsync)
	case device.Flush:
		e = flushEntry(at.fd, true)
	case device.FlushAll:
		e = flushEntry(at.fd, false)
	case device.Allocate:
		e = allocateEntry(at.fd, op.Pos, op.Len)
	}
	e.userData = l.slots.label(index)
	l.push(&e)
}

// settle judges one completion.
func (l *loop) settle(userData uint64, res int32) {
	if uint32(userData) == pollIndex {
		l.polled(res)
		return
	}
	index, ok := l.slots.find(userData)
	if !ok {
		l.lose("completion queue", fmt.Errorf("completion %#x is for no operation in flight", userData))
		return
	}
	at := &l.slots.all[index]
	op := at.op
	switch {
	case res < 0:
		if errno := syscall.Errno(-res); givenBack(op.Kind, errno) {
			l.retry(index, errno)
		} else {
			l.end(index, failure(op, at.done, errno))
		}
	case !isWrite(op.Kind):
		l.end(index, nil)
	case res == 0:
		// No progress and no reason; asking again could go on for ever.
		l.end(index, failure(op, at.done, io.ErrShortWrite))
	case int(res) > at.asked:
		l.lose("completion queue", fmt.Errorf("%d bytes written where %d were asked", res, at.asked))
	default:
		if int(res) < at.asked {
			// Often the kernel's way to say that an error follows; the
			// remainder gets to hear it.
			l.ring.counters.short.Add(1)
		}
		at.done += int(res)
		at.retries = 0
		if at.done < len(at.buf) {
			l.send(index)
			return
		}
		l.end(index, nil)
	}
}

// end frees the slot and completes its operation.
func (l *loop) end(index uint32, err error) {
	at := &l.slots.all[index]
	op, n := at.op, at.done
	l.slots.release(index)
	l.ring.counters.inFlight.Add(-1)
	l.ring.complete(op, n, err)
}

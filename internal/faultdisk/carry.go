package faultdisk

import (
	"felix.local/felix/device"
)

// carried is one data-path op on its way through the wrapper. What goes to the
// wrapped disk is a shadow of the caller's op, so that the caller's completes
// only when the wrapper is done with it.
type carried struct {
	ticket
	kind   Kinds
	shadow device.Op
	node   *node
	dirty  int // spans that were dirty when a flush started
}

// carry starts an op: from here on it has its place in the record.
func (d *Disk) carry(op *device.Op) *carried {
	kind := kindOf(op)
	path := op.File.Name()
	length := int64(len(op.Buf))
	if kind == Allocate {
		length = op.Len
	}
	c := &carried{kind: kind}
	c.shadow.Kind, c.shadow.File = op.Kind, op.File
	c.shadow.Buf, c.shadow.Pos, c.shadow.Len = op.Buf, op.Pos, op.Len
	if f := ownFile(op.File); f != nil {
		c.shadow.File, c.node = f.inner, f.node
	}
	if c.node != nil && kind&Flushes != 0 {
		c.dirty = c.node.flushStarts()
	}
	c.ticket = d.begin(Event{Kind: kind, Path: path, Pos: op.Pos, Len: length}, path)
	if c.hit != nil && c.hit.fault.DropDirty && c.node != nil && kind&(Flush|FlushAll) != 0 {
		c.node.lose()
	}
	return c
}

// run carries the op out, through perform unless a fault prevents it, and returns
// its result.
func (c *carried) run(perform func(*device.Op) (int, error)) (int, error) {
	injected := c.hold()
	var n int
	var err error
	if injected == nil {
		n, err = perform(&c.shadow)
		c.settle(n, err)
	} else {
		n, err = c.fail(injected, perform)
	}
	c.end(err)
	return n, err
}

// fail makes the op fail, after what is to land has landed.
func (c *carried) fail(errno error, perform func(*device.Op) (int, error)) (int, error) {
	n, pos, pieces := 0, int64(-1), 1
	switch c.kind {
	case Write, WriteDsync:
		pos = c.shadow.Pos
		whole := c.shadow.Buf
		if c.hit.fault.Lands == Half {
			c.shadow.Buf = whole[:len(whole)/2]
			n, pieces = len(c.shadow.Buf), 2
			pos += int64(n)
		}
		if c.hit.fault.Lands != Nothing {
			if n, err := perform(&c.shadow); err != nil {
				return n, err // a real failure came first
			}
			c.wrote(len(c.shadow.Buf))
		}
		c.shadow.Buf = whole
	case Allocate:
		pos = c.shadow.Pos
	case Flush, FlushAll:
		if c.hit.fault.DropDirty && c.node != nil {
			if err := c.node.drop(); err != nil {
				return 0, err
			}
		}
	}
	c.shadow.Pieces = pieces
	return n, device.NewError(c.shadow.Kind.String(), c.shadow.File.Name(), pos, errno)
}

// wrote books bytes that are in the file but not durable.
func (c *carried) wrote(n int) {
	if c.node != nil {
		c.node.wrote(c.shadow.Pos, int64(n))
	}
}

// settle books what a result means for the durable bytes.
func (c *carried) settle(n int, err error) {
	if c.node == nil {
		return
	}
	switch {
	case c.kind == Write, c.kind == WriteDsync && err != nil:
		c.wrote(n)
	case c.kind == WriteDsync:
		c.node.wroteDurably(c.shadow.Buf, c.shadow.Pos)
	case c.kind&Flushes != 0 && err == nil:
		c.node.flushed(c.dirty)
	}
}

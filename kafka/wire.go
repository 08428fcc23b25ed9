package kafka

import "encoding/binary"

// wire reads a request's fields. After the first field that is not there, bad is
// set and everything reads as zero; whoever reads a count checks bad before using
// it, and a count never exceeds the bytes that are left.
type wire struct {
	src      []byte
	bad      bool
	flexible bool
}

func (w *wire) fail() {
	w.bad = true
	w.src = nil
}

// span takes n bytes, which alias the request.
func (w *wire) span(n int) []byte {
	if n < 0 || n > len(w.src) {
		w.fail()
		return nil
	}
	s := w.src[:n:n]
	w.src = w.src[n:]
	return s
}

func (w *wire) int16() int16 {
	if s := w.span(2); s != nil {
		return int16(binary.BigEndian.Uint16(s))
	}
	return 0
}

func (w *wire) int32() int32 {
	if s := w.span(4); s != nil {
		return int32(binary.BigEndian.Uint32(s))
	}
	return 0
}

func (w *wire) uvarint() uint32 {
	v, width := uvarint(w.src)
	if width == 0 {
		w.fail()
		return 0
	}
	w.src = w.src[width:]
	return v
}

// text takes a string's bytes; null is whether it was null.
func (w *wire) text() (s []byte, null bool) {
	if w.flexible {
		return w.compact()
	}
	n := int(w.int16())
	if n < 0 {
		return nil, true
	}
	return w.span(n), false
}

// bytes takes a byte array.
func (w *wire) bytes() (s []byte, null bool) {
	if w.flexible {
		return w.compact()
	}
	n := int(w.int32())
	if n < 0 {
		return nil, true
	}
	return w.span(n), false
}

func (w *wire) compact() (s []byte, null bool) {
	n := int(w.uvarint()) - 1
	if n < 0 {
		return nil, true
	}
	return w.span(n), false
}

// count takes an array's length. size is the fewest bytes an element can have.
func (w *wire) count(size int) int {
	var n int
	if w.flexible {
		n = int(w.uvarint()) - 1
	} else {
		n = int(w.int32())
	}
	if w.bad || n <= 0 {
		return 0
	}
	if n > len(w.src)/size {
		w.fail()
		return 0
	}
	return n
}

// tags skips the tagged fields that end every structure of a flexible version.
func (w *wire) tags() {
	if !w.flexible {
		return
	}
	for n := w.uvarint(); n > 0 && !w.bad; n-- {
		w.uvarint()
		w.span(int(w.uvarint()))
	}
}

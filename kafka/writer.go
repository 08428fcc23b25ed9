package kafka

import "encoding/binary"

// writer appends the fields of an answer.
type writer struct {
	b        []byte
	flexible bool
}

func (w *writer) int16(v int16) { w.b = binary.BigEndian.AppendUint16(w.b, uint16(v)) }
func (w *writer) int32(v int32) { w.b = binary.BigEndian.AppendUint32(w.b, uint32(v)) }
func (w *writer) int64(v int64) { w.b = binary.BigEndian.AppendUint64(w.b, uint64(v)) }

func (w *writer) count(n int) {
	if w.flexible {
		w.b = appendUvarint(w.b, uint32(n)+1)
		return
	}
	w.int32(int32(n))
}

// nullCount is the length of an array, or of bytes, that are null.
func (w *writer) nullCount() { w.count(-1) }

func (w *writer) text(s []byte) {
	if w.flexible {
		w.b = appendUvarint(w.b, uint32(len(s))+1)
	} else {
		w.int16(int16(len(s)))
	}
	w.b = append(w.b, s...)
}

func (w *writer) nullable(s *string) {
	switch {
	case s != nil:
		w.text([]byte(*s))
	case w.flexible:
		w.b = append(w.b, 0)
	default:
		w.int16(-1)
	}
}

func (w *writer) tags() {
	if w.flexible {
		w.b = append(w.b, 0)
	}
}

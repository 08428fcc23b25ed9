package httpapi

import (
	"encoding/base64"
	"io"
	"strconv"
	"unicode/utf8"
)

// outputBytes is the size of an output's buffer.
const outputBytes = 32 << 10

// output writes JSON through a buffer of fixed size, so that a record of any size
// costs no memory beside its payload. The first error stays.
type output struct {
	to  io.Writer
	buf []byte
	err error
}

// output gives a pooled output; done puts it back.
func (s *Server) output(to io.Writer) *output {
	o := s.outputs.Get().(*output)
	o.to, o.buf, o.err = to, o.buf[:0], nil
	return o
}

func (o *output) done(s *Server) {
	o.to = nil
	s.outputs.Put(o)
}

// flush hands on what is in the buffer.
func (o *output) flush() error {
	if o.err == nil && len(o.buf) > 0 {
		_, o.err = o.to.Write(o.buf)
	}
	o.buf = o.buf[:0]
	return o.err
}

// room makes space for n bytes, n being much less than the buffer.
func (o *output) room(n int) {
	if len(o.buf)+n > cap(o.buf) {
		_ = o.flush() // kept in o.err
	}
}

// raw writes what is JSON already; short pieces only.
func (o *output) raw(text string) {
	o.room(len(text))
	o.buf = append(o.buf, text...)
}

func (o *output) uint(n uint64) {
	o.room(20)
	o.buf = strconv.AppendUint(o.buf, n, 10)
}

// text writes valid UTF-8 as a JSON string.
func (o *output) text(text []byte) {
	o.raw(`"`)
	for len(text) > 0 && o.err == nil {
		if n := plain(text[:min(len(text), cap(o.buf)/2)]); n > 0 {
			o.room(n)
			o.buf = append(o.buf, text[:n]...)
			text = text[n:]
			continue
		}
		o.escape(text[0])
		text = text[1:]
	}
	o.raw(`"`)
}

// plain counts the bytes before the first that has to be escaped. Parts of a
// character may be written apart: they follow one another on the wire.
func plain(text []byte) int {
	for i, c := range text {
		if c < ' ' || c == '"' || c == '\\' {
			return i
		}
	}
	return len(text)
}

func (o *output) escape(c byte) {
	switch c {
	case '"':
		o.raw(`\"`)
	case '\\':
		o.raw(`\\`)
	case '\n':
		o.raw(`\n`)
	case '\r':
		o.raw(`\r`)
	case '\t':
		o.raw(`\t`)
	default:
		const digits = "0123456789abcdef"
		o.room(6)
		o.buf = append(o.buf, '\\', 'u', '0', '0', digits[c>>4], digits[c&15])
	}
}

// base64 writes bytes as a JSON string.
func (o *output) base64(data []byte) {
	o.raw(`"`)
	const piece = 3 << 12 // whole groups, so that padding comes at the end alone
	for len(data) > 0 && o.err == nil {
		n := min(len(data), piece)
		o.room(base64.StdEncoding.EncodedLen(n))
		o.buf = base64.StdEncoding.AppendEncode(o.buf, data[:n])
		data = data[n:]
	}
	o.raw(`"`)
}

// bytes writes a member: as text when it is valid UTF-8, as base64 otherwise, and as
// a text of null when it is nil.
func (o *output) bytes(textName, base64Name string, data []byte) {
	switch {
	case data == nil:
		o.name(textName)
		o.raw("null")
	case utf8.Valid(data):
		o.name(textName)
		o.text(data)
	default:
		o.name(base64Name)
		o.base64(data)
	}
}

// name writes the name of a member that is not the first.
func (o *output) name(name string) {
	o.raw(`,"`)
	o.raw(name)
	o.raw(`":`)
}

// long writes what is JSON already and may be longer than the buffer.
func (o *output) long(text []byte) {
	for len(text) > 0 && o.err == nil {
		n := min(len(text), cap(o.buf)/2)
		o.room(n)
		o.buf = append(o.buf, text[:n]...)
		text = text[n:]
	}
}

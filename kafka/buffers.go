package kafka

import "sync"

// The sizes whose buffers are kept for reuse, in powers of two.
const (
	bufferMinBits = 9  // 512 B
	bufferMaxBits = 22 // 4 MiB
)

// buffers keeps byte slices for reuse. Larger ones than 4 MiB are left to the
// garbage collector, so that one large request does not hold memory for long.
type buffers struct {
	classes [bufferMaxBits + 1]sync.Pool // of *buffer, by capacity in bits
}

// buffer is a byte slice that is given back; appending to b is allowed.
type buffer struct{ b []byte }

// get gives a buffer of length n.
func (p *buffers) get(n int) *buffer {
	class := bufferMinBits
	for class <= bufferMaxBits && 1<<class < n {
		class++
	}
	if class > bufferMaxBits {
		return &buffer{b: make([]byte, n)}
	}
	if kept, ok := p.classes[class].Get().(*buffer); ok {
		kept.b = kept.b[:n]
		return kept
	}
	return &buffer{b: make([]byte, n, 1<<class)}
}

// put takes a buffer back; nobody may hold its bytes any more. A buffer that has
// grown is kept by what it can hold now.
func (p *buffers) put(buf *buffer) {
	if buf == nil || cap(buf.b) < 1<<bufferMinBits || cap(buf.b) >= 1<<(bufferMaxBits+1) {
		return
	}
	class := bufferMinBits
	for class < bufferMaxBits && 1<<(class+1) <= cap(buf.b) {
		class++
	}
	buf.b = buf.b[:0]
	p.classes[class].Put(buf)
}

package kafka

import "sync"

// The sizes whose buffers are kept for reuse, in powers of two.
const (
	bufferMinBits = 9  // 512 B
	bufferMaxBits = 25 // 32 MiB
)

// buffers keeps byte slices for reuse, until the garbage collector wants those that
// nobody used for two of its rounds. Larger ones than 32 MiB are not kept.
type buffers struct {
	classes [bufferMaxBits + 1]sync.Pool // of *buffer, by capacity in bits
}

// buffer is a byte slice that is given back; appending to b is allowed.
type buffer struct{ b []byte }

// get gives a buffer of length n.
func (p *buffers) get(n int) *buffer {
	if buf := p.kept(n); buf != nil {
		return buf
	}
	class := classOf(n)
	if class > bufferMaxBits {
		return &buffer{b: make([]byte, n)}
	}
	return &buffer{b: make([]byte, n, 1<<class)}
}

// kept gives a buffer of length n that was used before, or nil.
func (p *buffers) kept(n int) *buffer {
	class := classOf(n)
	if class > bufferMaxBits {
		return nil
	}
	buf, ok := p.classes[class].Get().(*buffer)
	if !ok {
		return nil
	}
	buf.b = buf.b[:n]
	return buf
}

// classOf is the smallest class whose buffers hold n bytes.
func classOf(n int) int {
	class := bufferMinBits
	for class <= bufferMaxBits && 1<<class < n {
		class++
	}
	return class
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

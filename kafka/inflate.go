package kafka

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"sync"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/s2"
	"github.com/klauspost/compress/zstd"
	"github.com/pierrec/lz4/v4"
)

// codec is how a batch's records are compressed.
type codec uint16

const (
	codecNone codec = iota
	codecGzip
	codecSnappy
	codecLZ4
	codecZstd
)

// inflater undoes compression within bounds: what comes out is accounted for as it
// grows, whatever the input announces, and at most slots batches are inflated at a
// time, since a decoder's own window may be as large as max.
type inflater struct {
	// max bounds what the batches of one request come to, in bytes.
	max   int64
	slots chan struct{}
	pool  *buffers

	gzips, lz4s, zstds sync.Pool
}

func newInflater(max int64, slots int, pool *buffers) *inflater {
	return &inflater{max: max, slots: make(chan struct{}, slots), pool: pool}
}

// inflate gives the records of a compressed batch, at most max bytes.
func (f *inflater) inflate(c codec, src []byte, max int64, charge func(int64) error) (*buffer, error) {
	f.slots <- struct{}{}
	defer func() { <-f.slots }()
	switch c {
	case codecGzip:
		return f.gzip(src, max, charge)
	case codecSnappy:
		return f.snappy(src, max, charge)
	case codecLZ4:
		return f.lz4(src, max, charge)
	case codecZstd:
		return f.zstd(src, max, charge)
	default:
		return nil, refuse(codeUnsupportedCompressionType, fmt.Sprintf("compression type %d is not known", c))
	}
}

func (f *inflater) gzip(src []byte, max int64, charge func(int64) error) (*buffer, error) {
	r, kept := f.gzips.Get().(*gzip.Reader)
	if !kept {
		r = new(gzip.Reader)
	}
	defer f.gzips.Put(r)
	if err := r.Reset(bytes.NewReader(src)); err != nil {
		return nil, corrupt("gzip: %v", err)
	}
	return f.readAll("gzip", r, len(src), max, charge)
}

func (f *inflater) lz4(src []byte, max int64, charge func(int64) error) (*buffer, error) {
	r, kept := f.lz4s.Get().(*lz4.Reader)
	if !kept {
		r = lz4.NewReader(nil)
	}
	defer f.lz4s.Put(r)
	r.Reset(bytes.NewReader(src))
	return f.readAll("lz4", r, len(src), max, charge)
}

func (f *inflater) zstd(src []byte, max int64, charge func(int64) error) (*buffer, error) {
	r, kept := f.zstds.Get().(*zstd.Decoder)
	if !kept {
		var err error
		// One goroutine, the caller's: a decoder that is dropped leaves nothing behind.
		r, err = zstd.NewReader(nil, zstd.WithDecoderConcurrency(1), zstd.WithDecoderLowmem(true),
			zstd.WithDecoderMaxMemory(windowMax(f.max)), zstd.WithDecoderMaxWindow(windowMax(f.max)))
		if err != nil {
			return nil, fmt.Errorf("zstd: %w", err)
		}
	}
	defer f.zstds.Put(r)
	if err := r.Reset(bytes.NewReader(src)); err != nil {
		return nil, corrupt("zstd: %v", err)
	}
	return f.readAll("zstd", r, len(src), max, charge)
}

// windowMax is the largest window a zstd frame may ask for: as much as it may hold,
// but the 8 MiB that every decoder should take in any case.
func windowMax(inflatedMax int64) uint64 {
	const least, most = 8 << 20, 1 << 29
	return uint64(min(max(inflatedMax, least), most))
}

// readAll reads r to its end, growing as bytes come.
func (f *inflater) readAll(name string, r io.Reader, srcSize int, max int64, charge func(int64) error) (*buffer, error) {
	size := min(int64(srcSize)*4, max, 1<<20)
	if err := charge(size); err != nil {
		return nil, err
	}
	buf := f.pool.get(int(size))
	n := 0
	for {
		got, err := r.Read(buf.b[n:])
		n += got
		if errors.Is(err, io.EOF) {
			buf.b = buf.b[:n]
			return buf, nil
		}
		if err == nil && n == len(buf.b) {
			buf, err = f.grow(buf, r, max, charge)
			if errors.Is(err, io.EOF) {
				return buf, nil
			}
		}
		if err != nil {
			f.pool.put(buf)
			if refused := (*failure)(nil); errors.As(err, &refused) {
				return nil, err
			}
			if errors.Is(err, zstd.ErrDecoderSizeExceeded) || errors.Is(err, zstd.ErrWindowSizeExceeded) {
				return nil, f.tooLarge()
			}
			return nil, corrupt("%s: %v", name, err)
		}
	}
}

// grow doubles a full buffer. At the bound it looks whether there is more: io.EOF
// says that there is not.
func (f *inflater) grow(buf *buffer, r io.Reader, max int64, charge func(int64) error) (*buffer, error) {
	n := int64(len(buf.b))
	if n >= max {
		var one [1]byte
		if _, err := io.ReadFull(r, one[:]); err != nil {
			return buf, err
		}
		return buf, f.tooLarge()
	}
	size := min(2*n+512, max)
	if err := charge(size - n); err != nil {
		return buf, err
	}
	larger := f.pool.get(int(size))
	copy(larger.b, buf.b)
	f.pool.put(buf)
	return larger, nil
}

func (f *inflater) tooLarge() error {
	return refuse(codeMessageTooLarge, fmt.Sprintf("a request whose records come to more than %d bytes; send fewer at a time", f.max))
}

// The framing that Java clients put around snappy: a magic and two versions, then
// blocks with their length in front.
const (
	xerialMagic      = "\x82SNAPPY\x00"
	xerialHeaderSize = 16
	// snappyRatioMax is more than snappy can ever gain: its shortest way to name 64
	// bytes is three bytes long.
	snappyRatioMax = 22
)

func (f *inflater) snappy(src []byte, max int64, charge func(int64) error) (*buffer, error) {
	if len(src) < xerialHeaderSize || string(src[:len(xerialMagic)]) != xerialMagic {
		size, err := f.snappySize(src, max)
		if err != nil {
			return nil, err
		}
		if err := charge(size); err != nil {
			return nil, err
		}
		return f.snappyBlocks(size, src)
	}
	var blocks [][]byte
	var total int64
	for src = src[xerialHeaderSize:]; len(src) > 0; {
		if len(src) < 4 || int64(binary.BigEndian.Uint32(src)) > int64(len(src)-4) {
			return nil, corrupt("snappy: a block is cut short")
		}
		n := 4 + int(binary.BigEndian.Uint32(src))
		size, err := f.snappySize(src[4:n], max-total)
		if err != nil {
			return nil, err
		}
		// An empty block costs five bytes and a place in the list; both are paid for.
		if err := charge(size + 24); err != nil {
			return nil, err
		}
		blocks = append(blocks, src[4:n])
		total += size
		src = src[n:]
	}
	return f.snappyBlocks(total, blocks...)
}

// snappySize is what a block comes to, as it says itself.
func (f *inflater) snappySize(block []byte, max int64) (int64, error) {
	size, err := s2.DecodedLen(block)
	if err != nil || size > len(block)*snappyRatioMax {
		return 0, corrupt("snappy: a block's size is not what its bytes can hold")
	}
	if int64(size) > max {
		return 0, f.tooLarge()
	}
	return int64(size), nil
}

func (f *inflater) snappyBlocks(size int64, blocks ...[]byte) (*buffer, error) {
	buf := f.pool.get(int(size))
	at := 0
	for _, block := range blocks {
		n, _ := s2.DecodedLen(block)
		if _, err := s2.Decode(buf.b[at:at+n:at+n], block); err != nil {
			f.pool.put(buf)
			return nil, corrupt("snappy: %v", err)
		}
		at += n
	}
	return buf, nil
}

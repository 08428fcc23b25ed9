package engine

import (
	"time"

	"felix.local/felix/device"
	"felix.local/felix/producer"
	"felix.local/felix/segment"
)

// batchBytesMax is the size at which a staged batch takes no further append.
// One append larger than that is a batch by itself.
const batchBytesMax = 1 << 20

// batch is what one write carries: the records of one or more appends, encoded
// back to back, for one segment. Fields are written under Log.mu while the batch
// is the last one staged; from the moment the commit loop takes it they are the
// loop's, and after the signals err is read by anybody.
type batch struct {
	// buf is arena memory; its length is what is encoded.
	buf []byte
	// first and next bound the offsets, [first, next).
	first, next uint64
	// roll makes the loop start a new segment, of at least version, first.
	roll    bool
	version uint16
	// pos is where the batch goes in its segment.
	pos int64
	// entries are the index entries that its records earn.
	entries []segment.IndexEntry
	// builder is the index state after its last record.
	builder segment.IndexBuilder
	newest  uint64
	// started is when its segment was ready for it.
	started      time.Time
	appends      int
	payloadBytes int64
	// reserved bytes go back to the log's and the store's budget.
	reservedLog, reservedStore int64

	// lone is the signal of a blocking append that came first: it takes one value
	// and is reused, so that an append by itself costs no channel. done is closed
	// for all others; nil while there are none.
	lone, done chan struct{}
	// crowd is where blocking appends wait that share a flush; nil without any.
	crowd *crowd
	err   error
	// before is the state of producers before the first record, where it had to be
	// remembered. marked says that it holds records of producers; done is there
	// then.
	before producer.Checkpoint
	marked bool
	// producers is, for a roll, what is known of producers as of first; nil when a roll
	// staged behind it has that of its own.
	producers *producer.View
	// sequence is that of the frame of the commit journal that holds the batch; 0 when
	// its segment was written instead.
	sequence uint64
	// completed is done for the commit loop, which must not wait to see it.
	completed bool
}

func (b *batch) records() uint64 { return b.next - b.first }
func (b *batch) end() int64      { return b.pos + int64(len(b.buf)) }

// grow makes sure that n more bytes fit.
func (b *batch) grow(arena *device.Arena, n int) error {
	at := len(b.buf)
	if at+n <= cap(b.buf) {
		return nil
	}
	bigger, err := arena.Take(at + n)
	if err != nil {
		return err
	}
	bigger = bigger[:at]
	copy(bigger, b.buf)
	arena.Give(b.buf)
	b.buf = bigger
	return nil
}

// extend lengthens the batch by n bytes, which fit, and returns them.
func (b *batch) extend(n int) []byte {
	at := len(b.buf)
	b.buf = b.buf[:at+n]
	return b.buf[at:]
}

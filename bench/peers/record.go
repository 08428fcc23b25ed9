package main

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"hash/crc32"
)

// A record begins with its publisher, its place in what that publisher sent, and a
// checksum of both; the rest is a pattern of the publisher. So every record is unique, and
// making one costs the measurement 20 bytes.
const recordHeaderBytes = 8 + 8 + 4

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// newRecord makes a record of a publisher, to be stamped before it is appended.
func newRecord(publisher, size int) []byte {
	record := make([]byte, size)
	for i := range record {
		record[i] = byte(publisher*31 + i)
	}
	binary.LittleEndian.PutUint64(record, uint64(publisher))
	return record
}

// stamp makes it the record at a place.
func stamp(record []byte, sequence uint64) {
	binary.LittleEndian.PutUint64(record[8:], sequence)
	binary.LittleEndian.PutUint32(record[16:], crc32.Checksum(record[:16], castagnoli))
}

// ledger is what was acknowledged and, while a log is read, what was found.
type ledger struct {
	size  int
	acked []uint64 // by publisher
	found []uint64
	want  [][]byte // one record of each publisher
}

func newLedger(publishers, size int) *ledger {
	l := &ledger{size: size, acked: make([]uint64, publishers), found: make([]uint64, publishers)}
	for p := range publishers {
		l.want = append(l.want, newRecord(p, size))
	}
	return l
}

// visit judges the next record of log, of several over which publishers are spread.
func (l *ledger) visit(log, logs int, record []byte) error {
	if len(record) != l.size {
		return fmt.Errorf("log %d: a record has %d bytes, want %d", log, len(record), l.size)
	}
	if binary.LittleEndian.Uint32(record[16:]) != crc32.Checksum(record[:16], castagnoli) {
		return fmt.Errorf("log %d: the header of a record does not match its checksum", log)
	}
	publisher, sequence := binary.LittleEndian.Uint64(record), binary.LittleEndian.Uint64(record[8:])
	switch {
	case publisher >= uint64(len(l.acked)) || int(publisher)%logs != log:
		return fmt.Errorf("log %d holds a record of publisher %d", log, publisher)
	case sequence != l.found[publisher]:
		return fmt.Errorf("log %d: publisher %d: record %d where %d is due", log, publisher, sequence, l.found[publisher])
	case !bytes.Equal(record[recordHeaderBytes:], l.want[publisher][recordHeaderBytes:]):
		return fmt.Errorf("log %d: publisher %d: record %d differs in its body", log, publisher, sequence)
	}
	l.found[publisher]++
	return nil
}

// settle says that everything acknowledged was found, and nothing else.
func (l *ledger) settle() error {
	for p, acked := range l.acked {
		if l.found[p] != acked {
			return fmt.Errorf("publisher %d: %d records acknowledged, %d found", p, acked, l.found[p])
		}
	}
	return nil
}

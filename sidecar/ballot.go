package sidecar

import (
	"encoding/binary"
	"unicode/utf8"
)

const (
	// BallotName is the file in a shard's directory.
	BallotName = "ballot"
	// LeaderBytesMax is the longest id of a leader.
	LeaderBytesMax = 1024
	// BallotBytesMax is the length of the longest file.
	BallotBytesMax = ballotHeaderBytes + LeaderBytesMax + crcBytes

	ballotHeaderBytes = 16
)

func ballotKind() kind { return kind{BallotName, 0x464C424C, 1} } // "FLBL"

// Ballot says from whom a generation was accepted.
type Ballot struct {
	Generation uint64 `json:"generation"`
	// Leader is the leader's node id. The empty one gives the generation up: it
	// has no leader, this broker included. That differs from an absent file,
	// which names nobody.
	Leader string `json:"leader"`
}

// GivenUp says that the generation is to have no leader.
func (b Ballot) GivenUp() bool { return b.Leader == "" }

// CheckLeader reports, as a *DecodeError, why an id can stand in no ballot. It is
// to be asked about an id from outside before anything is written.
func CheckLeader(leader string) error {
	if err := checkLeaderBytes(len(leader)); err != nil {
		return err
	}
	if !utf8.ValidString(leader) {
		return contentError(BallotName, "the leader's id %q is not UTF-8", leader)
	}
	return nil
}

func checkLeaderBytes(n int) error {
	if n > LeaderBytesMax {
		return contentError(BallotName, "a leader's id of %d bytes, at most %d are allowed", n, LeaderBytesMax)
	}
	return nil
}

// AppendTo appends the bytes of the file, 20 and those of the leader's id. It
// appends nothing and fails, as CheckLeader does, for an id that could not be
// read back.
func (b Ballot) AppendTo(dst []byte) ([]byte, error) {
	if err := CheckLeader(b.Leader); err != nil {
		return dst, err
	}
	start := len(dst)
	dst = ballotKind().appendHead(dst, uint16(len(b.Leader)))
	dst = binary.BigEndian.AppendUint64(dst, b.Generation)
	dst = append(dst, b.Leader...)
	return appendChecksum(dst, start), nil
}

// DecodeBallot reads a ballot. The error is a *DecodeError; the file is
// authoritative, so it has to fail the open.
func DecodeBallot(b []byte) (Ballot, error) {
	k := ballotKind()
	if err := k.checkHead(b, ballotHeaderBytes+crcBytes); err != nil {
		return Ballot{}, err
	}
	if len(b) < ballotHeaderBytes+crcBytes {
		return Ballot{}, k.short(b, ballotHeaderBytes+crcBytes)
	}
	size := ballotHeaderBytes + int(binary.BigEndian.Uint16(b[6:])) + crcBytes
	if err := k.checkWhole(b, size); err != nil {
		return Ballot{}, err
	}
	if err := checkLeaderBytes(size - ballotHeaderBytes - crcBytes); err != nil {
		return Ballot{}, err // before it is copied
	}
	leader := string(b[ballotHeaderBytes : size-crcBytes])
	if err := CheckLeader(leader); err != nil {
		return Ballot{}, err
	}
	return Ballot{Generation: binary.BigEndian.Uint64(b[8:]), Leader: leader}, nil
}

package sidecar

import "encoding/binary"

const (
	// ReplicaName is the file in a shard's directory.
	ReplicaName = "replica"
	// ReplicaBytes is its length.
	ReplicaBytes = 28

	flagRetentionHeld = 1
)

func replicaKind() kind { return kind{ReplicaName, 0x464C5253, 1} } // "FLRS"

// Replica is what a broker promised and knows about a replicated shard. An
// absent file is the zero value: nothing accepted, nothing known committed. A
// damaged one must not be read as that, since any leader would be accepted.
type Replica struct {
	// Generation is the highest at which a leader was accepted.
	Generation uint64 `json:"generation"`
	// Commit is one past the last offset known to be on a majority.
	Commit uint64 `json:"commit"`
	// RetentionHeld says that retention deletes nothing at or past Commit.
	RetentionHeld bool `json:"retention_held"`
	// OtherFlags are the flag bits that this build does not know. They come back
	// to the file as they were.
	OtherFlags uint16 `json:"other_flags,omitempty"`
}

// AppendTo appends the 28 bytes of the file.
func (r Replica) AppendTo(dst []byte) []byte {
	start := len(dst)
	flags := r.OtherFlags &^ flagRetentionHeld
	if r.RetentionHeld {
		flags |= flagRetentionHeld
	}
	dst = replicaKind().appendHead(dst, flags)
	dst = binary.BigEndian.AppendUint64(dst, r.Generation)
	dst = binary.BigEndian.AppendUint64(dst, r.Commit)
	return appendChecksum(dst, start)
}

// DecodeReplica reads exactly 28 bytes. The error is a *DecodeError; the file is
// authoritative, so it has to fail the open. Unknown flags are no error: where
// they stand, older builds write zeros and newer ones meanings.
func DecodeReplica(b []byte) (Replica, error) {
	k := replicaKind()
	if err := k.checkHead(b, ReplicaBytes); err != nil {
		return Replica{}, err
	}
	if err := k.checkWhole(b, ReplicaBytes); err != nil {
		return Replica{}, err
	}
	flags := binary.BigEndian.Uint16(b[6:])
	return Replica{
		Generation:    binary.BigEndian.Uint64(b[8:]),
		Commit:        binary.BigEndian.Uint64(b[16:]),
		RetentionHeld: flags&flagRetentionHeld != 0,
		OtherFlags:    flags &^ flagRetentionHeld,
	}, nil
}

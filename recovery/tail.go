package recovery

import (
	"fmt"
	"strconv"

	"felix.local/felix/segment"
)

// sectorBytes is the smallest piece a disk writes as a whole. A record that was
// cut by a lost block ends in zeros from such a boundary on.
const sectorBytes = 512

// verdict says what happens to the damaged end of a segment.
type verdict struct {
	// cut allows everything from the damage on to be cut off; reason says why
	// that, or why not.
	cut    bool
	reason string
	// belowMark says that the bytes in question are ones the mark vouches for.
	belowMark bool
	// copyOptional says that no whole record can be among the bytes.
	copyOptional bool
}

// tail judges the damage that a full walk over a segment found. Everything from
// the damage to the end of the file goes or stays together. The first rule that
// applies decides:
//
//  1. A record that runs past the end of the file is an unfinished write; its
//     header verified, so its length is what the writer meant.
//  2. At or past what the mark vouches for, nothing was acknowledged as durable.
//  3. checksumTail: the operator allows it, for damage that touches the end.
//  4. Without a mark, blocks that read as zeros to the end of the file were
//     never written: a power cut can leave the length and lose the blocks. With
//     a mark, zeros below it are bytes that were once synced, and rotted.
//
// Anything else may be a record that was acknowledged.
func (d *decision) tail(f *Facts, checksumTail bool) verdict {
	damage, size := f.Full.Damage, f.Full.Size
	vouched := d.marks.syncedThrough(f.ID)
	v := verdict{
		cut:          true,
		belowMark:    damage.Position < vouched,
		copyOptional: damage.Cause.Kind == segment.Truncated || damage.ZeroFrom == damage.Position,
	}
	switch {
	case damage.Cause.Kind == segment.Truncated:
		v.reason = "the last record runs past the end of the file: an unfinished write"
		if v.belowMark {
			v.reason += ", although " + MarkName + " vouches for bytes that are missing"
		}
	case d.marks.unsynced(f.ID, damage.Position):
		v.reason = fmt.Sprintf("%v, past what %s vouches for: a write that never became durable", damage.Cause.Kind, MarkName)
	case checksumTail && touchesEnd(damage, size):
		v.reason = fmt.Sprintf("%v in the last record, cut because repair of checksum damage at the tail is allowed", damage.Cause.Kind)
	case d.s.Mark == nil && zeroFilled(damage, size):
		v.reason = "zeros to the end of the file: blocks that never reached the disk"
	default:
		v.cut = false
		v.reason = d.whyNot(f, damage)
	}
	return v
}

// touchesEnd says whether the damaged record is the last thing in the file. More
// than one kind bit is never an unfinished write of ours.
func touchesEnd(damage *segment.Damage, size int64) bool {
	switch damage.Cause.Kind {
	case segment.RecordHeaderChecksum, segment.RecordChecksum, segment.OffsetOutOfOrder:
		return damage.ClaimedEnd >= size
	case segment.RecordTooLarge:
		return damage.ClaimedEnd > size
	default:
		return false
	}
}

// zeroFilled says whether the file ends in blocks that were never written: zeros
// from the record's start on, or from a sector boundary within the record.
func zeroFilled(damage *segment.Damage, size int64) bool {
	zero := damage.ZeroFrom
	if zero == size {
		return false
	}
	if zero == damage.Position {
		return true
	}
	boundary := (zero + sectorBytes - 1) / sectorBytes * sectorBytes
	return boundary < min(damage.ClaimedEnd, size)
}

// whyNot explains a refusal: which evidence is missing.
func (d *decision) whyNot(f *Facts, damage *segment.Damage) string {
	why := fmt.Sprintf("%v; ", damage.Cause.Kind)
	switch from, possible := d.marks.unsyncedFrom(f.ID); {
	case d.s.Mark == nil:
		why += "without a usable " + MarkName + " this may be a record that was acknowledged"
	case !possible:
		why += MarkName + " vouches for the whole segment, so this was on the disk and rotted"
	default:
		why += fmt.Sprintf("%s vouches for the bytes below position %d, so this was on the disk and rotted", MarkName, from)
	}
	if damage.IntactAfter > 0 {
		why += "; intact records that follow: " + strconv.FormatUint(damage.IntactAfter, 10)
	}
	return why
}

// remedyRestore is what an operator can always do about rot.
const remedyRestore = "bring the file back from a backup of the shard (docs/backup.md), or export what can be read with felixd log dump --skip-damaged"

func remedyForTail(damage *segment.Damage, size int64) string {
	if !touchesEnd(damage, size) {
		return remedyRestore
	}
	return remedyRestore + "; to give up the damaged last record instead, open once with repair of checksum damage at the tail allowed " +
		"(FELIX_DURABLE_REPAIR_CHECKSUM_TAIL=true)"
}

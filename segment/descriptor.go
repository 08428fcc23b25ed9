package segment

// Descriptor is what a log knows about one of its segments without opening it.
type Descriptor struct {
	// ID names the files. It is independent of the offsets inside.
	ID uint64
	// BaseOffset is the offset of the first record, present or to come.
	BaseOffset uint64
	// NextOffset is one past the last record; BaseOffset when there is none.
	NextOffset uint64
	// Size is the number of valid bytes, header included.
	Size int64
	// Version is the segment's format version.
	Version uint16
	// CreatedAtMicros is copied from the header.
	CreatedAtMicros uint64
}

// Empty says whether the segment holds no record.
func (d Descriptor) Empty() bool { return d.NextOffset <= d.BaseOffset }

// LastOffset is the offset of the last record; the base when there is none.
func (d Descriptor) LastOffset() uint64 {
	if d.Empty() {
		return d.BaseOffset
	}
	return d.NextOffset - 1
}

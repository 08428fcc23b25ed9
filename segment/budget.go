package segment

// Budget bounds what one read returns. One budget is shared by all segments
// the read touches.
type Budget struct {
	// Bytes is how many payload bytes may still be returned.
	Bytes int64
	// Records is how many records may still be returned.
	Records int
	// Started says that a record was returned already.
	Started bool
	// Page is memory to read into, optional. It is used up from the front, and
	// what is returned aliases it; when it runs out, pages are allocated. A
	// caller that is done with one result before it asks for the next can read
	// a whole log through one page of 1 MiB and a little; otherwise most of
	// the time goes into getting memory.
	Page []byte
}

// Admit asks for one record more and takes it off the budget when it is
// granted. The first record is granted however large it is, so that a reader
// with a small budget gets past it; every later one has to fit.
func (b *Budget) Admit(payloadLen int64) bool {
	if b.Records <= 0 || (b.Started && payloadLen > b.Bytes) {
		return false
	}
	b.Started = true
	b.Records--
	b.Bytes = max(0, b.Bytes-payloadLen)
	return true
}

// page gives memory for at least need bytes, of left that there are to read.
func (b *Budget) page(need, left int64) []byte {
	want := max(need, min(b.pageBytes(), left))
	room := int64(len(b.Page))
	if room < max(need, min(want, minBufferBytes)) {
		return make([]byte, want)
	}
	size := min(want, room)
	page := b.Page[:size:size]
	b.Page = b.Page[size:]
	return page
}

// pageBytes is how much to read at once for what is left of the budget: enough
// for the payloads and the headers of small records, but not a large page for a
// few records, since what is returned keeps its page in memory.
func (b *Budget) pageBytes() int64 {
	want := maxPageBytes
	if b.Bytes < maxPageBytes {
		want = b.Bytes + b.Bytes/4
	}
	if int64(b.Records) < maxPageBytes/fewRecordsPageBytes {
		want = min(want, int64(b.Records)*fewRecordsPageBytes)
	}
	return min(max(want+minBufferBytes, minBufferBytes), maxPageBytes)
}

const (
	maxPageBytes        = int64(1<<20 + 64<<10)
	fewRecordsPageBytes = 64 << 10
)

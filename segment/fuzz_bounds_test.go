package segment

import (
	"io"
	"testing"
)

// slackBytes is what errors and small change may take, whatever the input.
const slackBytes = 32 << 10

// mustAllocate holds a bound on what do allocates: slackBytes and so many times
// the size of the input, garbage included. A fuzzer's process runs nothing beside it.
func mustAllocate(t *testing.T, times, size int, do func()) {
	t.Helper()
	before := allocated()
	do()
	if got, bound := allocated()-before, uint64(slackBytes+times*size); got > bound {
		t.Fatalf("%d bytes allocated for an input of %d, %d are allowed", got, size, bound)
	}
}

// mustScanWithinBounds walks a segment as recovery does, without looking at
// payloads: the memory is a buffer and the index, and the bytes read are the
// file's a few times over, whatever they hold.
func mustScanWithinBounds(t *testing.T, r io.ReaderAt, size int) {
	t.Helper()
	counted := &countingReader{r: r}
	buffer := make([]byte, minBufferBytes)
	mustAllocate(t, 2, size, func() {
		_, _ = Scan(counted, int64(size), ScanOptions{Spacing: 64, Buffer: buffer})
	})
	const times = 8
	if bound := int64(times * (size + minBufferBytes)); counted.bytes > bound {
		t.Fatalf("%d bytes read for a file of %d, %d are allowed", counted.bytes, size, bound)
	}
}

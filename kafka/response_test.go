package kafka

import (
	"bytes"
	"net"
	"testing"
)

func TestAnAnswerIsCutIntoPartsWithoutALoss(t *testing.T) {
	for _, sizes := range [][]int{
		{}, {1}, {partSize}, {partSize + 1}, {partSize, 1}, {1, partSize}, {10, 3 * partSize, 20}, {0, partSize, 0, 0, 5}, {partSize / 2, partSize / 2, partSize / 2},
	} {
		var pieces net.Buffers
		var whole []byte
		for i, size := range sizes {
			piece := bytes.Repeat([]byte{byte(i + 1)}, size)
			pieces = append(pieces, piece)
			whole = append(whole, piece...)
		}
		var got []byte
		for rest := pieces; len(rest) > 0; {
			var part net.Buffers
			part, rest = cutPart(rest)
			size := 0
			for _, piece := range part {
				size += len(piece)
				got = append(got, piece...)
			}
			if size > partSize || size == 0 && len(rest) > 0 {
				t.Errorf("%v: a part of %d bytes", sizes, size)
			}
		}
		if !bytes.Equal(got, whole) {
			t.Errorf("%v: %d bytes became %d", sizes, len(whole), len(got))
		}
	}
}

package journal

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"testing"
)

// changed flips a bit of a frame.
func changed(b []byte, at int) []byte {
	b = bytes.Clone(b)
	b[at] ^= 0x40
	return b
}

const headerBit, bodyBit = frameAtSequence, HeaderBytes + 70

func TestChain(t *testing.T) {
	stale := sized(testEpoch+1, 50, 2, 1)
	for name, c := range map[string]struct {
		contents [][]byte
		want     []uint64
	}{
		"no files":                {nil, nil},
		"zeros":                   {[][]byte{nil, nil}, nil},
		"one frame":               {[][]byte{one(1, 1)}, []uint64{1}},
		"frames back to back":     {[][]byte{join(one(1, 1), sized(testEpoch, 2, 1, 3), one(3, 1))}, []uint64{1, 2, 3}},
		"over files in any order": {[][]byte{join(one(3, 1), one(4, 1)), nil, join(one(1, 1), one(2, 1))}, []uint64{1, 2, 3, 4}},
		"what is not needed any more is left out":                {[][]byte{join(one(1, 1), one(2, 1), one(3, 3), one(4, 3))}, []uint64{3, 4}},
		"the largest oldest needed counts, not the last":         {[][]byte{join(one(1, 1), one(2, 2), one(3, 1))}, []uint64{2, 3}},
		"damage in what is not needed is no matter":              {[][]byte{join(changed(one(1, 1), bodyBit), changed(one(2, 1), headerBit), one(3, 3))}, []uint64{3}},
		"a hole in what is not needed is no matter":              {[][]byte{join(one(1, 1), one(4, 4))}, []uint64{4}},
		"stale frames of a file used again":                      {[][]byte{join(one(5, 3), one(2, 1)), join(one(3, 1), one(4, 1))}, []uint64{3, 4, 5}},
		"stale middle of a large frame":                          {[][]byte{join(one(5, 4), sized(testEpoch, 1, 1, 4)[BlockBytes:], one(2, 1)), join(one(3, 1), one(4, 1))}, []uint64{4, 5}},
		"frames of another epoch before, between and behind":     {[][]byte{join(stale, one(1, 1), stale), join(one(2, 1), stale)}, []uint64{1, 2}},
		"only frames of another epoch":                           {[][]byte{join(stale, stale)}, nil},
		"the last frame is torn in its body":                     {[][]byte{join(one(1, 1), changed(one(2, 1), bodyBit))}, []uint64{1}},
		"the last frame is torn in its header":                   {[][]byte{join(one(1, 1), changed(one(2, 1), headerBit))}, []uint64{1}},
		"the last frame is torn over a stale one":                {[][]byte{join(one(3, 3), sized(testEpoch, 4, 3, 2)[:BlockBytes], one(1, 1))}, []uint64{3}},
		"the last frame is torn and says that less is needed":    {[][]byte{join(one(1, 1), one(2, 1), changed(one(3, 3), bodyBit))}, []uint64{1, 2}},
		"the only frame is torn":                                 {[][]byte{changed(one(1, 1), bodyBit)}, nil},
		"a frame runs past the end of its file":                  {[][]byte{join(make([]byte, 15*BlockBytes), sized(testEpoch, 2, 1, 2)[:BlockBytes]), one(1, 1)}, []uint64{1}},
		"a frame ends with its file":                             {[][]byte{join(sized(testEpoch, 1, 1, 14), sized(testEpoch, 2, 1, 2))}, []uint64{1, 2}},
		"nothing is needed but the last":                         {[][]byte{join(one(1, 1), one(2, 2))}, []uint64{2}},
		"a file ends within a frame's header":                    {[][]byte{join(one(1, 1), make([]byte, 15*BlockBytes), one(2, 1)[:40])}, []uint64{1}},
		"an unfinished frame of the other generation lies first": {[][]byte{join(sized(testEpoch, 2, 1, 2)[:BlockBytes], make([]byte, BlockBytes)), one(1, 1)}, []uint64{1}},
	} {
		t.Run(name, func(t *testing.T) {
			if got := sequences(t, files(c.contents...)); fmt.Sprint(got) != fmt.Sprint(c.want) {
				t.Errorf("chain %v, want %v", got, c.want)
			}
		})
	}
}

func TestRottenFrame(t *testing.T) {
	const block = BlockBytes
	two := sized(testEpoch, 2, 1, 2)
	for name, c := range map[string]struct {
		contents [][]byte
		sequence uint64
		file     int
		position int64
		cause    CorruptionKind
	}{
		"body in the middle":                  {[][]byte{join(one(1, 1), changed(two, bodyBit), one(3, 1))}, 2, 0, block, BodyChecksum},
		"second block of a body":              {[][]byte{join(one(1, 1), changed(two, block+9), one(3, 1))}, 2, 0, block, BodyChecksum},
		"header in the middle":                {[][]byte{join(one(1, 1), changed(two, headerBit), one(3, 1))}, 2, 0, block, 0},
		"body of the first one needed":        {[][]byte{join(one(1, 1), changed(two, bodyBit), one(3, 2))}, 2, 0, block, BodyChecksum},
		"header of the first of all":          {[][]byte{join(changed(one(1, 1), headerBit), one(2, 1))}, 1, 0, 0, 0},
		"overwritten with zeros":              {[][]byte{join(one(1, 1), make([]byte, 2*block), one(3, 1))}, 2, 0, block, 0},
		"two of them":                         {[][]byte{join(one(1, 1), make([]byte, 2*block), one(4, 1))}, 2, 0, block, 0},
		"a file is gone":                      {[][]byte{join(one(1, 1), one(2, 1)), nil, join(one(5, 1), one(6, 1))}, 3, 0, 2 * block, 0},
		"first of a file":                     {[][]byte{join(one(1, 1), one(2, 1)), join(changed(one(3, 1), headerBit), one(4, 1))}, 3, 1, 0, 0},
		"last of a file":                      {[][]byte{join(one(1, 1), changed(one(2, 1), headerBit)), join(one(3, 1), one(4, 1))}, 2, 0, block, 0},
		"last of a file, body":                {[][]byte{join(one(1, 1), changed(one(2, 1), bodyBit)), join(one(3, 1), one(4, 1))}, 2, 0, block, BodyChecksum},
		"the later one is in an earlier file": {[][]byte{join(one(3, 1), one(4, 1)), join(one(1, 1), changed(one(2, 1), bodyBit))}, 2, 1, block, BodyChecksum},
		"the later one hides behind damage": {
			[][]byte{join(one(1, 1), changed(two, headerBit), changed(one(3, 1), headerBit), one(4, 1))}, 2, 0, block, 0,
		},
		"the needed one was overwritten":    {[][]byte{join(one(4, 2), one(5, 2)), one(3, 2)}, 2, 1, 0, 0},
		"two frames with the same sequence": {[][]byte{join(one(1, 1), one(2, 1)), two}, 2, 1, 0, Impossible},
	} {
		t.Run(name, func(t *testing.T) {
			sources := files(c.contents...)
			_, err := Scan(sources, testEpoch)
			var rotten *RottenError
			if !errors.As(err, &rotten) {
				t.Fatalf("got %v", err)
			}
			if rotten.Sequence != c.sequence || rotten.File != FileName(c.file) || rotten.Position != c.position || rotten.Later < rotten.Sequence {
				t.Errorf("got %v", err)
			}
			var kind CorruptionKind
			if rotten.Cause != nil {
				kind = asCorruption(t, err).Kind
			}
			if kind != c.cause {
				t.Errorf("cause %v", rotten.Cause)
			}
		})
	}
}

// A publisher may well send what a frame looks like, or a copy of one of ours out
// of a backup: it neither joins the chain nor hides what follows.
func TestPayloadsThatLookLikeFrames(t *testing.T) {
	// The copy begins with a block, as those do that a walk looks at.
	carrying := func(sequence uint64, copied []byte) []byte {
		room := make([]byte, BlockBytes-HeaderBytes-EntryHeaderBytes-len(testShard)-28)
		return frame(testEpoch, sequence, 1, data(7, join(room, copied, []byte("and more"))))
	}
	older := one(1, 1)
	for name, c := range map[string]struct {
		content []byte
		want    []uint64
		rotten  uint64
	}{
		"in an intact frame":                                  {join(one(1, 1), carrying(2, older), one(3, 1)), []uint64{1, 2, 3}, 0},
		"in the last frame, which is torn":                    {join(one(1, 1), changed(carrying(2, older), bodyBit)), []uint64{1}, 0},
		"in the last frame, whose header is lost":             {join(one(1, 1), changed(carrying(2, older), headerBit)), []uint64{1}, 0},
		"in a rotted frame":                                   {join(one(1, 1), changed(carrying(2, older), headerBit), one(3, 1)), nil, 2},
		"a header alone that claims much, in a rotted frame":  {join(one(1, 1), changed(carrying(2, sized(testEpoch, 1, 1, 9)[:HeaderBytes]), headerBit), one(3, 1)), nil, 2},
		"a header alone of another epoch, in a rotted frame":  {join(one(1, 1), changed(carrying(2, sized(7, 1, 1, 9)[:HeaderBytes]), headerBit), one(3, 1)), nil, 2},
		"a whole frame of another epoch, in a rotted frame":   {join(one(1, 1), changed(carrying(2, sized(7, 9, 9, 2)), headerBit), one(3, 1)), nil, 2},
		"a copy of the rotted frame itself, in a later frame": {join(changed(one(1, 1), bodyBit), carrying(2, older), one(3, 1)), nil, 1},
	} {
		t.Run(name, func(t *testing.T) {
			if c.rotten == 0 {
				if got := sequences(t, files(c.content)); fmt.Sprint(got) != fmt.Sprint(c.want) {
					t.Errorf("chain %v, want %v", got, c.want)
				}
				return
			}
			_, err := Scan(files(c.content), testEpoch)
			var rotten *RottenError
			if !errors.As(err, &rotten) || rotten.Sequence != c.rotten {
				t.Errorf("got %v", err)
			}
		})
	}
}

// failing fails all reads from a position on.
type failing struct {
	*bytes.Reader
	from int64
}

var errDisk = errors.New("the disk is on fire")

func (f failing) ReadAt(b []byte, pos int64) (int, error) {
	if pos+int64(len(b)) > f.from {
		return 0, errDisk
	}
	return f.Reader.ReadAt(b, pos)
}

func TestFailedReadIsNoEndOfTheChain(t *testing.T) {
	sources := files(join(one(1, 1), one(2, 1)))
	sources[0].Reader = failing{bytes.NewReader(make([]byte, sources[0].Bytes)), 0}
	if _, err := Scan(sources, testEpoch); !errors.Is(err, errDisk) {
		t.Errorf("got %v", err)
	}
	sources = files(one(1, 1))
	sources[0].Bytes++
	if _, err := Scan(sources, testEpoch); !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Errorf("a file shorter than it was said to be: %v", err)
	}
}

func TestFrameThatChangedSinceTheScanIsRefused(t *testing.T) {
	content := join(one(1, 1), one(2, 1), one(3, 1), make([]byte, BlockBytes))
	for name, put := range map[string][]byte{"damaged": changed(one(2, 1), bodyBit), "replaced": one(2, 2)} {
		b := bytes.Clone(content)
		c, err := Scan([]Source{{Name: "x", Reader: bytes.NewReader(b), Bytes: int64(len(b))}}, testEpoch)
		if err != nil {
			t.Fatal(err)
		}
		copy(b[BlockBytes:], put)
		var rotten *RottenError
		if err := c.Each(func(Header, []Entry) error { return nil }); !errors.As(err, &rotten) || rotten.Sequence != 2 || rotten.Position != BlockBytes {
			t.Errorf("%s: %v", name, err)
		}
	}
	sources := files(content)
	c, err := Scan(sources, testEpoch)
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Each(func(Header, []Entry) error { return errDisk }); !errors.Is(err, errDisk) {
		t.Errorf("the caller's error: %v", err)
	}
	c.sources[0].Reader = failing{nil, 0}
	if err := c.Each(func(Header, []Entry) error { return nil }); !errors.Is(err, errDisk) {
		t.Errorf("the disk's error: %v", err)
	}
}

// Every byte of the last frame may be lost or kept: the chain is the same. With a
// frame behind it, each such loss is found.
func TestEveryPrefixOfALastFrameIsAnEndAndOfAMiddleOneRot(t *testing.T) {
	two := sized(testEpoch, 2, 1, 2)
	whole := HeaderBytes + EntryHeaderBytes + len(testShard) + 28 + BlockBytes + 9
	for n := 0; n < whole; n += 1 + n/64 {
		torn := append(bytes.Clone(two[:n]), bytes.Repeat([]byte{0xee}, len(two)-n)...)
		if got := sequences(t, files(join(one(1, 1), torn))); len(got) != 1 {
			t.Fatalf("%d bytes: chain %v", n, got)
		}
		var rotten *RottenError
		if _, err := Scan(files(join(one(1, 1), torn, one(3, 1))), testEpoch); !errors.As(err, &rotten) || rotten.Sequence != 2 || rotten.Position != BlockBytes {
			t.Fatalf("%d bytes: %v", n, err)
		}
	}
}

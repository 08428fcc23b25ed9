package kafka

import "testing"

func TestBuffersHoldWhatIsAskedForAndAreKeptByWhatTheyHold(t *testing.T) {
	var p buffers
	for _, n := range []int{0, 1, 511, 512, 513, 1 << 20, 1<<20 + 1, 1 << 25, 1<<25 + 1} {
		buf := p.get(n)
		if len(buf.b) != n {
			t.Fatalf("asked for %d, got %d", n, len(buf.b))
		}
		buf.b = append(buf.b, 1, 2, 3) // it may grow meanwhile
		p.put(buf)
		for class := bufferMinBits; class <= bufferMaxBits; class++ {
			if kept := p.kept(1 << class); kept != nil && cap(kept.b) < 1<<class {
				t.Errorf("a buffer of %d is kept as one of %d", cap(kept.b), 1<<class)
			}
		}
	}
	p.put(nil) // a call that never had one
}

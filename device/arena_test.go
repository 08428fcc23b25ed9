package device_test

import (
	"os"
	"sync"
	"testing"
	"unsafe"

	"felix.local/felix/device"
)

func take(t *testing.T, a *device.Arena, n int) []byte {
	t.Helper()
	b, err := a.Take(n)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func TestArenaBuffersAreAlignedAndOfTheirClass(t *testing.T) {
	a := device.NewArena()
	page := os.Getpagesize()
	for _, n := range []int{0, 1, page - 1, page, page + 1, 3 * page, 4 * page, 1<<20 - 1, 1 << 20, 1<<20 + 1, 5 << 20} {
		b := take(t, a, n)
		size := device.ClassBytes(n)
		if len(b) != size || cap(b) != size || size < max(n, page) || size&(size-1) != 0 || size >= 2*max(n, page) {
			t.Errorf("%d bytes: a buffer of %d, class %d", n, len(b), size)
		}
		if at := uintptr(unsafe.Pointer(unsafe.SliceData(b))); at%uintptr(page) != 0 {
			t.Errorf("%d bytes: at %#x", n, at)
		}
		b[0], b[len(b)-1] = 1, 2
		a.Give(b)
	}
	a.Close()
}

func TestArenaBuffersDoNotOverlap(t *testing.T) {
	a := device.NewArena()
	var all [][]byte
	for i := range 600 {
		b := take(t, a, 4096<<(i%3))
		for j := range b {
			b[j] = byte(i)
		}
		all = append(all, b)
	}
	for i, b := range all {
		for _, c := range b {
			if c != byte(i) {
				t.Fatalf("buffer %d was overwritten", i)
			}
		}
		a.Give(b)
	}
	a.Close()
}

func TestArenaReusesWhatWasGivenBack(t *testing.T) {
	a := device.NewArena()
	a.Give(take(t, a, 10_000))
	_, before := a.Usage()
	for range 1000 {
		// A shortened buffer goes back as the whole one it was.
		a.Give(take(t, a, 10_000)[:17])
	}
	taken, after := a.Usage()
	if taken != 0 || after != before {
		t.Fatalf("%d bytes taken, %d mapped, %d before", taken, after, before)
	}
	a.Close()
}

func TestArenaUnmapsBuffersAboveThePooledSize(t *testing.T) {
	a := device.NewArena()
	b := take(t, a, device.MaxPooled+1)
	if taken, mapped := a.Usage(); taken != 2*device.MaxPooled || mapped != taken {
		t.Fatal(taken, mapped)
	}
	a.Give(b)
	if taken, mapped := a.Usage(); taken != 0 || mapped != 0 {
		t.Fatal(taken, mapped)
	}
	a.Close()
}

func TestArenaRefusesToCloseWhileBuffersAreOut(t *testing.T) {
	a := device.NewArena()
	b := take(t, a, 1)
	func() {
		defer func() {
			if recover() == nil {
				t.Error("no panic")
			}
		}()
		a.Close()
	}()
	a.Give(b)
	a.Give(nil)
	a.Close()
	if _, err := a.Take(1); err == nil {
		t.Error("a closed arena gives buffers")
	}
}

func TestArenaServesManyGoroutines(t *testing.T) {
	a := device.NewArena()
	var all sync.WaitGroup
	for i := range 8 {
		all.Go(func() {
			for j := range 200 {
				b, err := a.Take(1 << (j % 18))
				if err != nil {
					t.Error(err)
					return
				}
				b[0], b[len(b)-1] = byte(i), byte(i)
				if b[0] != byte(i) || b[len(b)-1] != byte(i) {
					t.Error("a buffer is in two hands")
				}
				a.Give(b)
			}
		})
	}
	all.Wait()
	a.Close()
}

func TestArenaSlabsServeOneSizeAfterAnother(t *testing.T) {
	a := device.NewArena()
	const together, classes = 16 << 20, 9 // each size keeps one slab
	for size := os.Getpagesize(); size <= device.MaxPooled; size *= 2 {
		var out [][]byte
		for at := 0; at < together; at += size {
			out = append(out, take(t, a, size))
		}
		for _, b := range out {
			a.Give(b)
		}
		if taken, mapped := a.Usage(); taken != 0 || mapped > together+classes<<20 {
			t.Fatalf("after buffers of %d bytes: %d taken, %d mapped", size, taken, mapped)
		}
	}
	a.Close()
	if _, mapped := a.Usage(); mapped != 0 {
		t.Fatalf("%d bytes stay mapped", mapped)
	}
}

func TestArenaRefusesABufferThatIsNotItsOwn(t *testing.T) {
	a := device.NewArena()
	defer func() {
		if recover() == nil {
			t.Error("a foreign buffer was taken in")
		}
	}()
	a.Give(make([]byte, os.Getpagesize()))
}

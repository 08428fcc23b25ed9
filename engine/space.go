package engine

import (
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"felix.local/felix/device"
)

// spaceCheckInterval is how often free space is looked at when nothing is written.
const spaceCheckInterval = time.Second

// spaceGuard refuses appends while the filesystem has less free space or inodes
// than the configured floor, so that recovery, retention and sidecars can still
// write. It opens again only an eighth above the floor: an append pattern must
// not flap around it.
//
// Between two looks, appends spend a credit of half of what was free above the
// floor; when it is used up the next look comes at once. So a burst cannot run
// through the floor within one interval.
type spaceGuard struct {
	fs                  device.FS
	root                string
	minBytes, minInodes int64

	low    atomic.Bool
	credit atomic.Int64
	kick   chan struct{}

	mu struct {
		sync.Mutex
		bytes, inodes int64
		reason        string
		err           error
	}
}

func newSpaceGuard(fs device.FS, root string, minBytes, minInodes int64) *spaceGuard {
	return &spaceGuard{fs: fs, root: root, minBytes: minBytes, minInodes: minInodes, kick: make(chan struct{}, 1)}
}

// look reads the filesystem's state and opens or closes the guard.
func (g *spaceGuard) look() {
	space, err := g.fs.Space(g.root)
	g.mu.Lock()
	defer g.mu.Unlock()
	g.mu.err = err
	if err != nil {
		// Not knowing is no reason to refuse: the disk itself will.
		g.low.Store(false)
		g.credit.Store(1 << 40)
		return
	}
	g.mu.bytes, g.mu.inodes = space.FreeBytes, space.FreeInodes
	needBytes, needInodes := g.minBytes, g.minInodes
	if g.low.Load() {
		needBytes += needBytes / 8
		needInodes += needInodes / 8
	}
	switch {
	case g.minBytes > 0 && space.FreeBytes < needBytes:
		g.mu.reason = fmt.Sprintf("%d bytes free, %d required", space.FreeBytes, needBytes)
		g.low.Store(true)
	case g.minInodes > 0 && space.FreeInodes >= 0 && space.FreeInodes < needInodes:
		g.mu.reason = fmt.Sprintf("%d inodes free, %d required", space.FreeInodes, needInodes)
		g.low.Store(true)
	default:
		g.mu.reason = ""
		g.low.Store(false)
	}
	g.credit.Store(max(0, (space.FreeBytes-g.minBytes)/2))
}

// admit says whether n more bytes may be appended; when not, why.
func (g *spaceGuard) admit(n int64) (string, bool) {
	if g.minBytes == 0 && g.minInodes == 0 {
		return "", true
	}
	if g.low.Load() {
		g.mu.Lock()
		defer g.mu.Unlock()
		return g.mu.reason, false
	}
	if g.credit.Add(-n) < 0 {
		select {
		case g.kick <- struct{}{}:
		default:
		}
	}
	return "", true
}

func (g *spaceGuard) state() (bytes, inodes int64, low bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.mu.bytes, g.mu.inodes, g.low.Load()
}

// room is what is free above the floor, as far as is known; 0 when it is not.
func (g *spaceGuard) room() int64 {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.mu.err != nil {
		return 0
	}
	return max(0, g.mu.bytes-g.minBytes)
}

// run looks again at every tick and whenever the credit is used up.
func (g *spaceGuard) run(stop <-chan struct{}) {
	ticker := time.NewTicker(spaceCheckInterval)
	defer ticker.Stop()
	for {
		select {
		case <-stop:
			return
		case <-ticker.C:
		case <-g.kick:
		}
		g.look()
	}
}

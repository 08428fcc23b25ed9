package engine

import (
	"fmt"
	"log/slog"
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
	logger              *slog.Logger

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

func newSpaceGuard(fs device.FS, root string, minBytes, minInodes int64, logger *slog.Logger) *spaceGuard {
	return &spaceGuard{fs: fs, root: root, minBytes: minBytes, minInodes: minInodes, logger: logger, kick: make(chan struct{}, 1)}
}

// look reads the filesystem's state and opens or closes the guard.
func (g *spaceGuard) look() {
	space, err := g.fs.Space(g.root)
	wasLow := g.low.Load() // none but look changes it
	reason := g.judge(space, err)
	switch low := g.low.Load(); {
	case low && !wasLow:
		g.logger.Warn("the disk is nearly full, appends are refused", "root", g.root, "reason", reason)
	case wasLow && !low && err == nil:
		g.logger.Info("there is space again, appends are taken", "root", g.root, "free_bytes", space.FreeBytes, "free_inodes", space.FreeInodes)
	}
}

// judge opens or closes the guard, and says why it is closed.
func (g *spaceGuard) judge(space device.Space, err error) (reason string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.mu.err = err
	if err != nil {
		// Not knowing is no reason to refuse: the disk itself will.
		g.low.Store(false)
		g.credit.Store(1 << 40)
		return ""
	}
	g.mu.bytes, g.mu.inodes = space.FreeBytes, space.FreeInodes
	switch {
	case g.minBytes > 0 && space.FreeBytes < g.needs(g.minBytes):
		g.closeLocked("bytes", space.FreeBytes, g.minBytes)
	case g.minInodes > 0 && space.FreeInodes >= 0 && space.FreeInodes < g.needs(g.minInodes):
		g.closeLocked("inodes", space.FreeInodes, g.minInodes)
	default:
		g.low.Store(false)
		g.mu.reason = ""
	}
	g.credit.Store(max(0, (space.FreeBytes-g.minBytes)/2))
	return g.mu.reason
}

// needs is how much has to be free for the guard to be open, given the floor.
func (g *spaceGuard) needs(floor int64) int64 {
	if g.low.Load() {
		floor += floor / 8
	}
	return floor
}

// closeLocked refuses appends from here on.
func (g *spaceGuard) closeLocked(what string, free, floor int64) {
	if g.low.Load() {
		g.mu.reason = fmt.Sprintf("%d %s free, %d required: the floor of %d and an eighth", free, what, g.needs(floor), floor)
		return
	}
	g.low.Store(true)
	g.mu.reason = fmt.Sprintf("%d %s free, %d required", free, what, floor)
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

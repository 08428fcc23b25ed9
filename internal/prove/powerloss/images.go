package powerloss

import (
	"fmt"
	"hash/fnv"
	"path/filepath"
	"slices"

	"felix.local/felix/internal/simdisk"
	"felix.local/felix/sidecar"
)

// image is what a crash left, with what it has to hold of each shard.
type image struct {
	host   host
	seed   uint64 // made it
	at     string // the moment, when it is worth telling
	death  bool   // of the process alone
	expect []expectation
	// name is what the root may say of the stream's name; nil when it says nothing.
	name *nameExpectation
	// id is the storage id that vouches for what was acknowledged; nil while there
	// was none.
	id *sidecar.StorageID
}

// bare has every shard be empty, at the offset that a new one begins at.
func (i *image) bare() {
	for s := range i.expect {
		i.expect[s] = expectation{}
	}
}

// copied gives an image on the same host whose expectations change by themselves.
func (i image) copied() image {
	i.name, i.expect = i.name.copied(), slices.Clone(i.expect)
	for s := range i.expect {
		i.expect[s].standing = i.expect[s].standing.copied()
	}
	return i
}

// crash takes an image. What must survive is read first, since it only grows.
func (w *workload) crash(o simdisk.CrashOptions) image {
	i := image{seed: o.Seed, death: o.Kind == simdisk.ProcessDeath}
	w.mu.Lock()
	shards := slices.Clone(w.shards)
	for _, t := range shards {
		i.expect = append(i.expect, t.promise(w.mode))
	}
	i.name, i.id = w.name.promise(), w.id
	w.mu.Unlock()
	i.host = w.host.crash(o)
	w.mu.Lock()
	defer w.mu.Unlock()
	for s, t := range shards {
		t.complete(&i.expect[s])
	}
	w.name.complete(i.name)
	return i
}

// death takes an image of a process death: the page cache stays, and with it all
// that was acknowledged or read.
func (w *workload) death(seed uint64) image {
	i := w.crash(simdisk.CrashOptions{Kind: simdisk.ProcessDeath, Seed: seed})
	for s := range i.expect {
		i.expect[s].held = i.expect[s].vouched
	}
	return i
}

// maybeCrash is the disk's hook. It takes images in the middle of something.
func (w *workload) maybeCrash(c simdisk.Change) {
	w.mu.Lock()
	seed := w.seedOfLocked(c)
	hot := w.hot != nil && w.hot(c, seed)
	now := w.id != nil && (w.at[w.changes] || hot)
	kill := now && hot && w.killed && seed>>32%2 == 0
	w.changes++
	w.mu.Unlock()
	if !now {
		return
	}
	taken := []image{w.crash(simdisk.CrashOptions{Writeback: w.writeback, Seed: seed})}
	if kill {
		taken = append(taken, w.death(seed))
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, i := range taken {
		i.at = describeChange(c)
		w.midway = append(w.midway, i)
	}
}

// hotWithin gives images of what the workload is about.
func (w *workload) hotWithin(_ simdisk.Change, seed uint64) bool {
	return w.within && seed%w.hotEach == 0
}

// amid does something that gives images meanwhile.
func (w *workload) amid(do func() error) error {
	w.mu.Lock()
	w.within = true
	w.mu.Unlock()
	err := do()
	w.mu.Lock()
	defer w.mu.Unlock()
	w.within = false
	return err
}

// seedOfLocked gives the seed of an image in front of a change. It depends on the
// change and on how many like it came before, and not on what other goroutines
// did, so that a replay gives the same image under another schedule.
func (w *workload) seedOfLocked(c simdisk.Change) uint64 {
	c.Path = filepath.Base(c.Path)
	if w.seen == nil {
		w.seen = make(map[simdisk.Change]uint64)
	}
	w.seen[c]++
	h := fnv.New64a()
	fmt.Fprintf(h, "%s %s %d %d %d", c.What, c.Path, c.Kind, c.Pos, w.seen[c])
	return simdisk.NewRand(w.seed ^ h.Sum64()).Next()
}

// aim chooses at how many and which of the next changes maybeCrash takes an image.
func (w *workload) aim(images, below int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.changes, w.at = 0, make(map[int]bool)
	for range images {
		w.at[int(w.rand.Below(uint64(below)))] = true
	}
}

// checkpoint takes images and checks them and those taken since the last one.
// One more is of a process death.
func (w *workload) checkpoint() error {
	var images []image
	for range w.imagesPerCheck {
		images = append(images, w.crash(simdisk.CrashOptions{Writeback: w.writeback, Seed: w.rand.Next()}))
	}
	images = append(images, w.death(w.rand.Next()))
	return w.judge(append(images, w.takeMidway()...))
}

// takeMidway gives the images taken in the middle of something. With many
// publishers it is known now, at rest, which records they may hold.
func (w *workload) takeMidway() []image {
	w.mu.Lock()
	defer w.mu.Unlock()
	images := w.midway
	w.sum.Midway += len(images)
	w.midway = nil
	if w.kind == Publishers {
		for _, i := range images {
			for s, t := range w.shards {
				i.expect[s].want = t.want
			}
		}
	}
	return images
}

package powercut

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"felix.local/felix/test/matrix/plan"
	"felix.local/felix/test/matrix/powercut/blocklog"
	"felix.local/felix/test/matrix/powercut/rig"
	"felix.local/felix/test/matrix/powercut/workload"
	"felix.local/felix/test/matrix/vm"
)

// ReplayRow is what became of one combination on all images.
type ReplayRow struct {
	Kernel string
	Store  workload.Store
	// Images are how many were looked at, by what became of the disk's cache.
	Images [3]int
	// Promised are the records that were promised at the moments of the images, summed
	// up over them, and Records those that were read back.
	Promised, Records uint64
	Findings          []Finding
}

// ReplayResult is what Replay found.
type ReplayResult struct {
	Rows []ReplayRow
	// Operations are those of the log, Flushes and FUA of them end in safety. Unsafe
	// writes, over all images, were in the disk's cache, and Dropped were left out,
	// wholly or in part.
	Operations, Flushes, FUA, Moments int
	Unsafe, Dropped                   int
}

const (
	// replayDiskBytes is the filesystem; the marks lie behind it.
	replayDiskBytes = 192 << 20
	logSectorBytes  = 512
	// imagesPerBoot is how many images one guest looks at.
	imagesPerBoot = 12
	// momentsBefore is which part of the moments lie before the first acknowledgement,
	// while the stores are made.
	momentsBefore = 8
)

// Replay runs the program once over a disk that logs its writes, and looks at what the
// disk may hold at many moments. It is about on_commit alone: there every acknowledgement
// says that the disk was flushed.
//
// Options.Lie mounts the filesystem without barriers: the program and the filesystem do
// what they always do, and no flush reaches the disk.
func Replay(ctx context.Context, o Options) (ReplayResult, error) {
	honest := o
	honest.Lie = false
	stores := slices.DeleteFunc(honest.allStores(), func(s workload.Store) bool { return s.Mode != "on_commit" })
	fresh, err := o.record(ctx, stores)
	if err != nil {
		return ReplayResult{}, err
	}
	file, err := os.Open(o.path("replay.log"))
	if err != nil {
		return ReplayResult{}, err
	}
	defer file.Close() // only read
	info, err := file.Stat()
	if err != nil {
		return ReplayResult{}, err
	}
	log, err := blocklog.Read(file, info.Size(), fresh.size)
	if err != nil {
		return ReplayResult{}, err
	}
	r, err := newReplayer(o, stores, log, fresh)
	if err != nil {
		return ReplayResult{}, err
	}
	err = r.lookAtAll(ctx)
	return r.result(), err
}

// record runs the program in a guest whose disk logs, and gives the disk as it was
// before.
//
// The disk is a virtio one: qemu's NVMe disk does not tell its image of forced unit
// access, so in its log a write that is safe could not be told from one that is not.
// Linux flushes a virtio disk instead.
func (o Options) record(ctx context.Context, stores []workload.Store) (*sparseImage, error) {
	modules, err := rig.VirtioModules(ctx, o.Kernel, o.Dir)
	if err != nil {
		return nil, err
	}
	image, log := o.path("replay.img"), o.path("replay.log")
	if err := vm.MakeDisk(ctx, image, replayDiskBytes, "ext4", rig.MkfsOptions()...); err != nil {
		return nil, err
	}
	if err := os.Truncate(image, replayDiskBytes+workload.MarkBytes); err != nil {
		return nil, err
	}
	if err := os.WriteFile(log, nil, 0o644); err != nil {
		return nil, err
	}
	fresh, err := readSparse(image)
	if err != nil {
		return nil, err
	}
	b := o.boot("replay", ModeAppend, workload.Spec{
		Root: dataDir, Stores: stores, Appends: o.Appends, Marks: "/dev/vda", MarksPosition: replayDiskBytes,
	})
	b.Modules = modules
	disk, logged := plan.Mount{Device: "/dev/vda", Filesystem: "ext4", Dir: dataDir}, ""
	if o.Lie {
		disk.Options = "barrier=0"
		logged = ",log-super-update-interval=1" // otherwise the number of operations is told at flushes
	}
	b.Mounts = []plan.Mount{disk}
	b.Disks = []string{
		"-blockdev", "driver=file,node-name=image,cache.no-flush=on,filename=" + vm.Escape(image),
		"-blockdev", "driver=file,node-name=log,cache.no-flush=on,filename=" + vm.Escape(log),
		"-blockdev", fmt.Sprintf("driver=blklogwrites,node-name=logged,file=image,log=log,log-sector-size=%d%s", logSectorBytes, logged),
		"-blockdev", "driver=raw,node-name=disk,file=logged",
		"-device", "virtio-blk-pci,drive=disk,write-cache=on,discard=off,write-zeroes=off",
	}
	done := false
	failed, end := b.Run(ctx, rig.Listener{Event: func(_ *vm.Guest, e workload.Event) { done = done || e.Kind == workload.Done }})
	err = errors.Join(failed, end, b.Clean())
	if err == nil && !done {
		err = errors.New("the program in the guest did not come to its end")
	}
	return fresh, err
}

// replayer looks at images.
type replayer struct {
	Options
	stores []workload.Store
	log    *blocklog.Log
	fresh  *sparseImage
	cuts   []blocklog.Cut
	rows   map[string]*ReplayRow
	sums   ReplayResult
}

func newReplayer(o Options, stores []workload.Store, log *blocklog.Log, fresh *sparseImage) (*replayer, error) {
	r := &replayer{Options: o, stores: stores, log: log, fresh: fresh, rows: make(map[string]*ReplayRow)}
	for _, s := range stores {
		s.Lie = o.Lie
		r.rows[s.Name] = &ReplayRow{Kernel: o.Kernel.Release, Store: s}
	}
	first, end := 0, len(log.Entries)
	for first < end && log.Entries[first].Sector != marksSector {
		first++
	}
	if first == end {
		return nil, errors.New("the log of the disk's writes holds no acknowledgements")
	}
	before := max(1, o.Moments/momentsBefore)
	moments := append(log.Moments(before, 0, first), log.Moments(o.Moments-before, first, end)...)
	if o.Lie { // there are no flushes
		moments = moments[:0]
		for k := range o.Moments {
			moments = append(moments, first+1+k*(end-first-1)/o.Moments)
		}
	}
	for i, moment := range moments {
		for _, cache := range []blocklog.Cache{blocklog.Kept, blocklog.Lost, blocklog.Some} {
			r.cuts = append(r.cuts, blocklog.Cut{Before: moment, Cache: cache, Seed: o.Seed + uint64(i)})
		}
	}
	r.sums = ReplayResult{Operations: end, Moments: len(moments)}
	for _, e := range log.Entries {
		switch {
		case e.Flags&blocklog.Flush != 0:
			r.sums.Flushes++
		case e.Flags&blocklog.FUA != 0:
			r.sums.FUA++
		}
	}
	r.progress("the log has %d operations, %d flushes and %d writes with forced unit access; %d moments, %d images",
		end, r.sums.Flushes, r.sums.FUA, len(moments), len(r.cuts))
	return r, nil
}

const marksSector = replayDiskBytes / logSectorBytes

func (r *replayer) lookAtAll(ctx context.Context) error {
	for from := 0; from < len(r.cuts); from += imagesPerBoot {
		cuts := r.cuts[from:min(from+imagesPerBoot, len(r.cuts))]
		if err := r.lookAt(ctx, cuts); err != nil {
			return err
		}
		found := 0
		for _, row := range r.rows {
			found += len(row.Findings)
		}
		r.progress("%d of %d images, %d findings", from+len(cuts), len(r.cuts), found)
	}
	return nil
}

// lookAt builds some images and has one guest recover them.
func (r *replayer) lookAt(ctx context.Context, cuts []blocklog.Cut) error {
	var disks, paths []string
	ledgers := make([]*Ledger, len(cuts))
	for i, cut := range cuts {
		path := r.path(fmt.Sprintf("image%d.img", i))
		if err := r.build(path, cut); err != nil {
			return err
		}
		promised, err := r.promised(cut.Before)
		if err != nil {
			return err
		}
		ledgers[i] = NewLedger(r.stores, promised)
		paths = append(paths, path)
		disks = append(disks,
			"-drive", fmt.Sprintf("file=%s,format=raw,if=none,id=image%d,cache=unsafe", vm.Escape(path), i),
			"-device", fmt.Sprintf("nvme,drive=image%d,serial=image%d", i, i))
	}
	images := slices.Repeat([][]workload.Store{r.stores}, len(cuts))
	b := r.boot("images", ModeImages, workload.Spec{Root: dataDir, Images: images})
	b.Disks = disks
	at, bad := -1, false
	failed, end := b.Run(ctx, rig.Listener{Event: func(_ *vm.Guest, e workload.Event) {
		if e.Kind == workload.Image {
			bad = r.end(cuts, ledgers, at) || bad
			at = int(e.Bound)
			return
		}
		if at >= 0 {
			bad = r.note(cuts[at], ledgers[at].Take(e)) || bad
		}
	}})
	bad = r.end(cuts, ledgers, at) || bad
	err := errors.Join(failed, end, b.Clean())
	if at != len(cuts)-1 {
		err = errors.Join(err, fmt.Errorf("the guest looked at %d of %d images", at+1, len(cuts)))
	}
	if err != nil || bad && !r.Lie {
		return errors.Join(err, keepingNote(bad, paths))
	}
	for _, path := range paths {
		err = errors.Join(err, os.Remove(path))
	}
	return err
}

// keepingNote ends a run that found something: its images stay.
func keepingNote(bad bool, paths []string) error {
	if !bad {
		return nil
	}
	return fmt.Errorf("something was found; the images are %s", strings.Join(paths, ", "))
}

// build writes the image of a cut.
func (r *replayer) build(path string, cut blocklog.Cut) error {
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	err = r.fresh.writeTo(f)
	if err == nil {
		unsafe, dropped, buildErr := r.log.Build(f, cut)
		r.sums.Unsafe += unsafe
		r.sums.Dropped += dropped
		err = buildErr
	}
	return errors.Join(err, f.Close())
}

// promised is what the last block of marks before a moment says.
func (r *replayer) promised(before int) (map[workload.Log]workload.Bound, error) {
	i, ok := r.log.LastAt(marksSector, before)
	if !ok {
		return nil, nil
	}
	block, err := r.log.Read(i)
	if err != nil {
		return nil, err
	}
	bounds, ok := workload.ParseMarks(block)
	if !ok {
		return nil, fmt.Errorf("operation %d of the log is no block of acknowledgements", i)
	}
	return bounds, nil
}

// end judges what is known of an image once all was told; true with a finding.
func (r *replayer) end(cuts []blocklog.Cut, ledgers []*Ledger, at int) bool {
	if at < 0 {
		return false
	}
	l, cut := ledgers[at], cuts[at]
	bad := r.note(cut, l.Take(workload.Event{Kind: workload.Done}))
	promised, err := r.promised(cut.Before)
	if err != nil {
		return true // lookAt read the same block and did not get here with an error
	}
	for _, s := range r.stores {
		row := r.rows[s.Name]
		row.Images[cut.Cache]++
		for at, b := range promised {
			if at.Store == s.Name {
				row.Promised += b.Acked
			}
		}
		for at, n := range l.Found {
			if at.Store == s.Name {
				row.Records += n
			}
		}
	}
	return bad
}

func (r *replayer) note(cut blocklog.Cut, found []Finding) bool {
	for _, f := range found {
		f.Text += " (" + cut.String() + ")"
		if row := r.rows[f.Log.Store]; row != nil {
			row.Findings = append(row.Findings, f)
		}
	}
	return len(found) > 0
}

func (r *replayer) result() ReplayResult {
	sums := r.sums
	for _, s := range r.stores {
		sums.Rows = append(sums.Rows, *r.rows[s.Name])
	}
	return sums
}

// sparseImage is an image of which most is zeros.
type sparseImage struct {
	size   int64
	pieces map[int64][]byte
}

const pieceBytes = 64 << 10

func readSparse(path string) (*sparseImage, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close() // only read
	s := &sparseImage{pieces: make(map[int64][]byte)}
	for {
		piece := make([]byte, pieceBytes)
		n, err := io.ReadFull(f, piece)
		if n > 0 && strings.Trim(string(piece[:n]), "\x00") != "" {
			s.pieces[s.size] = piece[:n]
		}
		s.size += int64(n)
		switch {
		case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
			return s, nil
		case err != nil:
			return nil, err
		}
	}
}

// writeTo fills an empty file.
func (s *sparseImage) writeTo(f *os.File) error {
	for at, piece := range s.pieces {
		if _, err := f.WriteAt(piece, at); err != nil {
			return err
		}
	}
	return f.Truncate(s.size)
}

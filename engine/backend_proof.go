package engine

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"felix.local/felix/device"
)

// properties are what a backend and a filesystem can do together.
type properties struct {
	dsync, direct bool
	directReason  string
	// incomplete says that the disk took no temporary file, or no data, and what
	// was carried out all the same.
	incomplete string
}

const (
	// proofPrefix begins the name of every temporary file of a proof. A process
	// that was killed may leave one; the next proof removes it.
	proofPrefix = ".backend-proof-"
	proofBlock  = 4096
)

// overwritesInPlace are the filesystems where an O_DIRECT write to written blocks
// goes to those blocks and changes no metadata. The others write elsewhere first, or
// take O_DIRECT for a hint.
var overwritesInPlace = map[string]bool{"ext4": true, "xfs": true}

// prover carries real operations through a queue and compares what comes back.
type prover struct {
	fs               device.FS
	root, filesystem string
	temporary        string // path of the file of the latest proof
}

// text words an error without the name of the temporary file, which is another
// one every time: reasons are shown in metrics and must not differ from one start
// to the next.
func (p *prover) text(err error) string {
	if p.temporary == "" {
		return err.Error()
	}
	return strings.ReplaceAll(err.Error(), p.temporary, "a temporary file")
}

// prove returns what works. An error means that the queue cannot be used; a disk
// that is full or takes no writes is none.
func (p *prover) prove(q device.Queue) (properties, error) {
	if err := p.removeLeftovers(); err != nil {
		return properties{}, err
	}
	path := filepath.Join(p.root, fmt.Sprintf("%s%d-%d", proofPrefix, os.Getpid(), time.Now().UnixNano()))
	p.temporary = path
	file, err := p.fs.OpenFile(path, device.CreateNew, 0o600)
	if err != nil {
		return p.proveByFlush(q, err)
	}
	found, err := p.proveOn(q, file, path)
	return found, errors.Join(err, file.Close(), p.fs.Remove(path))
}

// proveByFlush is for a disk that takes no new file: the queue still has to carry
// something.
func (p *prover) proveByFlush(q device.Queue, cause error) (properties, error) {
	if !isDisksAnswer(cause) {
		return properties{}, cause
	}
	dir, err := p.fs.OpenDir(p.root)
	if err != nil {
		return properties{}, err
	}
	err = device.Do(q, &device.Op{Kind: device.FlushAll, File: dir})
	return p.unproven("a flush succeeded; writing was not tried out", cause), errors.Join(err, dir.Close())
}

func (p *prover) unproven(carriedOut string, cause error) properties {
	text := p.text(cause)
	return properties{directReason: "not found out: " + text, incomplete: carriedOut + ": " + text}
}

// isDisksAnswer: the filesystem said no, so whatever carried the question works.
func isDisksAnswer(err error) bool {
	switch device.ClassOf(err) {
	case device.ClassFull, device.ClassReadOnly, device.ClassTooManyFiles:
		return true
	default:
		return false
	}
}

func (p *prover) proveOn(q device.Queue, file device.File, path string) (found properties, err error) {
	arena := device.NewArena()
	defer func() {
		// A ring that broke may still read the buffer: then it stays mapped.
		if device.ClassOf(err) != device.ClassOutcomeUnknown {
			arena.Close()
		}
	}()
	buf, err := arena.Take(proofBlock)
	if err != nil {
		return found, err
	}
	defer func() {
		if device.ClassOf(err) != device.ClassOutcomeUnknown {
			arena.Give(buf)
		}
	}()
	buf = buf[:proofBlock]

	// Reserving is an operation of its own; a filesystem may not have it.
	err = device.Do(q, &device.Op{Kind: device.Allocate, File: file, Len: proofBlock})
	if err != nil && !isDisksAnswer(err) && device.ClassOf(err) != device.ClassUnsupported {
		return found, fmt.Errorf("reserving space: %w", err)
	}
	fill(buf, 1)
	if err = p.roundTrip(q, file, buf, 0, device.Write, device.Flush); err != nil {
		if isDisksAnswer(err) {
			return p.unproven("operations were answered; the disk took no data to read back", err), nil
		}
		return found, err
	}
	// Over the same block: on a disk with room for one only, another would be refused,
	// and that says nothing about the flag.
	fill(buf, 2)
	switch err = p.roundTrip(q, file, buf, 0, device.WriteDsync); {
	case err == nil:
		found.dsync = true
	case isDisksAnswer(err), errors.Is(err, syscall.EOPNOTSUPP), errors.Is(err, syscall.EINVAL):
		// The write works, the flag does not.
	default:
		return found, err
	}
	found.direct, found.directReason, err = p.proveDirect(q, file, path, buf, found.dsync)
	return found, err
}

// roundTrip writes buf, flushes when asked to, and reads it back.
func (p *prover) roundTrip(q device.Queue, file device.File, buf []byte, pos int64, kinds ...device.Kind) error {
	for _, kind := range kinds {
		if err := device.Do(q, &device.Op{Kind: kind, File: file, Buf: buf, Pos: pos}); err != nil {
			return err
		}
	}
	got := make([]byte, len(buf))
	if _, err := file.ReadAt(got, pos); err != nil {
		return err
	}
	if !bytes.Equal(got, buf) {
		return device.NewError("read", file.Name(), pos, errors.New("other bytes came back than were written"))
	}
	return nil
}

// proveDirect overwrites a written block past the page cache. Only a broken queue is
// an error.
func (p *prover) proveDirect(q device.Queue, file device.File, path string, buf []byte, dsync bool) (bool, string, error) {
	if !overwritesInPlace[p.filesystem] {
		return false, fmt.Sprintf("%s is not known to overwrite in place", p.filesystem), nil
	}
	if _, ok := device.FD(file); !ok {
		return false, "the disk has no descriptors", nil
	}
	fd, err := unix.Open(path, unix.O_RDWR|unix.O_DIRECT|unix.O_CLOEXEC|unix.O_NOFOLLOW, 0)
	if err != nil {
		return false, "opening past the page cache: " + err.Error(), nil
	}
	fill(buf, 3)
	op := &device.Op{Kind: device.Write, File: &directFile{File: file, fd: fd}, Buf: buf}
	if dsync {
		op.Kind = device.WriteDsync
	}
	err = device.Do(q, op)
	if device.ClassOf(err) == device.ClassOutcomeUnknown {
		return false, "", err // the descriptor may be in use still
	}
	if err = errors.Join(err, unix.Close(fd)); err != nil {
		return false, "writing past the page cache: " + p.text(err), nil
	}
	got := make([]byte, len(buf))
	if _, err = file.ReadAt(got, 0); err != nil {
		return false, "reading back: " + p.text(err), nil
	}
	if !bytes.Equal(got, buf) {
		return false, "what was written past the page cache was not read back", nil
	}
	return true, "", nil
}

// directFile is a file with a second descriptor that bypasses the page cache.
type directFile struct {
	device.File
	fd int
}

func (f *directFile) FD() int { return f.fd }

// Perform is what a pool worker calls.
func (f *directFile) Perform(op *device.Op) (int, error) {
	flags := 0
	if op.Kind == device.WriteDsync {
		flags = unix.RWF_DSYNC
	}
	op.Pieces = 1
	n, err := unix.Pwritev2(f.fd, [][]byte{op.Buf}, op.Pos, flags)
	if err == nil && n < len(op.Buf) {
		err = syscall.EIO
	}
	return max(n, 0), device.NewError(op.Kind.String(), f.Name(), op.Pos, err)
}

// fill makes bytes that depend on round, so that a write that did not happen is
// noticed.
func fill(buf []byte, round byte) {
	for i := range buf {
		buf[i] = round ^ byte(i) ^ byte(i>>8)
	}
}

// removeLeftovers removes the temporary files of processes that were killed. The
// root is locked, so no other proof is under way.
func (p *prover) removeLeftovers() error {
	entries, err := p.fs.ReadDir(p.root)
	if err != nil {
		return err
	}
	for _, e := range entries {
		if !strings.HasPrefix(e.Name, proofPrefix) || e.Type != 0 {
			continue
		}
		if err := p.fs.Remove(filepath.Join(p.root, e.Name)); err != nil && !isDisksAnswer(err) {
			return err
		}
	}
	return nil
}

package vm

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path"
	"slices"
	"strings"
)

// Initramfs writes the guest's first filesystem: files maps a path in the guest, which
// starts with a slash, to a file on the host. Directories above them are made, and those
// a first process mounts on. All files are executable.
//
// The format is cpio "newc", uncompressed: under emulation unpacking costs more than
// reading.
func Initramfs(path string, files map[string]string) error {
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	w := bufio.NewWriterSize(f, 1<<20)
	err = writeInitramfs(w, files)
	return errors.Join(err, w.Flush(), f.Close())
}

func writeInitramfs(w io.Writer, files map[string]string) error {
	a := &cpioArchive{w: w}
	for _, dir := range directories(slices.Collect(maps.Keys(files))) {
		if err := a.entry(dir, modeDirectory|0o755, 0, nil); err != nil {
			return err
		}
	}
	for _, name := range slices.Sorted(maps.Keys(files)) {
		if err := a.file(name, files[name]); err != nil {
			return err
		}
	}
	return a.entry(cpioTrailer, 0, 0, nil)
}

// directories are all directories above names, each before what is in it.
func directories(names []string) []string {
	found := map[string]bool{"/proc": true, "/sys": true, "/dev": true, "/tmp": true}
	for _, name := range names {
		for dir := path.Dir(path.Clean(name)); dir != "/" && dir != "."; dir = path.Dir(dir) {
			found[dir] = true
		}
	}
	return slices.Sorted(maps.Keys(found))
}

const (
	cpioMagic   = "070701"
	cpioTrailer = "TRAILER!!!"

	modeDirectory = 0o040000
	modeRegular   = 0o100000
)

// cpioArchive writes entries, each padded to four bytes.
type cpioArchive struct {
	w     io.Writer
	inode int
}

// entry writes a header, a name and size bytes of content. An entry without a name of
// the root is the last one.
func (a *cpioArchive) entry(name string, mode, size int64, content io.Reader) error {
	name = strings.TrimPrefix(name, "/")
	a.inode++
	links := 1
	if mode&modeDirectory != 0 {
		links = 2
	}
	// inode, mode, uid, gid, links, mtime, size, device (2), device it is (2), length
	// of the name with its zero, checksum
	head := cpioMagic
	for _, field := range []int64{int64(a.inode), mode, 0, 0, int64(links), 0, size, 0, 0, 0, 0, int64(len(name)) + 1, 0} {
		head += fmt.Sprintf("%08x", field)
	}
	head += name + "\x00"
	if _, err := io.WriteString(a.w, head+padding(int64(len(head)))); err != nil {
		return err
	}
	if size == 0 {
		return nil
	}
	if n, err := io.Copy(a.w, io.LimitReader(content, size)); n < size {
		return errors.Join(err, fmt.Errorf("%s: %d of %d bytes", name, n, size))
	}
	_, err := io.WriteString(a.w, padding(size))
	return err
}

func (a *cpioArchive) file(name, from string) error {
	f, err := os.Open(from)
	if err != nil {
		return err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return err
	}
	return a.entry(name, modeRegular|0o755, info.Size(), f)
}

// padding fills up to a multiple of four.
func padding(n int64) string { return "\x00\x00\x00"[:(4-n%4)%4] }

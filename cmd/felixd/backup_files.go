package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
)

// stoppable reads so many bytes, until the command is asked to end.
type stoppable struct {
	c    *copier
	r    io.Reader
	left int64
}

func (s *stoppable) Read(p []byte) (int, error) {
	if err := s.c.ctx.Err(); err != nil {
		return 0, err
	}
	if s.left == 0 {
		return 0, io.EOF
	}
	n, err := s.r.Read(p[:min(int64(len(p)), s.left)])
	s.left -= int64(n)
	if errors.Is(err, io.EOF) && n == 0 {
		return 0, fmt.Errorf("%d bytes fewer than it had: %w", s.left, errMoved)
	}
	return n, err
}

// wholeFile is the length of a file as it is when it is copied.
const wholeFile = -1

// copyFile copies so many bytes of a file of a shard, and completes the imprint of
// what was copied unless that is nil. What is appended meanwhile is left out, so that
// a log that grows does not keep the copy from ending.
func (c *copier) copyFile(name string, length int64, p *imprint, e *copiedEvent) error {
	return read(filepath.Join(c.from, name), func(from *os.File, info fs.FileInfo) error {
		if length == wholeFile {
			length = info.Size()
		}
		var content io.Reader = &stoppable{c: c, r: from, left: length}
		sum := newSum()
		if p != nil {
			content = io.TeeReader(content, sum)
			p.state, p.settled = stateOf(info, c.time())
		}
		if err := c.add(name, content, length, info, e); err != nil {
			return err
		}
		if p != nil {
			p.sum, p.summed = sum.Sum32(), true
		}
		return nil
	})
}

// add makes a file of a shard in the copy.
func (c *copier) add(name string, content io.Reader, length int64, like fs.FileInfo, e *copiedEvent) error {
	if err := c.writeFrom(name, content, like); err != nil {
		return err
	}
	e.Files++
	e.Bytes += length
	if c.copied != nil {
		c.copied(name)
	}
	return nil
}

// leaveOut takes a file of a shard from the copy.
func (c *copier) leaveOut(name string, e *copiedEvent) error {
	path := filepath.Join(c.to, name)
	info, err := os.Lstat(path)
	if err != nil {
		return err
	}
	e.Files--
	e.Bytes -= info.Size()
	return os.Remove(path)
}

// write makes a small file of the root in the copy.
func (c *copier) write(name string, content []byte) error {
	like, err := os.Stat(filepath.Join(c.from, name))
	if errors.Is(err, fs.ErrNotExist) {
		like, err = os.Stat(c.from) // it went away; a file like others
	}
	if err == nil {
		err = c.writeFrom(name, bytes.NewReader(content), like)
	}
	if err == nil {
		c.files++
	}
	return err
}

// writeFrom makes a file with the content, the permissions and, where that may be
// given, the owner. It is durable but for its name.
func (c *copier) writeFrom(name string, content io.Reader, like fs.FileInfo) error {
	path := filepath.Join(c.to, name)
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	_, err = io.Copy(f, content)
	if err == nil {
		err = resemble(path, like)
	}
	if err == nil {
		err = f.Sync()
	}
	return errors.Join(err, f.Close())
}

// resemble gives a copy the permissions and, where that may be given, the owner of the
// original. A directory can be used by its owner in any case.
func resemble(path string, like fs.FileInfo) error {
	mode := like.Mode().Perm() & 0o666
	if like.IsDir() {
		mode = like.Mode().Perm() | 0o700
	}
	return errors.Join(os.Chmod(path, mode), own(path, like))
}

// own gives a copy the owner of the original, which only root may.
func own(path string, like fs.FileInfo) error {
	owner, ok := like.Sys().(*syscall.Stat_t)
	if !ok || os.Geteuid() != 0 {
		return nil
	}
	return os.Lchown(path, int(owner.Uid), int(owner.Gid))
}

// makeDirs makes a directory of the copy and those above it.
func (c *copier) makeDirs(name string) error {
	if name == "." {
		return nil
	}
	if err := c.makeDirs(filepath.Dir(name)); err != nil {
		return err
	}
	return c.makeDir(name)
}

func (c *copier) makeDir(name string) error {
	path := filepath.Join(c.to, name)
	err := os.Mkdir(path, 0o700)
	if errors.Is(err, fs.ErrExist) {
		return nil
	}
	if err != nil {
		return err
	}
	like, err := os.Stat(filepath.Join(c.from, name))
	if err != nil {
		return err
	}
	return resemble(path, like)
}

// flushDirs makes every name in the copy durable.
func (c *copier) flushDirs() error {
	return filepath.WalkDir(c.to, func(path string, entry fs.DirEntry, err error) error {
		if err == nil && entry.IsDir() {
			err = flushDir(path)
		}
		return err
	})
}

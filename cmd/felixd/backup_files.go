package main

import (
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

// write makes a file of the copy like the one of the same name.
func (c *copier) write(name string, content io.Reader) error {
	info, err := os.Stat(filepath.Join(c.from, name))
	if errors.Is(err, fs.ErrNotExist) {
		info, err = os.Stat(c.from) // it went away; a file like others
	}
	if err == nil {
		err = c.writeFrom(name, content, info)
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
		err = f.Chmod(like.Mode().Perm() & 0o666)
	}
	if err == nil {
		err = own(path, like)
	}
	if err == nil {
		err = f.Sync()
	}
	return errors.Join(err, f.Close())
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
	return errors.Join(os.Chmod(path, like.Mode().Perm()|0o700), own(path, like))
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

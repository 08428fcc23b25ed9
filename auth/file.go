package auth

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
)

// forbiddenMode are the permission bits a credentials file must not have: nobody
// but its owner changes it, and nobody but its owner and group reads it.
const forbiddenMode fs.FileMode = 0o037

// content is a credentials file as it was read.
type content struct {
	// path is where the file is, with symbolic links resolved.
	path string
	text string
	info fs.FileInfo
}

// readFile reads a credentials file and judges its permissions, but not what it says.
func readFile(path string) (content, error) {
	if path == "" { // not the working directory, which it would resolve to
		return content{}, &FileError{Problems: []Problem{{Text: "its path is empty"}}}
	}
	resolved, err := filepath.EvalSymlinks(path)
	if err != nil {
		return content{}, readError(path, err)
	}
	data, info, err := readRegular(resolved, FileBytesMax)
	if err != nil {
		return content{}, readError(resolved, err)
	}
	if mode := info.Mode().Perm(); mode&forbiddenMode != 0 {
		text := fmt.Sprintf("its mode is %04o, and others than its owner and group could read it or others than its owner change it; run chmod 0640 %s", mode, resolved)
		return content{}, &FileError{Path: resolved, Problems: []Problem{{Text: text}}}
	}
	return content{path: resolved, text: string(data), info: info}, nil
}

func readError(path string, err error) *FileError {
	e := &FileError{Path: path, Err: err}
	var tooLarge *tooLargeError
	switch {
	case errors.Is(err, fs.ErrNotExist):
		e.Problems = []Problem{{Text: "it does not exist; felixd credentials add makes it"}}
	case errors.Is(err, fs.ErrPermission):
		e.Problems = []Problem{{Text: "this user may not read it; make it readable by the group of the server, with mode 0640"}}
	case errors.As(err, &tooLarge):
		e.Problems, e.Err = []Problem{{Text: err.Error()}}, nil
	}
	return e
}

// tooLargeError says that a file is longer than its bound.
type tooLargeError struct{ most int64 }

func (e *tooLargeError) Error() string {
	return fmt.Sprintf("it has more than the %d bytes that are allowed", e.most)
}

// errNotRegular refuses a directory, a pipe or a device.
var errNotRegular = errors.New("it is no regular file")

// readRegular reads a regular file of at most this many bytes. It does not wait
// for the other end of a pipe.
func readRegular(path string, most int64) ([]byte, fs.FileInfo, error) {
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, nil, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, nil, errNotRegular
	}
	data, err := io.ReadAll(io.LimitReader(f, most+1))
	if err != nil {
		return nil, nil, err
	}
	if int64(len(data)) > most {
		return nil, nil, &tooLargeError{most}
	}
	return data, info, nil
}

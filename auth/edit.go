package auth

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
)

// Add writes a principal with this secret and these grants to the end of a
// credentials file, which it makes with mode 0600 when there is none. When Add
// returns nil the change is on the device. Errors are *SecretError and
// *PrincipalError for what is to be added, and *FileError.
func Add(path, name, secret string, grants []string) error {
	if problem := secretProblem(secret); problem != "" {
		return &SecretError{Problem: problem}
	}
	return add(path, name, grants, func() (string, error) { return HashSecret(secret) })
}

// AddGenerated is Add for a secret that NewSecret made: its hash is the one of
// HashGenerated.
func AddGenerated(path, name, secret string, grants []string) error {
	hash, err := HashGenerated(secret)
	if err != nil {
		return err
	}
	return add(path, name, grants, func() (string, error) { return hash, nil })
}

func add(path, name string, grants []string, hashed func() (string, error)) error {
	if problem := additionProblem(name, grants); problem != "" {
		return &PrincipalError{Name: name, Problem: problem}
	}
	return edit(path, true, func(text string) (string, error) {
		if lines, _ := parse(text); slices.ContainsFunc(lines, func(l line) bool { return l.name == name }) {
			return "", fmt.Errorf("the principal %s is in it already; remove it first, to give it another secret or other grants", shown(name))
		}
		hash, err := hashed()
		if err != nil {
			return "", err
		}
		if text != "" && !strings.HasSuffix(text, "\n") {
			text += "\n"
		}
		return text + strings.Join(append([]string{name, hash}, grants...), "  ") + "\n", nil
	})
}

// additionProblem says what is wrong with a name and its grants, or "".
func additionProblem(name string, grants []string) string {
	var problems []string
	if problem := nameProblem(name); problem != "" {
		problems = append(problems, "the name "+problem)
	}
	_, more := parseGrants(grants)
	problems = append(problems, more...)
	if !slices.Equal(fieldsOf(strings.Join(grants, " ")), grants) {
		problems = append(problems, "a grant has no blanks")
	}
	return strings.Join(problems, "; ")
}

// Remove takes a principal out of a credentials file, with its line and nothing
// else. The last principal stays: a server refuses a file without one and would keep
// what it has. When Remove returns nil the change is on the device. Errors are
// *FileError.
func Remove(path, name string) error {
	return edit(path, false, func(text string) (string, error) {
		var kept strings.Builder
		removed := false
		for raw := range strings.Lines(text) {
			if fields := fieldsOf(raw); len(fields) > 0 && fields[0] == name {
				removed = true
				continue
			}
			kept.WriteString(raw)
		}
		if !removed {
			return "", fmt.Errorf("there is no principal %s in it", shown(name))
		}
		return kept.String(), nil
	})
}

// edit replaces a credentials file by what change makes of its text. A file with
// problems is not touched, and neither is one that would have some.
func edit(path string, create bool, change func(text string) (string, error)) error {
	file, err := readFile(path)
	missing := errors.Is(err, fs.ErrNotExist) && create
	if err != nil && !missing {
		return err
	}
	if missing {
		if file.path, err = resolvedNew(path); err != nil {
			return readError(path, err)
		}
	} else {
		unlock, err := lockFile(file)
		if err != nil {
			return &FileError{Path: file.path, Err: err}
		}
		defer unlock()
	}
	if _, problems := parse(file.text); len(problems) > 0 {
		return &FileError{Path: file.path, Problems: problems}
	}
	text, err := change(file.text)
	if err != nil {
		return &FileError{Path: file.path, Err: err}
	}
	lines, problems := parse(text)
	if len(problems) == 0 {
		problems = needPrincipals(lines)
	}
	if len(problems) > 0 {
		return &FileError{Path: file.path, Problems: append([]Problem{{Text: "nothing was changed, since it would be refused"}}, problems...)}
	}
	if len(text) > FileBytesMax {
		return &FileError{Path: file.path, Err: &tooLargeError{FileBytesMax}}
	}
	if err := replace(file, text); err != nil {
		return &FileError{Path: file.path, Err: err}
	}
	return nil
}

// resolvedNew is where a file that is not there yet belongs.
func resolvedNew(path string) (string, error) {
	if _, err := os.Lstat(path); err == nil {
		return "", errors.New("it is a symbolic link that leads nowhere")
	}
	dir, err := filepath.EvalSymlinks(filepath.Dir(path))
	return filepath.Join(dir, filepath.Base(path)), err
}

// errEdited says that two edits met.
var errEdited = errors.New("another process is changing it; run the command again")

// lockFile keeps other edits out until unlock, and makes sure that the file is
// still the one that was read.
func lockFile(file content) (unlock func() error, err error) {
	f, err := os.Open(file.path)
	if err != nil {
		return nil, err
	}
	if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		return nil, errors.Join(errEdited, f.Close())
	}
	locked, err := f.Stat()
	if err == nil {
		var named fs.FileInfo
		if named, err = os.Stat(file.path); err == nil && !(sameFile(locked, file.info) && sameFile(named, file.info)) {
			err = errEdited
		}
	}
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f.Close, nil
}

func sameFile(a, b fs.FileInfo) bool {
	return os.SameFile(a, b) && a.Size() == b.Size() && a.ModTime().Equal(b.ModTime())
}

// replace puts a new file in the place of the old one, or where there is none, so
// that after a crash one of the two is there, whole.
func replace(file content, text string) (err error) {
	dir, base := filepath.Dir(file.path), filepath.Base(file.path)
	temp, err := os.CreateTemp(dir, "."+base+".*.tmp") // mode 0600
	if err != nil {
		return err
	}
	defer func() {
		err = errors.Join(err, temp.Close())
		if gone := os.Remove(temp.Name()); !errors.Is(gone, fs.ErrNotExist) {
			err = errors.Join(err, gone)
		}
	}()
	if file.info != nil {
		if err := likeFile(temp, file.info); err != nil {
			return err
		}
	}
	if _, err := temp.WriteString(text); err != nil {
		return err
	}
	if err := temp.Sync(); err != nil {
		return err
	}
	if file.info != nil {
		err = os.Rename(temp.Name(), file.path)
	} else if err = os.Link(temp.Name(), file.path); errors.Is(err, fs.ErrExist) {
		err = errEdited // unlike a rename, a link overwrites nothing
	}
	if err != nil {
		return err
	}
	return syncDir(dir)
}

// likeFile gives a new file owner, group and permissions of the old one, which
// the server was able to read.
func likeFile(f *os.File, old fs.FileInfo) error {
	now, err := f.Stat()
	if err != nil {
		return err
	}
	was, is := old.Sys().(*syscall.Stat_t), now.Sys().(*syscall.Stat_t)
	if was.Uid != is.Uid || was.Gid != is.Gid {
		if err := f.Chown(int(was.Uid), int(was.Gid)); err != nil {
			return fmt.Errorf("its owner %d:%d cannot be kept; run the command as that user: %w", was.Uid, was.Gid, err)
		}
	}
	return f.Chmod(old.Mode().Perm())
}

func syncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}

package auth

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
)

func textOf(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func TestTheFirstPrincipalMakesAFileForItsOwnerAlone(t *testing.T) {
	old := syscall.Umask(0)
	defer syscall.Umask(old)
	path := filepath.Join(t.TempDir(), "credentials")
	if err := Add(path, "a", secretOf("a"), []string{"read,write:acme*", "admin:*"}); err != nil {
		t.Fatal(err)
	}
	if info, err := os.Lstat(path); err != nil || info.Mode() != 0o600 {
		t.Errorf("mode %v, %v", info.Mode(), err)
	}
	c, err := Load(path)
	if err != nil {
		t.Fatal(err)
	}
	p, err := c.Verify(t.Context(), "a", secretOf("a"))
	if err != nil || !p.Allows(Write, "acme-eu") || !p.Allows(Admin, "x") || p.Allows(Read, "x") {
		t.Errorf("%v", err)
	}
	onlyFile(t, path)
}

// onlyFile wants nothing left beside the file.
func onlyFile(t *testing.T, path string) {
	t.Helper()
	entries, err := os.ReadDir(filepath.Dir(path))
	if err != nil || len(entries) != 1 || entries[0].Name() != filepath.Base(path) {
		t.Errorf("the directory holds %v, %v", entries, err)
	}
}

func TestAnEditKeepsEverythingElse(t *testing.T) {
	first, second := lineOf(t, "a", "read:*"), lineOf(t, "b", "read:*")
	head := "# who may do what\r\n\n"
	path := fileOf(t, head, first, "# about b\n", strings.TrimSuffix(second, "\n"))
	if err := os.Chmod(path, 0o640); err != nil {
		t.Fatal(err)
	}
	link := filepath.Join(t.TempDir(), "link")
	if err := os.Symlink(path, link); err != nil {
		t.Fatal(err)
	}
	if err := Add(link, "c", secretOf("c"), []string{"read:x"}); err != nil {
		t.Fatal(err)
	}
	added, found := strings.CutPrefix(textOf(t, path), head+first+"# about b\n"+second)
	if !found || !strings.HasPrefix(added, "c  pbkdf2-sha256$600000$") || !strings.HasSuffix(added, "  read:x\n") || strings.Count(added, "\n") != 1 {
		t.Errorf("the file became:\n%s", textOf(t, path))
	}
	if err := Remove(link, "a"); err != nil {
		t.Fatal(err)
	}
	if got := textOf(t, path); got != head+"# about b\n"+second+added {
		t.Errorf("the file became:\n%s", got)
	}
	if info, err := os.Lstat(path); err != nil || info.Mode() != 0o640 {
		t.Errorf("mode %v, %v", info.Mode(), err)
	}
	if info, err := os.Lstat(link); err != nil || info.Mode()&os.ModeSymlink == 0 {
		t.Errorf("the link became %v, %v", info.Mode(), err)
	}
	onlyFile(t, path)
}

func TestAnEditThatIsRefusedChangesNothing(t *testing.T) {
	good := lineOf(t, "a", "read:*")
	dir := t.TempDir()
	dangling := filepath.Join(dir, "dangling")
	if err := os.Symlink(filepath.Join(dir, "nowhere"), dangling); err != nil {
		t.Fatal(err)
	}
	add := func(name string, grants ...string) func(string) error {
		return func(path string) error { return Add(path, name, secretOf("x"), grants) }
	}
	for _, row := range []struct {
		text string
		edit func(path string) error
		want string
	}{
		{good, add("a", "read:*"), "is in it already; remove it first"},
		{good, add("b"), "there are 0 grants"},
		{good, add("b", "fly:*"), "grant 1 has an action that is none of read, write, admin"},
		{good, add("b", "read:* admin:*"), "a grant has no blanks"},
		{good, add("b", "read:*\n"), "a grant has no blanks"},
		{good, add("b", "#read:*"), "none of read, write, admin"},
		{good, add("b", ""), "is not ACTIONS:TENANT"},
		{good, add("", "read:*"), "is empty"},
		{good, add("#b", "read:*"), `the byte '#'`},
		{good, add("b\n", "read:*"), `the byte '\n'`},
		{good, add("b.c", "read:*"), "'.'"},
		{"nonsense\n", add("b", "read:*"), "line 1: there are not three fields"},
		{strings.Repeat("#\n", FileBytesMax/2), add("b", "read:*"), "more than the 1048576 bytes"},
		{good, func(path string) error { return Remove(path, "b") }, `no principal "b"`},
		{good, func(path string) error { return Remove(path, "") }, `no principal ""`},
		{"# a\n", func(path string) error { return Remove(path, "#") }, `no principal "#"`},
		{good, func(path string) error { return Remove(path, "a") }, "nothing was changed, since it would be refused; it has no principal"},
		{good + good, func(path string) error { return Remove(path, "a") }, "is on line 1 already"},
		{good, func(string) error { return Remove(filepath.Join(dir, "missing"), "a") }, "does not exist"},
		{good, func(string) error {
			return Add(filepath.Join(dir, "no", "where"), "a", secretOf("a"), []string{"read:*"})
		}, "does not exist"},
		{good, func(string) error { return Add(dangling, "a", secretOf("a"), []string{"read:*"}) }, "leads nowhere"},
	} {
		path := fileOf(t, row.text)
		err := row.edit(path)
		var file *FileError
		var principal *PrincipalError
		if !errors.As(err, &file) && !errors.As(err, &principal) || !strings.Contains(err.Error(), row.want) {
			t.Errorf("%v, want %q", err, row.want)
		}
		if textOf(t, path) != row.text {
			t.Errorf("%v, and the file was changed", err)
		}
		onlyFile(t, path)
	}
}

func TestEditsAtTheSameTimeLoseNothing(t *testing.T) {
	path := fileOf(t)
	var done atomic.Int64
	var all sync.WaitGroup
	for _, name := range []string{"a", "b", "c", "d", "e", "f"} {
		all.Go(func() {
			err := Add(path, name, secretOf(name), []string{"read:*"})
			var problem *FileError
			switch {
			case err == nil:
				done.Add(1)
			case !errors.As(err, &problem) || !strings.Contains(err.Error(), "run the command again"):
				t.Error(err)
			}
		})
	}
	all.Wait()
	c, err := Load(path)
	if err != nil {
		t.Fatal(err)
	}
	if int64(len(c.List())) != done.Load() || done.Load() == 0 {
		t.Errorf("%d edits were told to be done, %d principals are there", done.Load(), len(c.List()))
	}
	onlyFile(t, path)
}

func TestAFileThatAppearsMeanwhileIsNotOverwritten(t *testing.T) {
	path := fileOf(t, "theirs\n")
	if err := replace(content{path: path}, "ours\n"); !errors.Is(err, errEdited) {
		t.Error(err)
	}
	if textOf(t, path) != "theirs\n" {
		t.Error("it was overwritten")
	}
	onlyFile(t, path)
}

func TestAFileThatChangedSinceItWasReadIsNotEdited(t *testing.T) {
	path := fileOf(t, lineOf(t, "a", "read:*"), lineOf(t, "b", "read:*"))
	read, err := readFile(path)
	if err != nil {
		t.Fatal(err)
	}
	unlock, err := lockFile(read)
	if err != nil {
		t.Fatal(err)
	}
	if err := Remove(path, "a"); err == nil || !strings.Contains(err.Error(), errEdited.Error()) {
		t.Errorf("the lock keeps nobody out: %v", err)
	}
	if err := unlock(); err != nil {
		t.Fatal(err)
	}
	if err := Remove(path, "a"); err != nil {
		t.Fatal(err)
	}
	if _, err := lockFile(read); !errors.Is(err, errEdited) {
		t.Errorf("a file that was replaced is taken for the one that was read: %v", err)
	}
}

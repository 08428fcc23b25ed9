package main

import (
	"strings"
	"testing"
)

func TestEveryTargetSyncsBeforeItAcknowledges(t *testing.T) {
	if err := strace(t.Context()); err != nil {
		t.Skip(err)
	}
	for _, target := range targets() {
		t.Run(target.name, func(t *testing.T) {
			seen, err := traceTarget(t.Context(), target.name, t.TempDir())
			if err != nil {
				t.Fatal(err)
			}
			t.Log(seen)
		})
	}
}

func TestATargetThatLiesAboutDurabilityIsNoticed(t *testing.T) {
	if err := strace(t.Context()); err != nil {
		t.Skip(err)
	}
	_, err := traceTarget(t.Context(), liar().name, t.TempDir())
	if err == nil || !strings.Contains(err.Error(), "acknowledged an append without a sync") {
		t.Errorf("got %v", err)
	}
}

func TestOnlyWhatMakesTheTargetDurableCounts(t *testing.T) {
	const mark = `7 faccessat(AT_FDCWD, "` + markName + `", F_OK) = -1 ENOENT (No such file or directory)`
	for name, c := range map[string]struct {
		lines []string
		want  int
	}{
		"fdatasync":            {[]string{`7 fdatasync(5</d/data/wal>) = 0`}, 1},
		"in two lines":         {[]string{`8 fsync(5</d/data/wal> <unfinished ...>`, `7 write(1</x>, "a", 1) = 1`, `8 <... fsync resumed>) = 0`}, 1},
		"under way":            {[]string{`8 fsync(5</d/data/wal> <unfinished ...>`}, 0},
		"failed":               {[]string{`7 fsync(5</d/data/wal>) = -1 EIO (Input/output error)`}, 0},
		"another file":         {[]string{`7 fsync(5</d/other>) = 0`}, 0},
		"a plain write":        {[]string{`7 pwrite64(5</d/data/wal>, "a", 1, 0) = 1`}, 0},
		"a dsync write":        {[]string{`7 pwritev2(5</d/data/wal>, [{iov_base="a", iov_len=1}], 1, 0, RWF_DSYNC) = 1`}, 1},
		"a dsync descriptor":   {[]string{`7 openat(AT_FDCWD, "/d/data/wal", O_RDWR|O_DSYNC) = 5</d/data/wal>`, `7 write(5</d/data/wal>, "a", 1) = 1`}, 1},
		"a descriptor reused":  {[]string{`7 openat(AT_FDCWD, "/d/data/wal", O_RDWR|O_SYNC) = 5</d/data/wal>`, `7 close(5</d/data/wal>) = 0`, `7 openat(AT_FDCWD, "/d/data/wal", O_RDWR) = 5</d/data/wal>`, `7 write(5</d/data/wal>, "a", 1) = 1`}, 0},
		"msync":                {[]string{`7 msync(0x7f0000000000, 4096, MS_SYNC) = 0`}, 1},
		"msync, asynchronous":  {[]string{`7 msync(0x7f0000000000, 4096, MS_ASYNC) = 0`}, 0},
		"a range, not durable": {[]string{`7 sync_file_range(5</d/data/wal>, 0, 4096, SYNC_FILE_RANGE_WRITE) = 0`}, 0},
	} {
		t.Run(name, func(t *testing.T) {
			trail := strings.Join(append(append([]string{mark}, c.lines...), mark), "\n")
			seen, err := countSyncs(strings.NewReader(trail), "/d/data")
			if err != nil || seen.appends != 1 || seen.least != c.want || seen.total != c.want {
				t.Errorf("got %v and %v, want %d", seen, err, c.want)
			}
		})
	}
}

func TestSyncsOfOneAppendDoNotCountForTheNext(t *testing.T) {
	const mark = `7 faccessat(AT_FDCWD, "` + markName + `", F_OK) = -1 ENOENT (No such file or directory)`
	const sync = `7 fsync(5</d/data/wal>) = 0`
	seen, err := countSyncs(strings.NewReader(strings.Join([]string{sync, mark, sync, sync, mark, mark}, "\n")), "/d/data")
	if err != nil || seen.appends != 2 || seen.total != 2 || seen.least != 0 {
		t.Errorf("got %v and %v", seen, err)
	}
}

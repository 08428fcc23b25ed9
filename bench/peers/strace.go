package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"

	"golang.org/x/sys/unix"
)

// A child process appends with one publisher and makes a call that strace shows, and that does
// nothing, before the first append and after each acknowledgement. Between two of these
// at least one sync of the target's files must have returned.
const (
	markName    = "/felix-peers-acknowledged"
	warmAppends = 160 // among them what a log does in its first minutes, such as growing files
	oneAppends  = 40
)

// traced are the calls that make bytes durable, those that may do so by their flags, and
// those that say which descriptors make every write durable.
const traced = "fsync,fdatasync,sync_file_range,msync,write,writev,pwrite64,pwritev,pwritev2,openat,close,faccessat,faccessat2,access"

// errNoStrace says that strace cannot be used here, and why.
var errNoStrace = errors.New("strace cannot be used")

// strace finds the program and tries it.
func strace(ctx context.Context) error {
	if out, err := exec.CommandContext(ctx, "strace", "-qq", "-e", "trace=none", "true").CombinedOutput(); err != nil {
		return fmt.Errorf("%w: %v %s", errNoStrace, err, strings.TrimSpace(string(out)))
	}
	return nil
}

// syncs is what was seen of one target.
type syncs struct {
	appends int
	total   int
	// least is the smallest number between two acknowledgements.
	least int
	kinds map[string]int
}

func (s syncs) String() string {
	return fmt.Sprintf("%d appends, %d syncs, at least %d before each acknowledgement: %v", s.appends, s.total, s.least, s.kinds)
}

// trace reports every target and fails when one acknowledges without a sync.
func (c *command) trace(ctx context.Context, list []target, stdout io.Writer) error {
	if err := strace(ctx); err != nil {
		return err
	}
	var problems []error
	for _, t := range list {
		seen, err := traceTarget(ctx, t.name, c.Dir)
		if err == nil {
			_, err = fmt.Fprintf(stdout, "%-18s %v\n", t.name, seen)
		}
		problems = append(problems, err)
	}
	return errors.Join(problems...)
}

// traceTarget starts this program again under strace, below dir.
func traceTarget(ctx context.Context, name, dir string) (seen syncs, err error) {
	self, err := os.Executable()
	if err != nil {
		return seen, err
	}
	if dir, err = os.MkdirTemp(dir, "peers-strace-"); err != nil {
		return seen, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	if dir, err = filepath.EvalSymlinks(dir); err != nil {
		return seen, err
	}
	data, trail := filepath.Join(dir, "data"), filepath.Join(dir, "trail")
	traced := exec.CommandContext(ctx, "strace", "-f", "-qq", "-y", "-s", "64", "-e", "trace="+traced, "-e", "signal=none", "-o", trail,
		self, "--child-target", name, "--child-appends", fmt.Sprint(oneAppends), "--dir", data)
	if out, err := traced.CombinedOutput(); err != nil {
		return seen, fmt.Errorf("%s under strace: %w: %s", name, err, out)
	}
	file, err := os.Open(trail)
	if err != nil {
		return seen, err
	}
	defer file.Close()
	if seen, err = countSyncs(file, data); err != nil {
		return seen, err
	}
	switch {
	case seen.appends != oneAppends:
		err = fmt.Errorf("%s: %d of %d acknowledgements seen", name, seen.appends, oneAppends)
	case seen.least < 1:
		err = fmt.Errorf("%s acknowledged an append without a sync: %v", name, seen)
	}
	return seen, err
}

// child is what is traced.
func child(ctx context.Context, list []target, name, dir string, appends int) (err error) {
	chosen, err := selectNamed("target", list, targetName, []string{name})
	if err != nil {
		return err
	}
	if err := os.MkdirAll(dir, 0o750); err != nil {
		return err
	}
	in, err := chosen[0].open(ctx, dir, row{Logs: 1, Publishers: 1, Batch: 2, PayloadBytes: 128})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, in.close()) }()
	publish := publishers(in, newLedger(1, 128))(0)
	for i := range warmAppends + appends {
		if i == warmAppends {
			mark()
		}
		// Records alone and batches in turn: some targets go different ways with them.
		if _, err := publish(ctx, make([][]byte, 1+i%2)); err != nil {
			return err
		}
		if i >= warmAppends {
			mark()
		}
	}
	return nil
}

// mark makes a call for strace to see; that there is no such file is no error.
func mark() { _ = unix.Access(markName, unix.F_OK) }

// The lines of strace: a call that returned, one that goes on while another thread's
// are shown, and the rest of that.
var (
	whole   = regexp.MustCompile(`^(\d+) +(\w+)\((.*)\) += (-?\d+)`)
	begun   = regexp.MustCompile(`^(\d+) +(\w+)\((.*) <unfinished \.\.\.>$`)
	resumed = regexp.MustCompile(`^(\d+) +<\.\.\. (\w+) resumed>(.*)\) += (-?\d+)`)
	opened  = regexp.MustCompile(`O_D?SYNC`)
)

// tracer turns lines into calls that returned.
type tracer struct {
	dir     string
	pending map[string]string // arguments of calls under way, by thread
	synced  map[string]bool   // descriptors whose writes are durable
	seen    syncs
	between int  // syncs since the last mark
	marked  bool // the first mark was seen
}

// countSyncs reads what strace wrote; only files below dir count.
func countSyncs(trail io.Reader, dir string) (syncs, error) {
	t := tracer{dir: dir, pending: make(map[string]string), synced: make(map[string]bool)}
	t.seen.kinds = make(map[string]int)
	lines := bufio.NewScanner(trail)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		line := lines.Text()
		if m := begun.FindStringSubmatch(line); m != nil {
			t.pending[m[1]] = m[3]
		} else if m := resumed.FindStringSubmatch(line); m != nil {
			t.returned(m[2], t.pending[m[1]]+m[3], m[4])
		} else if m := whole.FindStringSubmatch(line); m != nil {
			t.returned(m[2], m[3], m[4])
		}
	}
	return t.seen, lines.Err()
}

// returned takes one call, its arguments and its result.
func (t *tracer) returned(call, args, result string) {
	failed := strings.HasPrefix(result, "-")
	descriptor, _, _ := strings.Cut(args, "<")
	switch {
	case strings.Contains(args, markName):
		t.acknowledged()
	case failed:
	case call == "openat" && opened.MatchString(args):
		t.synced[result] = true
	case call == "openat":
		delete(t.synced, result)
	case call == "close":
		delete(t.synced, descriptor)
	case !t.durable(call, args, descriptor) || !t.marked:
	default:
		t.between++
		t.seen.total++
		t.seen.kinds[call]++
	}
}

// durable says that a call made bytes of the target durable. msync names no file, but only a
// target maps any.
func (t *tracer) durable(call, args, descriptor string) bool {
	switch call {
	case "msync":
		return strings.Contains(args, "MS_SYNC")
	case "fsync", "fdatasync":
		return strings.Contains(args, "<"+t.dir)
	case "write", "writev", "pwrite64", "pwritev", "pwritev2":
		return strings.Contains(args, "<"+t.dir) && (t.synced[descriptor] || strings.Contains(args, "RWF_DSYNC") || strings.Contains(args, "RWF_SYNC"))
	default:
		return false
	}
}

// acknowledged closes the account of one append; the first mark opens the first.
func (t *tracer) acknowledged() {
	if t.marked {
		if t.seen.appends == 0 || t.between < t.seen.least {
			t.seen.least = t.between
		}
		t.seen.appends++
	}
	t.marked, t.between = true, 0
}

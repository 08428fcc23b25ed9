package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"felix.local/felix/segment"
)

// segmentFile writes a log of one segment with n records.
func segmentFile(t *testing.T, dir string, n uint64) string {
	t.Helper()
	if err := os.MkdirAll(dir, 0o750); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(dir, segment.LogName(0))
	if err := os.WriteFile(path, newSalvageFile(0).rows(0, n-1).b, 0o640); err != nil {
		t.Fatal(err)
	}
	return path
}

// A command that hangs in a write, because nobody reads what it prints, does not
// see the first signal's context. The second signal ends it.
func TestASecondSignalEndsACommandThatIsStuck(t *testing.T) {
	path := segmentFile(t, t.TempDir(), 20_000) // more than the pipe holds
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	for _, sent := range []syscall.Signal{syscall.SIGINT, syscall.SIGTERM} {
		t.Run(sent.String(), func(t *testing.T) {
			// What a shell runs in its background ignores SIGINT, and so does what that
			// starts, unless the signal is caught.
			caught := make(chan os.Signal, 1)
			signal.Notify(caught, sent)
			defer signal.Stop(caught)
			reader, writer, err := os.Pipe()
			if err != nil {
				t.Fatal(err)
			}
			defer reader.Close()
			// As small as one write of the command's.
			if _, err := unix.FcntlInt(writer.Fd(), unix.F_SETPIPE_SZ, os.Getpagesize()); err != nil {
				t.Fatal(err)
			}
			child := exec.CommandContext(t.Context(), self)
			child.Args = []string{"felixd", "log", "dump", path}
			child.Stdout = writer
			if err := child.Start(); err != nil {
				t.Fatal(err)
			}
			writer.Close()
			// Once something is in the pipe it is full, and whatever the command
			// writes next is stuck.
			ready := []unix.PollFd{{Fd: int32(reader.Fd()), Events: unix.POLLIN}}
			n, err := unix.Poll(ready, 60_000)
			for errors.Is(err, unix.EINTR) {
				n, err = unix.Poll(ready, 60_000)
			}
			if n != 1 {
				t.Fatalf("the command printed nothing: %v", err)
			}
			ended := make(chan error, 1)
			go func() { ended <- child.Wait() }()
			again := time.NewTicker(50 * time.Millisecond)
			defer again.Stop()
			for range 200 {
				_ = child.Process.Signal(sent) // fails once the child is gone
				select {
				case err := <-ended:
					var exit *exec.ExitError
					if !errors.As(err, &exit) || exit.Sys().(syscall.WaitStatus).Signal() != sent {
						t.Errorf("the command ended with %v, not by the signal", err)
					}
					return
				case <-again.C:
				}
			}
			_ = child.Process.Kill()
			t.Errorf("the command outlived 200 signals: %v", <-ended)
		})
	}
}

// interrupted gives an app that is interrupted when it has written n bytes.
func interrupted(n int) (a *app, stdout *cancelingWriter) {
	ctx, cancel := context.WithCancel(context.Background())
	stdout = &cancelingWriter{left: n, cancel: cancel}
	if n == 0 {
		cancel()
	}
	return &app{ctx: ctx, stdout: stdout, stderr: io.Discard}, stdout
}

type cancelingWriter struct {
	bytes.Buffer
	left   int
	cancel func()
}

func (w *cancelingWriter) Write(b []byte) (int, error) {
	if w.left -= len(b); w.left <= 0 {
		w.cancel()
	}
	return w.Buffer.Write(b)
}

func TestAnInterruptedDumpEndsBetweenTwoRecords(t *testing.T) {
	path := segmentFile(t, t.TempDir(), 20_000)
	for name, c := range map[string]*dumpCommand{
		"while it prints":     {Path: path, To: ^uint64(0)},
		"on its way to From":  {Path: path, From: 19_999, To: ^uint64(0)},
		"with damage skipped": {Path: path, To: ^uint64(0), SkipDamaged: true},
	} {
		t.Run(name, func(t *testing.T) {
			after := 1
			if c.From > 0 {
				after = 0
			}
			a, stdout := interrupted(after)
			if err := c.Run(a); !errors.Is(err, context.Canceled) {
				t.Errorf("got %v", err)
			}
			if n := strings.Count(stdout.String(), "\n"); n > 1000 {
				t.Errorf("%d records were printed after the interruption", n)
			}
		})
	}
}

func TestAnInterruptedInspectEndsBetweenTwoShards(t *testing.T) {
	root := t.TempDir()
	for n := range 5 {
		segmentFile(t, filepath.Join(root, fmt.Sprint(n)), 3)
	}
	a, stdout := interrupted(1)
	if err := (&inspectCommand{Dir: root}).Run(a); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
	if n := strings.Count(stdout.String(), "\n"); n != 1 {
		t.Errorf("%d shards were reported, the first was the last to be", n)
	}
	a, _ = interrupted(0)
	if _, err := shardDirectories(a.ctx, root); !errors.Is(err, context.Canceled) {
		t.Errorf("the search for shards: got %v", err)
	}
}

func TestAnInterruptedDoctorEndsWithoutAReportAndLeavesNothing(t *testing.T) {
	dir := t.TempDir()
	a, stdout := interrupted(0)
	c := &doctorCommand{Dir: dir, Samples: 1 << 30}
	if err := c.Run(a); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
	if stdout.Len() > 0 {
		t.Errorf("reported %s", stdout)
	}
	if entries, err := os.ReadDir(dir); err != nil || len(entries) > 0 {
		t.Errorf("left %v: %v", entries, err)
	}
}

// The signal of a terminal reaches the server too, which then ends in order: the demo
// has to say that it was interrupted, not that the server ended by itself.
func TestAnInterruptedDemoSaysSo(t *testing.T) {
	a, stdout := interrupted(1)
	c := &demoCommand{Dir: t.TempDir(), Cycles: 2, Acks: 5}
	if err := c.Run(a); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
	if n := strings.Count(stdout.String(), "\n"); n != 1 {
		t.Errorf("%d claims were made, the first was the last to be:\n%s", n, stdout)
	}
	if entries, err := os.ReadDir(c.Dir); err != nil || len(entries) > 0 {
		t.Errorf("left %v: %v", entries, err)
	}
}

func TestTheDemosServersGetItsSettingsAndNoOthers(t *testing.T) {
	got := childEnvironment([]string{
		"PATH=/bin", "NOTIFY_SOCKET=/run/notify", "FELIX_DURABLE_FSYNC_MODE=none", "FELIX_STORAGE_IO_URING=1", "FELIX_LOG_LEVEL=debug", "FELIX_UNKNOWN=1",
	}, given(&backendFlags{IOURing: "0", PoolWorkers: "3", RingEntries: "64", RingWorkersMax: " "}))
	want := "PATH=/bin FELIX_LOG_LEVEL=debug FELIX_STORAGE_IO_URING=0 FELIX_STORAGE_POOL_WORKERS=3 FELIX_STORAGE_RING_ENTRIES=64"
	if strings.Join(got, " ") != want {
		t.Errorf("got  %q\nwant %q", got, want)
	}
}

package engine_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"felix.local/felix/engine"
	"felix.local/felix/internal/seccomptest"
)

// choice is what a store chose in a process with a filter, and whether it works.
type choice struct {
	NoFilter             string
	Name, Reason, Remedy string
	Errno                string
	Required             string // the error of a store that must have the ring
	RingInfo             string
	Records              int
}

// underFilter is the child: it denies a system call to itself, opens a store,
// appends, opens it again and reads.
func underFilter() error {
	ctx := context.Background()
	call, err := strconv.ParseUint(os.Getenv("ENGINE_TEST_DENY"), 10, 32)
	if err != nil {
		return err
	}
	errno, err := strconv.ParseUint(os.Getenv("ENGINE_TEST_ERRNO"), 10, 16)
	if err != nil {
		return err
	}
	var c choice
	if err := seccomptest.Deny(uint32(call), syscall.Errno(errno)); err != nil {
		c.NoFilter = err.Error()
		return json.NewEncoder(os.Stdout).Encode(c)
	}
	root := os.Getenv("ENGINE_TEST_ROOT")
	cfg := testConfig()
	cfg.IOURing = engine.IOURingRequire
	if store, err := engine.OpenStore(ctx, root, cfg); err != nil {
		c.Required = err.Error()
	} else if err := store.Close(ctx); err != nil {
		return err
	}
	cfg.IOURing = engine.IOURingAuto
	for sitting := range 2 {
		if err := c.sit(ctx, root, cfg); err != nil {
			return fmt.Errorf("sitting %d: %w", sitting, err)
		}
	}
	return json.NewEncoder(os.Stdout).Encode(c)
}

func (c *choice) sit(ctx context.Context, root string, cfg engine.Config) error {
	store, err := engine.OpenStore(ctx, root, cfg)
	if err != nil {
		return err
	}
	b := store.Backend()
	c.Name, c.Reason, c.Remedy, c.Errno = b.Name, b.Reason, b.Remedy, fmt.Sprint(b.Errno)
	if b.Ring != nil {
		c.RingInfo = b.Ring.String()
	}
	l, err := store.OpenLog(ctx, testKey(0))
	if err != nil {
		return err
	}
	for i := range 50 {
		if _, err := l.Append(ctx, engine.Record{Payload: payload(uint64(i), 200)}); err != nil {
			return err
		}
	}
	c.Records = 0
	for next := l.BaseOffset(); next < l.TailOffset(); {
		page, err := l.ReadRange(ctx, next, 1<<20)
		if err != nil {
			return err
		}
		c.Records += len(page)
		next += uint64(len(page))
	}
	if queue := store.Stats().Queue.Backend; queue != b.Name {
		return errors.New("the queue is a " + queue + " and the backend says " + b.Name)
	}
	return store.Close(ctx)
}

func chooseUnderFilter(t *testing.T, call uint32, errno syscall.Errno) choice {
	t.Helper()
	out := runChild(t, "under filter", "ENGINE_TEST_ROOT="+t.TempDir(),
		fmt.Sprint("ENGINE_TEST_DENY=", call), fmt.Sprint("ENGINE_TEST_ERRNO=", int(errno)))
	var c choice
	if err := json.Unmarshal([]byte(out), &c); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	if c.NoFilter != "" {
		t.Skip("no filter can be set here:", c.NoFilter)
	}
	if c.Records != 100 {
		t.Errorf("%d of 100 records read back", c.Records)
	}
	return c
}

func TestWithoutSetupOrEnterTheStoreRunsOnThePoolAndSaysWhy(t *testing.T) {
	needRing(t)
	for _, row := range []struct {
		name string
		call uint32
	}{{"io_uring_setup", unix.SYS_IO_URING_SETUP}, {"io_uring_enter", unix.SYS_IO_URING_ENTER}} {
		for _, errno := range []syscall.Errno{syscall.EPERM, syscall.ENOSYS} {
			t.Run(fmt.Sprintf("%s %s", row.name, unix.ErrnoName(errno)), func(t *testing.T) {
				c := chooseUnderFilter(t, row.call, errno)
				if c.Name != "pool" {
					t.Fatalf("%+v", c)
				}
				if !strings.Contains(c.Reason, row.name) || !strings.Contains(c.Reason, errno.Error()) || c.Errno != errno.Error() {
					t.Errorf("the reason %q, errno %q, names not both %s and %v", c.Reason, c.Errno, row.name, errno)
				}
				if c.Remedy == "" {
					t.Error("no remedy is given")
				}
				if !strings.Contains(c.Required, row.name) {
					t.Errorf("a store that requires the ring says %q", c.Required)
				}
				t.Log(c.Reason, "|", c.Remedy)
			})
		}
	}
}

func TestWithoutRegisterTheRingServes(t *testing.T) {
	needRing(t)
	for _, errno := range []syscall.Errno{syscall.EPERM, syscall.ENOSYS} {
		t.Run(unix.ErrnoName(errno), func(t *testing.T) {
			c := chooseUnderFilter(t, unix.SYS_IO_URING_REGISTER, errno)
			if c.Name != "ring" || c.Required != "" {
				t.Fatalf("%+v", c)
			}
			t.Log(c.Reason, "|", c.RingInfo)
		})
	}
}

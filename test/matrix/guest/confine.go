package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

	"felix.local/felix/internal/seccomptest"
)

// calls are the system calls that can be denied.
var calls = map[string]uint32{
	"io_uring_setup":    unix.SYS_IO_URING_SETUP,
	"io_uring_enter":    unix.SYS_IO_URING_ENTER,
	"io_uring_register": unix.SYS_IO_URING_REGISTER,
}

// errnos are what a denied call may answer.
var errnos = map[string]syscall.Errno{
	"EPERM": syscall.EPERM, "ENOSYS": syscall.ENOSYS, "EACCES": syscall.EACCES,
}

// denial is a system call and what it answers.
type denial struct {
	call  uint32
	errno syscall.Errno
}

func parseDenials(text string) ([]denial, error) {
	var denials []denial
	for part := range strings.SplitSeq(text, ",") {
		name, answer, _ := strings.Cut(part, "=")
		call, known := calls[name]
		errno, answers := errnos[answer]
		if !known || !answers {
			return nil, fmt.Errorf("%q is no denial, such as io_uring_setup=EPERM", part)
		}
		denials = append(denials, denial{call, errno})
	}
	return denials, nil
}

// denyAndExec sets filters, which stay for good, and becomes the program.
func denyAndExec(_ context.Context, args []string) error {
	what, program, err := split("deny", args)
	if err != nil {
		return err
	}
	denials, err := parseDenials(what)
	if err != nil {
		return err
	}
	for _, d := range denials {
		if err := seccomptest.Deny(d.call, d.errno); err != nil {
			return err
		}
	}
	return become(program)
}

// limitAndExec lowers a resource limit and becomes the program.
func limitAndExec(_ context.Context, args []string) error {
	what, program, err := split("limit", args)
	if err != nil {
		return err
	}
	text, found := strings.CutPrefix(what, "memlock=")
	bytes, err := strconv.ParseUint(text, 10, 64)
	if !found || err != nil {
		return fmt.Errorf("%q is no limit, such as memlock=65536", what)
	}
	if err := unix.Setrlimit(unix.RLIMIT_MEMLOCK, &unix.Rlimit{Cur: bytes, Max: bytes}); err != nil {
		return fmt.Errorf("limiting locked memory to %d bytes: %w", bytes, err)
	}
	return become(program)
}

// split takes arguments apart: WHAT -- PROGRAM ARGS...
func split(mode string, args []string) (what string, program []string, err error) {
	if i := slices.Index(args, "--"); i == 1 && len(args) > 2 {
		return args[0], args[2:], nil
	}
	return "", nil, fmt.Errorf("%s takes what to change, --, and a program", mode)
}

// become replaces this process by a program. It returns only when that failed.
func become(argv []string) error {
	path, err := exec.LookPath(argv[0])
	if err != nil {
		return err
	}
	return errors.Join(fmt.Errorf("%s does not start", path), syscall.Exec(path, argv, os.Environ()))
}

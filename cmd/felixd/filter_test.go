package main

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"felix.local/felix/internal/seccomptest"
	"felix.local/felix/uring"
)

const (
	// filterVariable is what felixd in a test runs under: a profile, which ends in
	// .json; the numbers of a call and of what it fails with, "425=1"; or the number of
	// a limit and its value, "limit 8=4096".
	filterVariable = "FELIXD_TEST_FILTER"
	// noFilter begins what is said where no filter can be set.
	noFilter = "no filter can be set here: "
)

// underFilter is felixd. If it is told a filter it sets it and starts again, so that all
// of it is under the filter, as in a container.
func underFilter() {
	told := os.Getenv(filterVariable)
	if told == "" {
		main()
		return
	}
	err := setFilter(told)
	if err == nil {
		err = os.Unsetenv(filterVariable)
	}
	if err == nil {
		err = syscall.Exec("/proc/self/exe", os.Args, os.Environ())
	}
	fmt.Fprintln(os.Stderr, noFilter+err.Error())
	os.Exit(1)
}

func setFilter(told string) error {
	if strings.HasSuffix(told, ".json") {
		p, err := seccomptest.ReadProfile(told)
		if err != nil {
			return err
		}
		return p.Install()
	}
	told, isLimit := strings.CutPrefix(told, "limit ")
	left, right, found := strings.Cut(told, "=")
	number, err := strconv.ParseUint(left, 10, 32)
	if err != nil || !found {
		return fmt.Errorf("%q is no filter", told)
	}
	value, err := strconv.ParseUint(right, 10, 16)
	if err != nil {
		return err
	}
	if isLimit {
		return syscall.Setrlimit(int(number), &syscall.Rlimit{Cur: value, Max: value})
	}
	return seccomptest.Deny(uint32(number), syscall.Errno(value))
}

// needRing skips a test of what a filter takes away where there is nothing to take.
func needRing(t *testing.T) {
	t.Helper()
	ring, err := uring.Open(uring.Options{Entries: 32})
	if err != nil {
		t.Skip("no io_uring here:", err)
	}
	if err := ring.Close(); err != nil {
		t.Fatal(err)
	}
}

// skipWithoutFilter skips a test whose felixd could not be put under a filter.
func skipWithoutFilter(t *testing.T, stderr string) {
	t.Helper()
	if _, why, found := strings.Cut(stderr, noFilter); found {
		t.Skip(noFilter + why)
	}
}

package main

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
)

// denial is a column of the table: what keeps the ring away, and what is to come of it.
type denial struct {
	name string
	// What is done to felixd: system calls that fail, sysctls, another user, a limit of
	// locked memory, variables.
	deny    []string
	sysctls map[string]string
	uid     uint32
	memlock *uint64
	env     []string
	// backend is the one expected on a kernel; either when nothing is known.
	backend func(release) string
	// reason, and each of remedy, is in what doctor says of the backend about, which is
	// the pool where it is empty. The exact texts are pinned where they are made.
	about  string
	reason string
	remedy []string
	// quick: a machine of a quick run has it too. The host has them all.
	quick bool
}

// The backends that may be expected.
const (
	ring   = "ring"
	pool   = "pool"
	either = "either"
)

func always(backend string) func(release) string { return func(release) string { return backend } }

// nobody is the user without rights.
const nobody = 65534

// sysctlDisabled forbids io_uring: 1 to those without rights, 2 to all.
const sysctlDisabled = "kernel.io_uring_disabled"

// denials are the columns. The first is the one without any.
func denials() []denial {
	filter := []string{"seccomp", "io_uring_setup, io_uring_enter and io_uring_register"}
	return []denial{
		{name: "ring allowed", backend: always(ring), quick: true},
		{
			name: "turned off", env: []string{"FELIX_STORAGE_IO_URING=0"}, backend: always(pool),
			reason: "turned off by the configuration",
		},
		{
			name: "io_uring_disabled=1, unprivileged", sysctls: map[string]string{sysctlDisabled: "1"}, uid: nobody, backend: always(pool),
			reason: "io_uring_setup: operation not permitted", remedy: []string{"kernel.io_uring_disabled is 1: set it to 0"},
			quick: true,
		},
		{
			name: "io_uring_disabled=2", sysctls: map[string]string{sysctlDisabled: "2"}, backend: always(pool),
			reason: "io_uring_setup: operation not permitted", remedy: []string{"kernel.io_uring_disabled is 2: set it to 0"},
			quick: true,
		},
		{
			name: "setup: EPERM", deny: []string{"io_uring_setup=EPERM"}, backend: always(pool),
			reason: "io_uring_setup: operation not permitted", remedy: filter,
		},
		{
			name: "setup: ENOSYS", deny: []string{"io_uring_setup=ENOSYS"}, backend: always(pool),
			reason: "io_uring_setup: function not ", remedy: filter,
		},
		{
			name: "setup: EACCES", deny: []string{"io_uring_setup=EACCES"}, backend: always(pool),
			reason: "io_uring_setup: permission denied", remedy: append([]string{"security module"}, filter...),
		},
		{
			name: "enter: EPERM", deny: []string{"io_uring_enter=EPERM"}, backend: always(pool),
			reason: "can be set up but not used: io_uring_enter: operation not permitted", remedy: filter, quick: true,
		},
		{
			name: "register: EPERM", deny: []string{"io_uring_register=EPERM"}, backend: always(ring), about: ring,
			reason: "the kernel's worker threads cannot be bounded (io_uring_register: operation not permitted)",
			remedy: append([]string{"forbids io_uring_register"}, filter...),
		},
		{
			name: "no locked memory, unprivileged", uid: nobody, memlock: new(uint64(0)), backend: lockedMemory,
			reason: "io_uring_setup: cannot allocate memory", remedy: []string{"raise the limit of locked memory (now 0 "},
		},
	}
}

// quickDenials are those of a machine in a quick run: the ones whose outcome is most the
// kernel's.
func quickDenials() []denial {
	return slices.DeleteFunc(denials(), func(d denial) bool { return !d.quick })
}

// lockedMemory: from 6.16 to 7.0 the memory of a ring counts against RLIMIT_MEMLOCK. It
// did before 5.12 too, unless the distribution took over a later io_uring, as Debian did.
func lockedMemory(r release) string {
	switch {
	case r.less(release{5, 12}), r == release{7, 1}:
		return either
	case r.less(release{6, 16}), release{7, 0}.less(r):
		return ring
	default:
		return pool
	}
}

// release is the first two numbers of a kernel's.
type release struct{ major, minor int }

func (r release) less(s release) bool {
	return r.major < s.major || r.major == s.major && r.minor < s.minor
}

var releasePattern = regexp.MustCompile(`^(\d+)\.(\d+)`)

func parseRelease(text string) (release, error) {
	found := releasePattern.FindStringSubmatch(text)
	if found == nil {
		return release{}, fmt.Errorf("%q is no release of a kernel", text)
	}
	major, err := strconv.Atoi(found[1])
	if err != nil {
		return release{}, err
	}
	minor, err := strconv.Atoi(found[2])
	return release{major, minor}, err
}

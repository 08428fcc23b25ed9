package engine

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"felix.local/felix/uring"
)

// deniedFilesystems get the pool: their writes through a ring have been seen to
// hang, to land in the wrong place, or to gain nothing.
var deniedFilesystems = map[string]string{
	"nfs":  "network filesystem, whose waits the ring cannot bound",
	"cifs": "writes through io_uring have landed at wrong positions there",
	"fuse": "a process answers for the disk, and a ring waits on it without a bound",
	"zfs":  "requests of a ring have been stuck there for ever",
	"9p":   "network filesystem, whose waits the ring cannot bound",
}

// deniedKernels get the pool. A range is from (included) to below (excluded).
var deniedKernels = []struct {
	from, below kernelVersion
	reason      string
}{
	{kernelVersion{}, kernelVersion{5, 6, 0}, "its io_uring lacks plain writes and preallocation"},
	{
		kernelVersion{5, 11, 0},
		kernelVersion{5, 15, 3},
		"its io_uring can lose the wake-up of a buffered write, which then waits for ever",
	},
}

// denial says why the ring is not tried here, or nothing.
func denial(filesystem string, k kernelID) (why refusal) {
	const insist = "to use io_uring all the same, set FELIX_STORAGE_IO_URING=require"
	if reason, ok := deniedFilesystems[filesystem]; ok {
		why.reason = fmt.Sprintf("the data directory is on %s (%s)", filesystem, reason)
		why.remedy = "keep the data on a local filesystem, ext4 or XFS; " + insist
		return why
	}
	version, ok := k.version()
	if !ok {
		return why // an unknown name is no evidence; the proof decides
	}
	for _, d := range deniedKernels {
		if !version.less(d.from) && version.less(d.below) {
			why.reason = fmt.Sprintf("kernel %s is on the list of unsafe ones: %s", k, d.reason)
			why.remedy = fmt.Sprintf("use Linux %v or later", kernelSafe)
			if d.from != (kernelVersion{}) { // before that there is nothing to insist on
				why.remedy += "; " + insist
			}
			return why
		}
	}
	return why
}

// kernelSafe is the first version that no range of deniedKernels lies behind.
var kernelSafe = kernelVersion{5, 15, 3}

// kernelVersion is major, minor, patch.
type kernelVersion [3]int

func (v kernelVersion) less(w kernelVersion) bool {
	for i := range v {
		if v[i] != w[i] {
			return v[i] < w[i]
		}
	}
	return false
}

func (v kernelVersion) String() string { return fmt.Sprintf("%d.%d.%d", v[0], v[1], v[2]) }

// kernelID is how a kernel names itself.
type kernelID struct {
	// release is uname -r, build is uname -v, signature is
	// /proc/version_signature where the distribution has it.
	release, build, signature string
}

// String is the release, with the upstream version where that is another one.
func (k kernelID) String() string {
	v, ok := k.version()
	if !ok || strings.HasPrefix(k.release, v.String()) {
		return k.release
	}
	return fmt.Sprintf("%s (%v)", k.release, v)
}

var (
	leadingVersion = regexp.MustCompile(`^(\d+)\.(\d+)(?:\.(\d+))?`)
	debianBuild    = regexp.MustCompile(`Debian (\d+\.\d+(?:\.\d+)?)`)
)

// version is the upstream version. Distributions that keep the release at x.y.0
// while they follow the stable series say the true one elsewhere.
func (k kernelID) version() (kernelVersion, bool) {
	if words := strings.Fields(k.signature); len(words) > 0 {
		if v, ok := parseVersion(words[len(words)-1]); ok {
			return v, true
		}
	}
	if m := debianBuild.FindStringSubmatch(k.build); m != nil {
		return parseVersion(m[1])
	}
	return parseVersion(k.release)
}

func parseVersion(s string) (v kernelVersion, ok bool) {
	m := leadingVersion.FindStringSubmatch(s)
	if m == nil {
		return v, false
	}
	for i, digits := range m[1:] {
		if digits == "" {
			continue
		}
		n, err := strconv.Atoi(digits)
		if err != nil {
			return v, false
		}
		v[i] = n
	}
	return v, true
}

// backendSystem is what selection asks the system; tests put their own.
type backendSystem struct {
	kernel   func() kernelID
	openRing func(uring.Options) (ringQueue, error)
	readFile func(path string) (string, error)
	threads  func() ThreadLimits
	// limit gives the soft limit on a resource of this process.
	limit func(resource int) (uint64, error)
}

func (s backendSystem) withDefaults() backendSystem {
	if s.readFile == nil {
		s.readFile = readTrimmed
	}
	if s.threads == nil {
		s.threads = func() ThreadLimits { return findThreadLimits(s.readFile) }
	}
	if s.limit == nil {
		s.limit = softLimit
	}
	if s.kernel == nil {
		s.kernel = func() kernelID { return runningKernel(s.readFile) }
	}
	if s.openRing == nil {
		s.openRing = func(o uring.Options) (ringQueue, error) { return uring.Open(o) }
	}
	return s
}

func runningKernel(readFile func(string) (string, error)) kernelID {
	var name unix.Utsname
	if unix.Uname(&name) != nil {
		return kernelID{release: "unknown"}
	}
	k := kernelID{release: unix.ByteSliceToString(name.Release[:]), build: unix.ByteSliceToString(name.Version[:])}
	if signature, err := readFile("/proc/version_signature"); err == nil {
		k.signature = signature
	}
	return k
}

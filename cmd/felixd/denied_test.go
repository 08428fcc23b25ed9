package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"runtime"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

// profileText is what a person is told who has to change a filter.
const profileText = "allow io_uring_setup, io_uring_enter and io_uring_register, as the profile deploy/seccomp-felixd.json does " +
	"(Docker: --security-opt seccomp=seccomp-felixd.json; Kubernetes: a seccompProfile of type Localhost; " +
	"systemd: SystemCallFilter=io_uring_setup io_uring_enter io_uring_register)"

// deniedRow is a call that the kernel denies, and what felixd says about it.
type deniedRow struct {
	name    string
	call    uint32
	errno   syscall.Errno
	backend string
	reason  string
	remedy  string
}

func deniedRows() []deniedRow {
	unknown := "a seccomp filter forbids it: " + profileText
	if _, err := os.Stat("/proc/sys/kernel/io_uring_disabled"); err != nil {
		// A kernel before 6.6 does not show whether it has io_uring.
		unknown = "use Linux 5.6 or later, built with CONFIG_IO_URING; if the kernel has io_uring, " + unknown
	}
	const works, used = "real operations in the data directory succeeded; but the kernel's worker threads cannot be bounded (io_uring_register: %v)",
		"io_uring can be set up but not used: io_uring_enter: %v"
	const setup, enter, register = unix.SYS_IO_URING_SETUP, unix.SYS_IO_URING_ENTER, unix.SYS_IO_URING_REGISTER
	rows := []deniedRow{
		{"setup", setup, syscall.EPERM, "pool", "no io_uring: io_uring_setup: %v", "a seccomp filter forbids it: " + profileText},
		{"setup", setup, syscall.ENOSYS, "pool", "no io_uring: io_uring_setup: %v", unknown},
		{
			"setup", setup, syscall.EACCES, "pool", "no io_uring: io_uring_setup: %v", "a seccomp filter or a security module forbids it: " + profileText +
				"; or allow io_uring in the policy of the security module (SELinux, AppArmor or BPF)",
		},
		{"enter", enter, syscall.EPERM, "pool", used, "a seccomp filter forbids io_uring_enter: " + profileText},
		{"enter", enter, syscall.ENOSYS, "pool", used, "a seccomp filter forbids io_uring_enter: " + profileText},
		{"enter", enter, syscall.EACCES, "pool", used, "a seccomp filter forbids io_uring_enter: " + profileText},
		{"register", register, syscall.EPERM, "ring", works, "a seccomp filter or a security module forbids io_uring_register: " + profileText},
		{"register", register, syscall.ENOSYS, "ring", works, "a seccomp filter or a security module forbids io_uring_register: " + profileText},
	}
	for i := range rows {
		rows[i].reason = fmt.Sprintf(rows[i].reason, rows[i].errno)
		rows[i].name += " " + unix.ErrnoName(rows[i].errno)
	}
	return rows
}

func (row deniedRow) filter() string { return fmt.Sprintf("%d=%d", row.call, int(row.errno)) }

// spawnFiltered runs a server under a filter. It gives what standard error took, which is
// complete once the server is stopped.
func spawnFiltered(t *testing.T, filter string, flags ...string) (*serveProcess, *safeBuffer) {
	t.Helper()
	t.Setenv(filterVariable, filter)
	stderr := new(safeBuffer)
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	p, err := startServe(t.Context(), self, childEnvironment(os.Environ(), nil), stderr, flags...)
	if err != nil {
		skipWithoutFilter(t, stderr.String())
		t.Fatalf("%v\n%v", err, stderr)
	}
	return p, stderr
}

// storageSaid is the event in which a server says how it stores.
func storageSaid(t *testing.T, p *serveProcess) (e storageEvent) {
	t.Helper()
	for _, said := range p.said {
		if said.kind != e.kind() {
			continue
		}
		if err := json.Unmarshal(said.line, &e); err != nil {
			t.Fatal(err)
		}
		return e
	}
	t.Fatal("no event says how the server stores")
	return e
}

func TestAServerThatIsDeniedTheRingServesAndSaysWhatToChange(t *testing.T) {
	needRing(t)
	for _, row := range deniedRows() {
		t.Run(row.name, func(t *testing.T) {
			dir := t.TempDir()
			p, stderr := spawnFiltered(t, row.filter(), "--dir", dir, "--http-addr", "127.0.0.1:0", "--kafka-addr", "off", "--admin-addr", "off")
			c := processClient(t, p)
			if _, err := c.create(t.Context(), stream("orders"), definitionDocument{Durable: new(true), Shards: new(1), Format: "raw"}); err != nil {
				t.Fatal(err)
			}
			publishText(t, c, stream("orders"), "order", 0)
			if stopped, err := p.stop(); err != nil || !stopped.OK {
				t.Errorf("stopped %+v, %v", stopped, err)
			}
			if e := storageSaid(t, p); backendOf(e.Backend) != row.backend || e.Reason != row.reason || e.Remedy != row.remedy {
				t.Errorf("said %+v", e)
			} else if text := e.text(); !strings.Contains(text, row.reason) || !strings.Contains(text, "\n           to have io_uring: "+row.remedy) {
				t.Errorf("a terminal is told %q", text)
			}
			// The kernel, the filesystem and what that can do are the machine's.
			const value = `(?:\S+|"[^"]*")`
			line := regexp.MustCompile(`(?m)^time=\S+ level=WARN msg="storage backend chosen" root=` + regexp.QuoteMeta(dir) +
				` backend.name=` + row.backend + ` backend.requested=auto backend.reason="` + regexp.QuoteMeta(row.reason) +
				`" backend.kernel=` + value + ` backend.filesystem=` + value + ` backend.dsync_write=(?:true|false) backend.direct_overwrite=(?:true|false)` +
				` backend.remedy="` + regexp.QuoteMeta(row.remedy) + `"(?: backend.ring="[^"]*")?$`)
			if !line.MatchString(stderr.String()) {
				t.Errorf("logged\n%swanted\n%s", stderr, line)
			}
		})
	}
}

// backendOf is the name of a backend without its driver.
func backendOf(name string) string {
	name, _, _ = strings.Cut(name, "/")
	return name
}

func TestDoctorSaysOfEveryDenialWhatToChange(t *testing.T) {
	needRing(t)
	for _, row := range deniedRows() {
		t.Run(row.name, func(t *testing.T) {
			stdout, _ := felixdUnder(t, row.filter(), "doctor", "--dir", t.TempDir(), "--samples", "1")
			var e doctorEvent
			if err := json.Unmarshal([]byte(stdout), &e); err != nil {
				t.Fatal(err)
			}
			if e.Backend == nil || e.Backend.Name != row.backend || e.Backend.Reason != row.reason || e.Backend.Remedy != row.remedy {
				t.Errorf("found %+v", e.Backend)
			}
			if text := e.text(); !strings.Contains(text, " because "+row.reason+"\n") || !strings.Contains(text, " to change it: "+row.remedy+"\n") {
				t.Errorf("a terminal is told\n%s", text)
			}
		})
	}
}

// TestALimitThatDeniesTheRingIsNamedWithWhatToRaise sets the limits for real.
func TestALimitThatDeniesTheRingIsNamedWithWhatToRaise(t *testing.T) {
	needRing(t)
	if os.Geteuid() != 0 {
		t.Skip("not root: how much of its limits this user has used up is not known")
	}
	threads := runtime.GOMAXPROCS(0) + 14 // those of felixd without workers
	for name, row := range map[string]struct {
		limit          string
		user           uint32
		reason, remedy string
	}{
		// Root is not bound by it, so that felixd has its threads all the same.
		"threads": {
			fmt.Sprintf("limit %d=9", unix.RLIMIT_NPROC), 0, "the limit of threads leaves no room for the kernel's workers",
			fmt.Sprintf("raise ulimit -u (now 9; systemd: LimitNPROC=; Docker: --ulimit nproc=) to at least %d, or %d for all 64 workers", 2*threads, 65*threads),
		},
		"locked memory": {
			fmt.Sprintf("limit %d=4096", unix.RLIMIT_MEMLOCK), 65534, "no io_uring: io_uring_setup: cannot allocate memory",
			"raise the limit of locked memory (now 4096 bytes) to 64 MiB (ulimit -l 65536; systemd: LimitMEMLOCK=64M; Docker: --ulimit memlock=67108864), " +
				"or grant CAP_IPC_LOCK",
		},
	} {
		t.Run(name, func(t *testing.T) {
			dir, err := os.MkdirTemp("/tmp", "felixd-limit-") // the test's own directory is root's alone
			if err != nil {
				t.Fatal(err)
			}
			defer os.RemoveAll(dir)
			if err := os.Chown(dir, int(row.user), int(row.user)); err != nil {
				t.Fatal(err)
			}
			cmd := felixdFiltered(t, row.limit, "doctor", "--dir", dir, "--samples", "1")
			cmd.Dir = dir
			cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: row.user, Gid: row.user}}
			stdout, err := cmd.Output()
			if err != nil {
				t.Fatal(err)
			}
			var e doctorEvent
			if err := json.Unmarshal(stdout, &e); err != nil {
				t.Fatal(err)
			}
			if e.Backend != nil && e.Backend.Name == "ring" && row.user != 0 {
				t.Skip("this kernel does not count a ring's memory as locked")
			}
			if e.Backend == nil || e.Backend.Reason != row.reason || e.Backend.Remedy != row.remedy {
				t.Errorf("found %+v", e.Backend)
			}
		})
	}
}

// felixdFiltered is felixd under a filter.
func felixdFiltered(t *testing.T, filter string, args ...string) *exec.Cmd {
	t.Helper()
	// Not by its path, which may lie in a directory of this user alone.
	cmd := exec.CommandContext(t.Context(), "/proc/self/exe")
	cmd.Args = append([]string{"felixd"}, args...)
	cmd.Env = append(childEnvironment(os.Environ(), nil), filterVariable+"="+filter)
	return cmd
}

// felixdUnder runs felixd under a filter, wants success, and gives what it printed.
func felixdUnder(t *testing.T, filter string, args ...string) (stdout, stderr string) {
	t.Helper()
	var out, complaints bytes.Buffer
	cmd := felixdFiltered(t, filter, args...)
	cmd.Stdout, cmd.Stderr = &out, &complaints
	if err := cmd.Run(); err != nil {
		skipWithoutFilter(t, complaints.String())
		t.Fatalf("felixd %v: %v\n%s%s", args, err, &out, &complaints)
	}
	return out.String(), complaints.String()
}

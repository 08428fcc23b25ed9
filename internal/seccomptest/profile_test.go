package seccomptest_test

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"felix.local/felix/internal/seccomptest"
)

// everything allows all but what a test denies.
func everything(rules ...seccomptest.Rule) seccomptest.Profile {
	return seccomptest.Profile{
		DefaultAction: seccomptest.Allow,
		Architectures: []seccomptest.Architecture{{Name: "SCMP_ARCH_X86_64"}, {Name: "SCMP_ARCH_AARCH64"}},
		Rules:         rules,
	}
}

func TestAProfileAnswersByCallAndByArgument(t *testing.T) {
	if os.Getenv(inChild) == "" {
		runAgain(t)
		return
	}
	err := everything(
		seccomptest.Rule{Names: []string{"getppid"}, Action: seccomptest.Fail, Errno: uint16(syscall.ENOTNAM)},
		// Bit 1 of the first argument set, and bits 0 and 1 of the second are not both set.
		seccomptest.Rule{Names: []string{"getpgid"}, Action: seccomptest.Fail, Arguments: []seccomptest.Argument{
			{Index: 0, Mask: 2, Want: 2, Op: "SCMP_CMP_MASKED_EQ"}, {Index: 1, Mask: 3, Want: 1, Op: "SCMP_CMP_MASKED_EQ"},
		}},
	).Install()
	if err != nil {
		t.Skip("no filter can be set here:", err)
	}
	if _, _, errno := syscall.Syscall(unix.SYS_GETPPID, 0, 0, 0); errno != syscall.ENOTNAM {
		t.Errorf("getppid answers %v", errno)
	}
	const nobody = 1 << 29 // no process has this number; its bits 0 and 1 are clear
	for _, row := range []struct {
		first, second uintptr
		want          syscall.Errno
	}{{nobody + 2, 1, syscall.EPERM}, {nobody + 3, 5, syscall.EPERM}, {nobody, 1, syscall.ESRCH}, {nobody + 2, 3, syscall.ESRCH}, {nobody + 2, 0, syscall.ESRCH}} {
		if _, _, errno := syscall.Syscall(unix.SYS_GETPGID, row.first, row.second, 0); errno != row.want {
			t.Errorf("getpgid(%d, %d) answers %v, want %v", row.first, row.second, errno, row.want)
		}
	}
}

func TestAProcessUnderAKillingProfileDiesOfADeniedCall(t *testing.T) {
	if os.Getenv(inChild) == "" {
		var ended *exec.ExitError
		out, err := again(t).CombinedOutput()
		switch {
		case err == nil && strings.Contains(string(out), "SKIP"):
			t.Skipf("no filter can be set here:\n%s", out)
		case !errors.As(err, &ended) || ended.Sys().(syscall.WaitStatus).Signal() != syscall.SIGSYS:
			t.Errorf("got %v\n%s", err, out)
		}
		return
	}
	if err := everything(seccomptest.Rule{Names: []string{"getppid"}, Action: seccomptest.Kill}).Install(); err != nil {
		t.Skip("no filter can be set here:", err)
	}
	os.Getppid()
}

// The profile that is delivered is understood, names only calls that there are, and lets
// nobody into namespaces.
func TestTheProfileInDeployIsUnderstood(t *testing.T) {
	p, err := seccomptest.ReadProfile("../../deploy/seccomp-felixd.json")
	if err != nil {
		t.Fatal(err)
	}
	if unknown := slices.DeleteFunc(p.Unknown(), func(name string) bool { return name == "arch_prctl" }); len(unknown) > 0 {
		t.Errorf("no calls are called %v", unknown)
	}
	seen := make(map[string]bool)
	for _, rule := range p.Rules {
		if !slices.IsSorted(rule.Names) || rule.Comment == "" {
			t.Errorf("%v are not in order, or nothing says what they are for", rule.Names)
		}
		for _, name := range rule.Names {
			if seen[name] {
				t.Errorf("%s is there twice", name)
			}
			seen[name] = true
			if rule.Action == seccomptest.Allow && slices.Contains([]string{"mount", "unshare", "setns", "ptrace", "bpf", "keyctl", "clone3"}, name) {
				t.Errorf("%s is allowed", name)
			}
			if (name == "clone") != (len(rule.Arguments) > 0) {
				t.Errorf("%s is allowed with arguments %v", name, rule.Arguments)
			}
		}
	}
	if p.DefaultAction != seccomptest.Fail || p.DefaultErrno != uint16(syscall.EPERM) {
		t.Errorf("what is not named answers %s, %d", p.DefaultAction, p.DefaultErrno)
	}
	rest := p.Without("io_uring_setup", "io_uring_enter", "io_uring_register")
	if len(rest.Rules) != len(p.Rules)-1 {
		t.Error("the calls of the ring are no entry of their own")
	}
}

func TestAProfileThatIsNotUnderstoodIsRefused(t *testing.T) {
	for name, text := range map[string]string{
		"a field":         `{"defaultAction": "SCMP_ACT_ERRNO", "flags": ["SECCOMP_FILTER_FLAG_LOG"]}`,
		"an action":       `{"defaultAction": "SCMP_ACT_TRACE", "archMap": [{"architecture": "SCMP_ARCH_X86_64"}, {"architecture": "SCMP_ARCH_AARCH64"}]}`,
		"an architecture": `{"defaultAction": "SCMP_ACT_ERRNO"}`,
		"a comparison": `{"defaultAction": "SCMP_ACT_ERRNO", "archMap": [{"architecture": "SCMP_ARCH_X86_64"}, {"architecture": "SCMP_ARCH_AARCH64"}],
			"syscalls": [{"names": ["clone"], "action": "SCMP_ACT_ALLOW", "args": [{"index": 0, "value": 1, "op": "SCMP_CMP_GT"}]}]}`,
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "profile.json")
			if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
			p, err := seccomptest.ReadProfile(path)
			if err == nil {
				err = p.Install()
			}
			if err == nil {
				t.Error("it was taken")
			}
		})
	}
}

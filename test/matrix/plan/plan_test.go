package plan_test

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"felix.local/felix/test/matrix/plan"
)

func TestAPlanIsReadAsItWasWritten(t *testing.T) {
	want := plan.Plan{
		Modules: []string{"/modules/xfs.ko"},
		Mounts:  []plan.Mount{{Device: "/dev/nvme0n1", Filesystem: "ext4", Dir: "/data"}},
		Steps: []plan.Step{{
			Name: "a", Argv: []string{"/bin/felixd", "version"}, UID: 65534, MemlockBytes: new(uint64(0)),
			Deny: []string{"io_uring_setup=EPERM"}, Sysctls: map[string]string{"kernel.io_uring_disabled": "2"}, Seconds: 3,
		}},
	}
	path := filepath.Join(t.TempDir(), "plan.json")
	if err := want.Write(path); err != nil {
		t.Fatal(err)
	}
	got, err := plan.Read(path)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

func TestABadPlanIsRefused(t *testing.T) {
	for text, want := range map[string]string{
		`{"steps":[{"name":"a","argv":["x"]},{"name":"a","argv":["y"]}]}`: "two steps",

		`{"steps":[{"name":"a"}]}`:                                          "needs a name and a program",
		`{"steps":[{"name":"a","argv":["x"],"seconds":-1}]}`:                "-1 seconds",
		`{"steps":[{"name":"a","argv":["x"],"denied":["io_uring_setup"]}]}`: "denied",
		`{"mounts":[{"device":"/dev/nvme0n1"}]}`:                            "mount 0",
		`{"steps":`:                                                         "unexpected EOF",
	} {
		if _, err := plan.Parse([]byte(text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", text, err, want)
		}
	}
}

func TestALineThatIsNoResultIsNone(t *testing.T) {
	for _, line := range []string{plan.LineUp + " 6.1", plan.LineExit + " 0", `{"offset":1}`, `{"name":`, ""} {
		if _, ok := plan.ParseResult(line); ok {
			t.Errorf("%q is taken for a result", line)
		}
	}
	r, ok := plan.ParseResult(`{"name":"a","exit":3,"stderr":"felixd: no"}`)
	if !ok || r.OK() || r.Problem() != "a: exit code 3: felixd: no" {
		t.Errorf("got %+v, %q", r, r.Problem())
	}
}

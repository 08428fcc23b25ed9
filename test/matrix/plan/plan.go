package plan

import (
	"encoding/json"
	"fmt"
	"os"
	"strings"
)

// The lines a guest writes beside its results.
const (
	// LineUp is the first one: our code runs. A machine that never says it has not
	// got that far, and may be started once more.
	LineUp = "KMX-UP"
	// LineExit is the last one, with the exit code behind a blank. A guest without it
	// has failed, whatever its emulator says.
	LineExit = "KMX-EXIT"
)

// Path is where a guest finds its plan, and Program the guest program itself.
const (
	Path    = "/plan.json"
	Program = "/init"
)

// Plan is everything a machine is asked to do.
type Plan struct {
	// Modules are paths in the guest of kernel modules, in the order of loading.
	Modules []string `json:"modules,omitempty"`
	// Mounts are the disks. A machine that is running already has none.
	Mounts []Mount `json:"mounts,omitempty"`
	// Steps run one after the other, whatever became of those before.
	Steps []Step `json:"steps"`
}

// BySerial begins the name of a device that is found by its serial number: kernels number
// several disks in the order in which they answer.
const BySerial = "serial="

// Mount is a disk and where it goes.
type Mount struct {
	// Device is a path below /dev, such as /dev/nvme0n1, or BySerial and a number.
	Device     string `json:"device"`
	Filesystem string `json:"filesystem"`
	Dir        string `json:"dir"`
	// Options are the filesystem's own, such as barrier=0, with commas between them.
	Options string `json:"options,omitempty"`
}

// Step is a program to run, and around what.
type Step struct {
	Name string   `json:"name"`
	Argv []string `json:"argv"`
	// Env is added to a small environment of the runner's: PATH, HOME, TMPDIR.
	Env []string `json:"env,omitempty"`
	// Dir is where the program runs, and what TMPDIR says. It is made for the step and
	// belongs to the step's user.
	Dir string `json:"dir,omitempty"`
	// UID is user and group, 0 being whoever runs the plan.
	UID uint32 `json:"uid,omitempty"`
	// MemlockBytes is RLIMIT_MEMLOCK; nil leaves it.
	MemlockBytes *uint64 `json:"memlock_bytes,omitempty"`
	// Deny are system calls that fail, as "io_uring_setup=EPERM".
	Deny []string `json:"deny,omitempty"`
	// Sysctls are set before and put back after. Where one does not exist the step is
	// skipped.
	Sysctls map[string]string `json:"sysctls,omitempty"`
	// Seconds is how long the program may take; 0 is DefaultSeconds.
	Seconds int `json:"seconds,omitempty"`
	// Stream has the program write its standard output to the machine's results as it
	// comes, instead of into the step's result.
	Stream bool `json:"stream,omitempty"`
}

// DefaultSeconds is how long a step may take.
const DefaultSeconds = 120

// OutputMax is how many bytes of each output a result keeps: the first ones.
const OutputMax = 64 << 10

// Result is what became of a step.
type Result struct {
	Name string `json:"name"`
	// Skipped says why the step was not run; empty when it was.
	Skipped string `json:"skipped,omitempty"`
	// Failed says what kept the program from ending by itself: it could not be
	// started, was killed, or took too long.
	Failed string `json:"failed,omitempty"`
	// Exit is the program's exit code.
	Exit    int     `json:"exit"`
	Stdout  string  `json:"stdout,omitempty"`
	Stderr  string  `json:"stderr,omitempty"`
	Seconds float64 `json:"seconds"`
}

// OK says that the program ran and ended with 0.
func (r Result) OK() bool { return r.Skipped == "" && r.Failed == "" && r.Exit == 0 }

// Problem says in a line what is wrong with a result, or nothing.
func (r Result) Problem() string {
	switch {
	case r.Failed != "":
		return fmt.Sprintf("%s: %s: %s", r.Name, r.Failed, r.lastWords())
	case r.Skipped == "" && r.Exit != 0:
		return fmt.Sprintf("%s: exit code %d: %s", r.Name, r.Exit, r.lastWords())
	default:
		return ""
	}
}

// lastWords are the last lines a program wrote to standard error, or else to standard
// output.
func (r Result) lastWords() string {
	const most = 500
	text := strings.TrimSpace(r.Stderr)
	if text == "" {
		text = strings.TrimSpace(r.Stdout)
	}
	if len(text) > most {
		text = "…" + strings.ToValidUTF8(text[len(text)-most:], "")
	}
	return text
}

// Read reads a plan and judges it.
func Read(path string) (Plan, error) {
	b, err := os.ReadFile(path)
	if err != nil {
		return Plan{}, err
	}
	p, err := Parse(b)
	if err != nil {
		return Plan{}, fmt.Errorf("%s: %w", path, err)
	}
	return p, nil
}

// Parse reads a plan and judges it. A field nobody knows is an error: it would be a
// wish that nobody fulfils.
func Parse(b []byte) (Plan, error) {
	var p Plan
	d := json.NewDecoder(strings.NewReader(string(b)))
	d.DisallowUnknownFields()
	if err := d.Decode(&p); err != nil {
		return Plan{}, err
	}
	seen := make(map[string]bool)
	for i, s := range p.Steps {
		switch {
		case s.Name == "" || len(s.Argv) == 0:
			return Plan{}, fmt.Errorf("step %d needs a name and a program", i)
		case seen[s.Name]:
			return Plan{}, fmt.Errorf("two steps are called %q", s.Name)
		case s.Seconds < 0:
			return Plan{}, fmt.Errorf("step %q may take %d seconds", s.Name, s.Seconds)
		}
		seen[s.Name] = true
	}
	for i, m := range p.Mounts {
		if m.Device == "" || m.Filesystem == "" || m.Dir == "" {
			return Plan{}, fmt.Errorf("mount %d needs a device, a filesystem and a directory", i)
		}
	}
	return p, nil
}

// Write puts a plan into a file.
func (p Plan) Write(path string) error {
	b, err := json.MarshalIndent(p, "", "  ")
	if err != nil {
		return err
	}
	return os.WriteFile(path, b, 0o644)
}

// ParseResult reads a line of a machine's results; ok is false for any other line.
func ParseResult(line string) (r Result, ok bool) {
	if !strings.HasPrefix(line, "{") {
		return Result{}, false
	}
	err := json.Unmarshal([]byte(line), &r)
	return r, err == nil && r.Name != ""
}

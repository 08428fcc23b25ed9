package seccomptest

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"slices"

	"golang.org/x/sys/unix"
)

// Profile is a seccomp profile in the format of Docker, as far as those of this tree
// use it.
type Profile struct {
	// DefaultAction is what happens to a call that no rule names.
	DefaultAction Action `json:"defaultAction"`
	// DefaultErrno is what such a call fails with; 0 is EPERM.
	DefaultErrno  uint16         `json:"defaultErrnoRet"`
	Architectures []Architecture `json:"archMap"`
	Rules         []Rule         `json:"syscalls"`
}

// Architecture names a machine and others whose programs it runs too.
type Architecture struct {
	Name string   `json:"architecture"`
	Sub  []string `json:"subArchitectures"`
}

// Rule says what happens to some calls.
type Rule struct {
	Comment string   `json:"comment,omitempty"`
	Names   []string `json:"names"`
	Action  Action   `json:"action"`
	// Errno is what the calls fail with under Fail; 0 is EPERM.
	Errno uint16 `json:"errnoRet,omitempty"`
	// Arguments have to fit, all of them, for the rule to apply.
	Arguments []Argument `json:"args,omitempty"`
}

// Argument fits when its lower 32 bits, masked with Mask, are Want.
type Argument struct {
	Index uint32 `json:"index"`
	Mask  uint32 `json:"value"`
	Want  uint32 `json:"valueTwo"`
	Op    string `json:"op"`
}

// Action is what happens to a call.
type Action string

// The actions.
const (
	Allow Action = "SCMP_ACT_ALLOW"
	Fail  Action = "SCMP_ACT_ERRNO"
	// Kill ends the process, by SIGSYS: no denied call goes unnoticed.
	Kill Action = "SCMP_ACT_KILL_PROCESS"
)

const maskedEqual = "SCMP_CMP_MASKED_EQ"

// ReadProfile reads a profile. What it has that is not understood is an error.
func ReadProfile(path string) (p Profile, err error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return p, err
	}
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&p); err != nil {
		return p, fmt.Errorf("%s: %w", path, err)
	}
	return p, nil
}

// Without is the profile without rules for some calls.
func (p Profile) Without(calls ...string) Profile {
	rules := p.Rules
	p.Rules = nil
	for _, r := range rules {
		r.Names = slices.DeleteFunc(slices.Clone(r.Names), func(name string) bool { return slices.Contains(calls, name) })
		if len(r.Names) > 0 {
			p.Rules = append(p.Rules, r)
		}
	}
	return p
}

// Unknown are the calls in the profile whose numbers are not known for this
// architecture.
func (p Profile) Unknown() (names []string) {
	known := numbers()
	for _, r := range p.Rules {
		for _, name := range r.Names {
			if _, there := known[name]; !there {
				names = append(names, name)
			}
		}
	}
	return names
}

// Install puts this process under the profile, for good. Calls that this architecture
// does not have are passed over, as container runtimes do.
func (p Profile) Install() error {
	filter, err := p.filter()
	if err != nil {
		return err
	}
	return install(filter)
}

func (p Profile) filter() ([]unix.SockFilter, error) {
	if !slices.ContainsFunc(p.Architectures, func(a Architecture) bool { return a.Name == architectureName }) {
		return nil, fmt.Errorf("the profile has no %s", architectureName)
	}
	otherwise, err := verdict(p.DefaultAction, p.DefaultErrno)
	if err != nil {
		return nil, err
	}
	f := []unix.SockFilter{
		{Code: load, K: architecturePosition},
		{Code: equal, K: architecture, Jt: 1},
		{Code: answer, K: otherwise},
		{Code: load, K: numberPosition},
		// Numbers above are another way to call, of 32-bit programs.
		{Code: atMost, K: numberMax, Jf: 1},
		{Code: answer, K: otherwise},
	}
	known := numbers()
	for _, r := range p.Rules {
		v, err := verdict(r.Action, r.Errno)
		if err != nil {
			return nil, err
		}
		tests, err := r.tests(v)
		if err != nil {
			return nil, err
		}
		for _, name := range r.Names {
			number, there := known[name]
			if !there {
				continue
			}
			f = append(f, unix.SockFilter{Code: equal, K: number, Jf: uint8(len(tests))})
			f = append(f, tests...)
		}
	}
	return append(f, unix.SockFilter{Code: answer, K: otherwise}), nil
}

// tests ask for the arguments and answer, or load the number of the call again.
func (r Rule) tests(v uint32) (f []unix.SockFilter, err error) {
	if len(r.Arguments) == 0 {
		return []unix.SockFilter{{Code: answer, K: v}}, nil
	}
	left := len(r.Arguments)
	for _, a := range r.Arguments {
		if a.Op != maskedEqual {
			return nil, fmt.Errorf("%v: comparing by %s is not understood", r.Names, a.Op)
		}
		left--
		f = append(f,
			unix.SockFilter{Code: load, K: argumentsPosition + 8*a.Index}, // the lower half, on a little-endian machine
			unix.SockFilter{Code: and, K: a.Mask},
			unix.SockFilter{Code: equal, K: a.Want, Jf: uint8(3*left + 1)})
	}
	return append(f, unix.SockFilter{Code: answer, K: v}, unix.SockFilter{Code: load, K: numberPosition}), nil
}

// verdict is what a filter answers.
func verdict(action Action, errno uint16) (uint32, error) {
	switch action {
	case Allow:
		return unix.SECCOMP_RET_ALLOW, nil
	case Kill:
		return unix.SECCOMP_RET_KILL_PROCESS, nil
	case Fail:
		if errno == 0 {
			errno = uint16(unix.EPERM)
		}
		return unix.SECCOMP_RET_ERRNO | uint32(errno), nil
	default:
		return 0, errors.New("no action is called " + string(action))
	}
}

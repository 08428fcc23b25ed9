package bubble

import (
	"os"
	"testing"
	"testing/synctest"
)

// Runner calls f in a bubble of its own and returns when every goroutine that f
// started has ended. Several bubbles may run at once. It panics when what ran in the
// bubble failed as a test.
type Runner func(f func())

// In gives a test's bubbles.
func In(t *testing.T) Runner {
	return func(f func()) { synctest.Test(t, func(*testing.T) { f() }) }
}

// Main runs the whole of a program and exits with what it returns. Bubbles are to
// be had within a test only, so the program becomes one; its arguments are its
// own, and it has read them before.
func Main(program func(Runner) int) {
	os.Args = os.Args[:1] // they are no test flags
	all := func(_, _ string) (bool, error) { return true, nil }
	testing.Main(all, []testing.InternalTest{{Name: "program", F: func(t *testing.T) {
		os.Exit(program(func(f func()) {
			within(t, func(t *testing.T) { In(t)(f) })
		}))
	}}}, nil, nil)
}

// within runs a test within the program. One that failed, as by a data race that
// was seen in it, must not pass for a program that went well.
func within(t *testing.T, body func(*testing.T)) {
	if !t.Run("", body) {
		panic("bubble: what ran in it failed as a test")
	}
}

package bubble

import (
	"os"
	"testing"
	"testing/synctest"
)

// Runner calls f in a bubble of its own and returns when every goroutine that f
// started has ended. Several bubbles may run at once.
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
			t.Run("", func(t *testing.T) { In(t)(f) })
		}))
	}}}, nil, nil)
}

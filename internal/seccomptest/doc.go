// Package seccomptest denies system calls to the process it runs in, the way a
// container's profile does: one call, or all but those that a profile in the format of
// Docker allows. It is for tests alone, in child processes: a filter cannot be taken
// back, and what the process executes inherits it.
//
// It owns the filter. It never decides what a denied call means.
package seccomptest

// Package seccomptest denies system calls to the process it runs in, the way a
// container's profile does. It is for tests alone, in child processes: a filter
// cannot be taken back.
//
// It owns the filter. It never decides what a denied call means.
package seccomptest

// Package defects shows that the proof can fail: it holds deliberate defects of
// the storage, each a small change of its source, and its test builds the tests
// of other packages on each of them and requires that those fail.
//
// A defect is made in a copy: the go command is given the changed files beside the
// tree (go build -overlay), and nothing of the tree is ever written. The text to be
// replaced must occur exactly once in its file, so a source that moved on fails
// with "the defect no longer applies" instead of proving nothing.
//
// A defect counts as caught when a check that is named with it fails: the test
// reports an error, panics or runs out of time, and has printed what is asked for
// with it: a failure that says something else, or nothing, is not one of the
// defect's. A defect that does not compile is an error of this package, and so is a
// check that also fails, or prints the same, on the tree as it is, or that runs no
// test.
//
// Without FELIX_DEFECTS=1 the test tries the quickest check of each defect, which
// takes some minutes on two processors that have nothing else to do. With it, or
// beside other work, the go command has to be given more than its usual ten minutes
// (-timeout 60m).
//
// This package owns the list and the runs of the go command. It never decides what
// is right; the tests that it names do. It holds no locks. Rows of the table are
// tried side by side, each in a directory of its own.
package defects

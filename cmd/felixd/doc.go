// Command felixd is Felix's one binary: it tries, fills, checks and measures logs,
// and says what a machine offers. It repairs nothing that opening a log does not.
//
//	felixd demo          append, kill, recover, verify: every claim checked
//	felixd log write     append records whose content follows from their offset
//	felixd log verify    read everything back and check it
//	felixd log bench     measure appends beside the device's own cost
//	felixd log inspect   say what opening would do; changes nothing
//	felixd log dump      print records; with --skip-damaged, what is readable
//	felixd doctor        kernel, backend, filesystem, limits, cost of a flush
//	felixd version
//
// Each command is one file or two, named after it. A flag and its environment
// variable are one struct field; storage settings stay text until
// engine.ParseConfig judges all of them at once.
//
// Results go to standard output: one JSON object per line when it is no terminal
// or --json is given, text for people otherwise. Logs, warnings, progress and the
// one line of an error go to standard error.
//
// # Signals
//
// The first SIGINT or SIGTERM asks a command to end in order: what it opened is
// closed and what it made is removed. The second one ends it where it stands.
//
// # Exit codes
//
//	0  success
//	1  failure at run time: no log where one was named, an interruption, a claim
//	   of the demo that did not hold
//	2  usage: unknown flag, invalid value or configuration
//	3  verification failed: a record differs, is damaged or is missing; doctor
//	   --check: a store would not work here
//	4  dump --skip-damaged: exported all that is readable, with gaps
//	5  the directory is in use by another process
//	6  inspect: opening would repair something
//	7  opening refuses, or would refuse, the directory
package main

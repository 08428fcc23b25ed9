// Command felixd is Felix's one binary: the server and its clients, and tools that
// try, fill, check, measure, copy and cut logs, and say what a machine offers. It
// repairs nothing that opening a log does not.
//
//	felixd serve         streams over HTTP and the Kafka protocol
//	felixd publish       publish records to a server
//	felixd subscribe     print records as they come, and go on after interruptions
//	felixd streams       list, create, show, delete and trim streams
//	felixd credentials   add, check and remove who may use a server
//	felixd ready         ask a server whether it is ready
//	felixd demo          publish, kill, restart, resume, verify: every claim checked
//	felixd bench         measure load on logs, a broker or a server, with a report
//	felixd bench ab      compare two settings in pairs, with an interval
//	felixd log write     append records whose content follows from their offset
//	felixd log verify    read everything back and check it
//	felixd log bench     measure appends beside the device's own cost
//	felixd log inspect   say what opening would do; changes nothing
//	felixd log dump      print records; with --skip-damaged, what is readable
//	felixd log replay    bring a commit journal's records to their segments
//	felixd log truncate  drop the records from an offset on; also reset and restore
//	felixd backup        copy a data directory, in use or not, and verify the copy
//	felixd restore       fill an empty data directory from a copy
//	felixd doctor        kernel, backend, filesystem, limits, cost of a flush
//	felixd version       what was built
//	felixd help          the help of a command
//	felixd man           the manual page, from the same definitions as the parser
//	felixd completion    completion for bash, zsh and fish
//
// Each command is one file or a few, named after it. The server without flags and
// signals is the type server; what the demo and the tests start as a process is
// serveProcess. A flag and its environment variable are one struct field; settings
// of the storage and of the server stay text until engine.ParseConfig and
// judgeServer judge all of them at once.
//
// Results go to standard output: one JSON object per line when it is no terminal
// or --json is given, text for people otherwise. Logs, warnings, progress and the
// one line of an error go to standard error.
//
// # Signals
//
// The first SIGINT or SIGTERM asks a command to end in order: what it opened is
// closed and what it made is removed. The second one ends it where it stands; for
// the server one within a second counts as the first. The server reads its
// credentials again on SIGHUP.
//
// # Exit codes
//
//	0  success
//	1  failure at run time: no log where one was named, an interruption, a claim
//	   of the demo that did not hold, an answer of the server that is an error, a
//	   server's end that left something acknowledged unsynced or a shard poisoned
//	2  usage: unknown flag, invalid value or configuration
//	3  verification failed: a record differs, is damaged or is missing; doctor
//	   --check: a store would not work here; credentials check: a server would
//	   refuse the file
//	4  dump --skip-damaged: exported all that is readable, with gaps
//	5  the directory is in use by another process
//	6  inspect: opening would repair something, or acknowledged records are in the
//	   commit journal alone
//	7  opening refuses, or would refuse, the directory; a shard whose root's commit
//	   journal holds records that its segments lack is not opened by itself, and
//	   dump ends with this after what it can print
package main

// Command matrix shows that felixd starts, says what it does and writes the same bytes on
// kernels and under denials that it meets elsewhere.
//
//	go run ./test/matrix kernels            the whole table: about six kernels, and this host's
//	go run ./test/matrix kernels --quick    this host, and one kernel under some of the denials
//	go run ./test/matrix powercut           power cuts, and images of a disk at its flushes
//	go run ./test/matrix powercut --lie     the check of that check: it has to find losses
//	go run ./test/matrix diskerror          writes and flushes of the disk that fail
//	go run ./test/matrix filesystems        the tests of quotas of test/filesystems in a guest
//	go run ./test/matrix all --markdown F   all of them, the tests of filesystems and of
//	                                        containers, as one page
//
// It owns the tables: what is run, what is expected, and the verdict. The machines are
// package vm's, the steps in them the guest program's. Nothing is installed on the host;
// what is missing is named with the command that installs it.
//
// A cell is a kernel and a way in which the ring is denied. In each, felixd doctor has to
// choose the backend that is expected there and to say what would change it, felixd demo
// has to pass, and a scripted workload has to leave the same bytes as in every other cell.
package main

// Command guest runs the steps of a plan: as the first process of a virtual machine,
// where it is the whole system around them, and as an ordinary program on the host.
//
//	guest run PLAN.json                            the steps, results to standard output
//	guest deny io_uring_setup=EPERM,... -- PROGRAM  system calls fail, then PROGRAM runs
//	guest limit memlock=BYTES -- PROGRAM            a resource limit, then PROGRAM runs
//	guest workload FELIXD DIR                      the scripted workload, and its digest
//	guest append SPEC.json                         appends until the power is cut
//	guest images SPEC.json                         recovers what is on each further disk
//	guest disk-error SPEC.json                     appends until its disk fails, and insists
//
// It owns what is around a step: mounts, users, limits, filters, sysctls that are put
// back, time limits. It never judges a result; a step that failed is a line like any
// other, and the plan goes on. On the host one plan runs at a time.
//
// As the first process it answers on the second serial port and says KMX-EXIT last; a
// panic here is a panic of the kernel, and the line is missing.
package main

// Package filesystems runs the tests of the engine on real filesystems in a virtual
// machine: its kernel mounts what the host's may not, such as filesystems with quotas.
//
// It owns what the guest needs for that (modules, the tests' program, mkfs and fsck with
// their libraries) and what is read of the tests: outcomes, reasons and tables. What is
// tested is package test/filesystems's; nothing is installed on the host.
//
// A test that is skipped gives its reason, and a run in which no test ran is a failure:
// it would have shown nothing.
package filesystems

// Command packaging makes what is given to those who run Felix: for each architecture a
// tarball, a Debian package and a list of what is in the program (CycloneDX), and the
// checksums of all.
//
//	go run ./packaging                   everything, into dist/
//	go run ./packaging check             build twice, elsewhere; the bytes are the same
//	go run ./packaging licences          whose code is linked in, and under which licence
//	go run ./packaging vulnerabilities   what is known against that code
//
// Version, revision and time come from what the Go toolchain wrote into the program,
// which is what the commit says. Nothing else that differs between two machines goes
// into a file: no path, no time of day, no user. docs/packaging.md is for those who use
// the packages.
package main

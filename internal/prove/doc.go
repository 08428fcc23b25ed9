// Command prove runs the proofs of durability at any scale: power losses, every
// short workload at every crash point, and damage to files.
//
//	go run ./internal/prove -seeds N [-seed S] [flags]
//	go run ./internal/prove -case CASE
//
// Its last line is "proved: images=… acked=… lost=0 refused=… seeds=…", or
// "not proved: …" with exit code 1. docs/reliability.md says what is counted, and
// what is not covered.
//
// It owns the scale of a run and the sum of its counts. It never decides whether
// an image is right: the packages below it do.
package main

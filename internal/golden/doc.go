// Package golden reads the bytes that tests compare with: what a format has to be for
// ever, written down beside the package that encodes it. It is for tests alone.
//
// It owns how such a file is written. It never writes one: bytes that changed are for
// somebody to judge.
package golden

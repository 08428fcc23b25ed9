// Package bubble gives a program what package testing/synctest gives a test: a
// clock that stands still while any goroutine can run and jumps ahead when all of
// them wait, so that hours of timers take milliseconds and pass the same way on
// every run.
//
// It owns nothing but the way into a bubble, and never decides what runs in one.
package bubble

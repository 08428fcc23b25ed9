package main

import (
	"fmt"
	"strconv"
	"strings"
	"time"
)

// span is a length of time: with a unit, or a number of seconds.
type span time.Duration

// UnmarshalText reads the flag.
func (s *span) UnmarshalText(text []byte) error {
	word := string(text)
	if _, err := strconv.ParseFloat(word, 64); err == nil {
		word += "s"
	}
	length, err := time.ParseDuration(word)
	if err != nil {
		return fmt.Errorf("%q is no time, such as 1500ms, 2m or a number of seconds", text)
	}
	*s = span(length)
	return nil
}

// sweep is one axis and its values, as "publishers=1,8,64".
type sweep struct {
	axis   string
	values numbers
}

// benchFigures are what a sweep may vary.
type benchFigures struct{ logs, publishers, batch, payloadBytes int }

// of is the figure of an axis, or nil.
func (f *benchFigures) of(axis string) *int {
	switch axis {
	case "publishers":
		return &f.publishers
	case "logs":
		return &f.logs
	case "batch":
		return &f.batch
	case "payload-bytes":
		return &f.payloadBytes
	}
	return nil
}

// UnmarshalText reads the flag.
func (s *sweep) UnmarshalText(text []byte) error {
	axis, values, found := strings.Cut(string(text), "=")
	if !found || new(benchFigures).of(axis) == nil {
		return fmt.Errorf("%q is not publishers, logs, batch or payload-bytes, then = and the values", text)
	}
	s.axis = axis
	return s.values.UnmarshalText([]byte(values))
}

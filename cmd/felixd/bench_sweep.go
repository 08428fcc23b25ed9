package main

import (
	"fmt"
	"strings"
)

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

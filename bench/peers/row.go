package main

import (
	"fmt"
	"path"
	"strings"
)

// row is one load: so many publishers on so many logs, each appending batches.
type row struct {
	Logs         int `json:"logs"`
	Publishers   int `json:"publishers"` // over all logs
	Batch        int `json:"batch"`
	PayloadBytes int `json:"payload_bytes"`
}

// name is what --rows matches: logs x publishers of each : batch x payload bytes.
func (r row) name() string {
	return fmt.Sprintf("%dx%d:%dx%d", r.Logs, r.Publishers/r.Logs, r.Batch, r.PayloadBytes)
}

// allRows is every row, those with small records first.
func allRows() []row {
	var rows []row
	for _, payload := range []int{128, 4096} {
		for _, batch := range []int{1, 16} {
			for _, publishers := range []int{1, 8, 64, 256} {
				rows = append(rows, row{1, publishers, batch, payload})
			}
			for _, logs := range []int{16, 64, 256} {
				rows = append(rows, row{logs, logs, batch, payload})
			}
		}
	}
	return rows
}

// selectNamed keeps what any of the patterns matches, in the order given; no patterns keep
// all. A pattern that matches nothing is a mistake.
func selectNamed[T any](what string, all []T, name func(T) string, patterns []string) ([]T, error) {
	if len(patterns) == 0 {
		return all, nil
	}
	used := make(map[string]bool)
	var kept []T
	for _, one := range all {
		wanted := false
		for _, pattern := range patterns {
			ok, err := matches(pattern, name(one))
			if err != nil {
				return nil, fmt.Errorf("%s %q: %w", what, pattern, err)
			}
			if ok {
				wanted, used[pattern] = true, true
			}
		}
		if wanted {
			kept = append(kept, one)
		}
	}
	for _, pattern := range patterns {
		if !used[pattern] {
			return nil, fmt.Errorf("%s %q matches none; --list shows all", what, pattern)
		}
	}
	return kept, nil
}

// matches is path.Match with the slash as an ordinary character.
func matches(pattern, name string) (bool, error) {
	flat := strings.NewReplacer("/", "\x00")
	return path.Match(flat.Replace(pattern), flat.Replace(name))
}

package enumerate

import (
	"sync"
)

// Verdict is what a state turned out to be.
type Verdict uint8

// The verdicts.
const (
	// Lost: something durable is gone or differs, or what was cut is back, or the
	// log that opened cannot be used.
	Lost Verdict = iota
	// Whole: every record is there, those under way included.
	Whole
	// Short: it ends before records that no one was promised.
	Short
	// Refused: it does not open.
	Refused
)

// String gives the verdict in a word.
func (v Verdict) String() string { return [...]string{"LOST", "whole", "short", "REFUSED"}[v] }

// verdictKey tells apart what may be judged differently: the disk, what is
// expected of it, and how it is opened.
type verdictKey struct {
	disk, expected uint64
	row            int
}

// cache remembers verdicts, so that a state that many crash points lead to is
// opened once.
type cache struct {
	mu struct {
		sync.Mutex
		verdicts map[verdictKey]*judged
	}
}

// judged is a verdict, there or to come.
type judged struct {
	once    sync.Once
	verdict Verdict
	err     error
}

func newCache() *cache {
	c := &cache{}
	c.mu.verdicts = make(map[verdictKey]*judged)
	return c
}

// verdict gives the verdict of judge, called once per key; fresh says that it was
// now.
func (c *cache) verdict(k verdictKey, judge func() (Verdict, error)) (j *judged, fresh bool) {
	c.mu.Lock()
	j = c.mu.verdicts[k]
	if j == nil {
		j = &judged{}
		c.mu.verdicts[k] = j
	}
	c.mu.Unlock()
	j.once.Do(func() {
		j.verdict, j.err = judge()
		fresh = true
	})
	return j, fresh
}

package httpapi

import "sync/atomic"

// budget bounds the bytes that all requests of a kind hold together. Taking never
// waits: a request that does not fit is answered 429, and the client waits instead.
type budget struct {
	name string
	max  int64
	used atomic.Int64
}

// take reserves n bytes, or reports that there is no room.
func (b *budget) take(n int64) error {
	if b.used.Add(n) > b.max {
		b.used.Add(-n)
		return &crowdedError{what: b.name, max: b.max}
	}
	return nil
}

// takeMore reserves n bytes beside the own ones that the caller has, as take does, but
// also beyond the bound when nobody else holds any: one record or body may be larger.
func (b *budget) takeMore(own, n int64) error {
	if used := b.used.Add(n); used > b.max && used > own+n {
		b.used.Add(-n)
		return &crowdedError{what: b.name, max: b.max}
	}
	return nil
}

func (b *budget) give(n int64) {
	if b.used.Add(-n) < 0 {
		panic("httpapi: more bytes of " + b.name + " given back than were taken")
	}
}

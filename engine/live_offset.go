package engine

import (
	"context"
	"errors"
)

// LiveOffset is one past the newest record below next that readers are given: records
// that start a generation are none, and may be all that is there up to next. It is the
// base when there is no such record, or next below that; past the tail, next counts as
// the tail.
//
// It reads such records at the end one by one, most often none. A leader writes one each
// time it takes over without a record in between, so that there are few.
func (l *Log) LiveOffset(ctx context.Context, next uint64) (uint64, error) {
	for {
		next = min(next, l.TailOffset())
		if next <= l.BaseOffset() {
			return next, nil
		}
		newest, err := l.ReadStored(ctx, next-1, 1, 1)
		var trimmed *TrimmedError
		switch {
		case errors.As(err, &trimmed): // since; the base has risen to here
		case err != nil:
			return 0, err
		case len(newest) == 0: // cut since
		case !startsGeneration(newest[0]):
			return next, nil
		default:
			next--
		}
	}
}

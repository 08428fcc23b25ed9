package bench

import (
	"context"

	"felix.local/felix/engine"
)

// LogTarget appends to logs; publisher i uses log i modulo their number.
func LogTarget(logs []*engine.Log) Target {
	return func(worker int) Publisher {
		log := logs[worker%len(logs)]
		var records []engine.Record
		return func(ctx context.Context, payloads [][]byte) error {
			records = records[:0]
			for _, payload := range payloads {
				records = append(records, engine.Record{Payload: payload})
			}
			_, err := log.Append(ctx, records...)
			return err
		}
	}
}

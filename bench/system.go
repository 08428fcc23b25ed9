package bench

import (
	"context"
	"errors"

	"felix.local/felix/broker"
	"felix.local/felix/engine"
)

// System is what a load is put on: logs of an engine, a stream of a broker, or of a
// server.
type System struct {
	// Backend and Reason say how it reaches the disk and why, Fsync what an
	// acknowledgement means.
	Backend, Reason, Fsync string
	// Logs is the number of logs, or shards; publisher i uses number i modulo Logs.
	Logs   int
	Target Target
	// Store has counters of what is done; nil where it is in another process.
	Store *engine.Store
	// Close ends it.
	Close func(ctx context.Context) error
	// ReadBack opens it again, after Close, for reading what it holds; closing ends
	// that.
	ReadBack func(ctx context.Context) (read ReadBack, closing func(context.Context) error, err error)
	// Remove, when not nil, removes what is not in a directory of the measurement.
	Remove func(ctx context.Context) error
}

// LogOptions say which logs to open.
type LogOptions struct {
	// Dir is the root they are in.
	Dir    string
	Config engine.Config
	Logs   int
	// Single: the directory is the one log's own, as the log tools have it, and no
	// root of a store.
	Single bool
}

// OpenLogs gives logs of an engine.
func OpenLogs(ctx context.Context, o LogOptions) (*System, error) {
	store, logs, err := o.open(ctx)
	if err != nil {
		return nil, err
	}
	return &System{
		Backend: BackendName(store.Backend()), Reason: store.Backend().Reason, Fsync: o.Config.Fsync(), Logs: o.Logs,
		Target: LogTarget(logs), Store: store, Close: store.Close,
		ReadBack: func(ctx context.Context) (ReadBack, func(context.Context) error, error) {
			store, logs, err := o.open(ctx)
			if err != nil {
				return nil, nil, err
			}
			return readLogs(logs), store.Close, nil
		},
	}, nil
}

func (o LogOptions) open(ctx context.Context) (*engine.Store, []*engine.Log, error) {
	if o.Single {
		store, log, err := engine.OpenSingle(ctx, o.Dir, "bench", o.Config)
		return store, []*engine.Log{log}, err
	}
	store, err := engine.OpenStore(ctx, o.Dir, o.Config)
	if err != nil {
		return nil, nil, err
	}
	logs := make([]*engine.Log, o.Logs)
	for i := range logs {
		key := engine.ShardKey{Tenant: "bench", Namespace: "default", Stream: "load", Shard: uint32(i)}
		if logs[i], err = store.OpenLog(ctx, key); err != nil {
			return nil, nil, errors.Join(err, store.Close(context.WithoutCancel(ctx)))
		}
	}
	return store, logs, nil
}

// readBytes is how much payload one read asks for.
const readBytes = 1 << 20

func readLogs(logs []*engine.Log) ReadBack {
	return func(ctx context.Context, log int, from uint64) ([]Stored, uint64, error) {
		records, next, err := logs[log].ReadNext(ctx, from, readBytes, engine.DefaultMaxRecordsPerRead)
		page := make([]Stored, len(records))
		for i, r := range records {
			page[i] = Stored{r.Offset, r.Payload}
		}
		return page, next, err
	}
}

// LogTarget appends to logs, with a context that cannot end: a load stops between two
// appends.
func LogTarget(logs []*engine.Log) Target {
	return func(worker int) Publisher {
		log := logs[worker%len(logs)]
		var records []engine.Record
		return func(_ context.Context, payloads [][]byte) (uint64, error) {
			records = records[:0]
			for _, payload := range payloads {
				records = append(records, engine.Record{Payload: payload})
			}
			got, err := log.Append(context.Background(), records...)
			return got.First, err
		}
	}
}

// BrokerOptions say which stream to make, in a broker of its own.
type BrokerOptions struct {
	Dir    string
	Broker broker.Config
	Shards int
	// Subscribers take everything that is published, shard by shard in turn.
	Subscribers int
}

// OpenBroker gives a stream of a broker.
func OpenBroker(ctx context.Context, o BrokerOptions) (*System, error) {
	b, stream, err := o.open(ctx)
	if err != nil {
		return nil, err
	}
	subscribers, err := Subscribe(ctx, stream, o.Subscribers)
	if err != nil {
		return nil, errors.Join(err, b.Close(context.WithoutCancel(ctx)))
	}
	store := b.Store()
	return &System{
		Backend: BackendName(store.Backend()) + "/broker", Reason: store.Backend().Reason, Fsync: o.Broker.Engine.Fsync(), Logs: o.Shards,
		Target: BrokerTarget(stream), Store: store,
		Close: func(ctx context.Context) error { return errors.Join(subscribers.Close(), b.Close(ctx)) },
		ReadBack: func(ctx context.Context) (ReadBack, func(context.Context) error, error) {
			b, stream, err := o.open(ctx)
			if err != nil {
				return nil, nil, err
			}
			return readStream(stream), b.Close, nil
		},
	}, nil
}

// open makes the stream, or finds it.
func (o BrokerOptions) open(ctx context.Context) (*broker.Broker, *broker.Stream, error) {
	config := o.Broker
	config.Root = o.Dir
	b, err := broker.Open(ctx, config)
	if err != nil {
		return nil, nil, err
	}
	name := broker.StreamName{Tenant: "bench", Namespace: "default", Stream: "load"}
	stream, _, err := b.CreateStream(ctx, name, broker.StreamConfig{Durable: true, Shards: o.Shards})
	if err != nil {
		return nil, nil, errors.Join(err, b.Close(context.WithoutCancel(ctx)))
	}
	return b, stream, nil
}

func readStream(stream *broker.Stream) ReadBack {
	return func(ctx context.Context, log int, from uint64) ([]Stored, uint64, error) {
		read, err := stream.Read(ctx, log, from, readBytes, 0)
		if err != nil {
			return nil, from, err
		}
		page := make([]Stored, len(read.Records))
		for i, r := range read.Records {
			page[i] = Stored{r.Offset, r.Value}
		}
		return page, read.Continue, nil
	}
}

// BackendName is the backend with its driver, as "ring/native".
func BackendName(b engine.Backend) string {
	if b.Driver == "" {
		return b.Name
	}
	return b.Name + "/" + b.Driver
}

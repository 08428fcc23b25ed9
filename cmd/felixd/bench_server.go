package main

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"felix.local/felix/bench"
	"felix.local/felix/broker"
	"felix.local/felix/engine"
)

// openServerStream makes a stream of a running server and publishes to it over
// HTTP, a connection per publisher. The stream is deleted when it was read back.
func openServerStream(ctx context.Context, server *client, p bench.Point, config engine.Config) (*bench.System, error) {
	if transport, ok := server.http.Transport.(*http.Transport); ok {
		transport.MaxIdleConnsPerHost = p.Load.Concurrency
	}
	name := broker.StreamName{Tenant: "bench", Namespace: "default", Stream: fmt.Sprintf("load-%d", time.Now().UnixNano())}
	durable := true
	_, err := server.create(ctx, name, definitionDocument{Durable: &durable, Shards: &p.Logs, Fsync: config.FsyncMode.String()})
	if err != nil {
		return nil, err
	}
	remove := func(ctx context.Context) error {
		return server.json(ctx, request{method: http.MethodDelete, path: streamPath(name)}, nil)
	}
	return &bench.System{
		Backend: throughServer, Reason: "the server has chosen its own", Fsync: config.FsyncMode.String(), Logs: p.Logs,
		Target: serverTarget(server, name, p.Logs),
		Close:  func(context.Context) error { return nil },
		ReadBack: func(context.Context) (bench.ReadBack, func(context.Context) error, error) {
			return readServerStream(server, name), func(context.Context) error { return nil }, nil
		},
		Remove: remove,
	}, nil
}

func serverTarget(server *client, name broker.StreamName, shards int) bench.Target {
	return func(worker int) bench.Publisher {
		query := url.Values{"shard": {strconv.Itoa(worker % shards)}}
		return func(ctx context.Context, payloads [][]byte) (uint64, error) {
			media, body := "application/octet-stream", payloads[0]
			if len(payloads) > 1 {
				var err error
				media = "application/x-ndjson"
				if body, err = encodeLines(nil, payloads); err != nil {
					return 0, err
				}
			}
			got, err := server.publish(ctx, name, query, media, body)
			return got.FirstOffset, err
		}
	}
}

// readServerStream reads over HTTP: the server is not opened again.
func readServerStream(server *client, name broker.StreamName) bench.ReadBack {
	return func(ctx context.Context, log int, from uint64) ([]bench.Stored, uint64, error) {
		records, err := server.read(ctx, request{
			method: http.MethodGet, path: streamPath(name, "records"),
			query: url.Values{"shard": {strconv.Itoa(log)}, "from": {strconv.FormatUint(from, 10)}},
		})
		if err != nil || len(records) == 0 {
			return nil, from, err
		}
		page := make([]bench.Stored, len(records))
		for i, r := range records {
			page[i] = bench.Stored{Offset: r.Offset, Payload: r.payload()}
		}
		return page, page[len(page)-1].Offset + 1, nil
	}
}

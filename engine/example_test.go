package engine_test

import (
	"context"
	"fmt"
	"os"

	"felix.local/felix/engine"
)

func check(err error) {
	if err != nil {
		panic(err)
	}
}

func must[T any](value T, err error) T {
	check(err)
	return value
}

// The lines between the two markers are those of README.md; a test compares them.
func Example() {
	dir := must(os.MkdirTemp("", "felix-example-"))
	defer os.RemoveAll(dir)

	// README begins
	ctx, config := context.Background(), engine.DefaultConfig()
	config.FsyncMode = engine.FsyncOnCommit // an acknowledgement means: on the device
	store := must(engine.OpenStore(ctx, dir, config))
	log := must(store.OpenLog(ctx, engine.ShardKey{Tenant: "t1", Namespace: "default", Stream: "orders"}))
	result := must(log.Append(ctx, engine.Record{Payload: []byte("order-0001")}, engine.Record{Payload: []byte("order-0002")}))
	records := must(log.ReadRange(ctx, result.First, 1<<20))
	for _, record := range records {
		fmt.Printf("%d: %s\n", record.Offset, record.Payload)
	}
	check(store.Close(ctx))
	// README ends

	// Output:
	// 0: order-0001
	// 1: order-0002
}

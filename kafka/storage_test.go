package kafka

import (
	"context"
	"errors"
	"io/fs"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"felix.local/felix/broker"
	"felix.local/felix/device"
	"felix.local/felix/engine"
	"felix.local/felix/fallback"
	"felix.local/felix/internal/faultdisk"
)

// faulty is a server over a disk that a test can make fail.
func faulty(t *testing.T, change ...func(*Config, *broker.Config)) (*rig, *faultdisk.Disk) {
	t.Helper()
	disk := faultdisk.New(device.OS(), fallback.Open(fallback.Options{}), faultdisk.Options{})
	t.Cleanup(func() {
		if err := disk.Queue().Close(); err != nil {
			t.Error(err)
		}
	})
	r := start(t, append(change, func(_ *Config, b *broker.Config) {
		b.Engine.FS, b.Engine.Queue, b.Engine.FsyncMode = disk.FS(), disk.Queue(), engine.FsyncOnCommit
		b.Engine.MinFreeBytes, b.Engine.MinFreeInodes = 0, 0
	})...)
	return r, disk
}

func isLog(path string) bool { return strings.HasSuffix(path, ".log") }

// value is a batch of one record.
func value(s string) []byte {
	return encode([]broker.Record{{Message: broker.Message{Value: []byte(s)}}})
}

func TestAFullDiskIsRetriedUntilThereIsRoom(t *testing.T) {
	r, disk := faulty(t)
	r.create("full", 1, nil)
	full := disk.Inject(faultdisk.Fault{Kinds: faultdisk.Writes, Path: isLog, Errno: syscall.ENOSPC, Times: 3})
	r.produce(r.client(), &kgo.Record{Topic: "full", Value: []byte("v")})
	if full.Hits() != 3 {
		t.Errorf("the disk was full %d times", full.Hits())
	}
	if got := r.consume(1, from("full", 0, kgo.NewOffset().AtStart())); got[0].Offset != 0 || string(got[0].Value) != "v" {
		t.Errorf("read %v", look(got))
	}
}

func TestAPoisonedShardIsReadToItsEndAndThenAStorageError(t *testing.T) {
	r, disk := faulty(t)
	r.create("sick", 1, nil)
	r.create("well", 1, nil)
	c := r.dial()
	c.ask(produceOf("sick", 0, value("kept")))
	disk.Inject(faultdisk.Fault{Kinds: faultdisk.Writes | faultdisk.Flush, Path: isLog, Errno: syscall.EIO})
	for range 2 {
		answer := c.ask(produceOf("sick", 0, value("lost"))).(*kmsg.ProduceResponse)
		if p := answer.Topics[0].Partitions[0]; code(p.ErrorCode) != codeKafkaStorageError || p.BaseOffset != -1 || !strings.Contains(*p.ErrorMessage, "poisoned") {
			t.Errorf("a produce gave %+v", p)
		}
	}
	if p := c.ask(fetchOf("sick", 0, 0)).(*kmsg.FetchResponse).Topics[0].Partitions[0]; p.ErrorCode != 0 || p.HighWatermark != 1 || len(p.RecordBatches) == 0 {
		t.Errorf("what was acknowledged reads as %+v", p)
	}
	waiting := fetchOf("sick", 0, 1)
	waiting.MinBytes, waiting.MaxWaitMillis = 1, 60_000
	if got := failureOf(c.ask(waiting)); got != codeKafkaStorageError {
		t.Errorf("a fetch at the end gave %d", got)
	}
	if got := failureOf(c.ask(produceOf("well", 0, value("v")))); got != codeNone {
		t.Errorf("another stream gave %d", got)
	}
}

func TestAShardThatWasRefusedIsAStorageErrorAndTheOthersServe(t *testing.T) {
	root := t.TempDir()
	fill := openBroker(t, root)
	stream, _, err := fill.CreateStream(t.Context(), broker.StreamName{Tenant: "default", Namespace: "default", Stream: "half"},
		broker.StreamConfig{Durable: true, Shards: 2, Format: broker.FormatKafka})
	if err != nil {
		t.Fatal(err)
	}
	for shard, text := range []string{"broken", "whole"} {
		if _, err := stream.Publish(t.Context(), broker.Explicit(shard), broker.Message{Value: []byte(text)}); err != nil {
			t.Fatal(err)
		}
	}
	if err := fill.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	breakRecords(t, root, "broken")

	b := openBroker(t, root)
	t.Cleanup(func() {
		if err := b.Close(context.Background()); err != nil {
			t.Error(err)
		}
	})
	c := serve(t, Config{Broker: b}, nil).dial()
	for _, request := range []kmsg.Request{produceOf("half", 0, value("v")), fetchOf("half", 0, 0)} {
		if got := failureOf(c.ask(request)); got != codeKafkaStorageError {
			t.Errorf("%s gave %d", kmsg.NameForKey(request.Key()), got)
		}
	}
	if got := failureOf(c.ask(fetchOf("half", 1, 0))); got != codeNone {
		t.Errorf("the other shard gave %d", got)
	}
}

func openBroker(t *testing.T, root string) *broker.Broker {
	t.Helper()
	c := engine.DefaultConfig()
	c.Logger = slog.New(slog.DiscardHandler)
	b, err := broker.Open(t.Context(), broker.Config{Root: root, Engine: c, Logger: c.Logger})
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// breakRecords flips a bit in the first record of the log that holds text, below
// what its mark says is on the device.
func breakRecords(t *testing.T, root, text string) {
	t.Helper()
	broken := 0
	err := filepath.WalkDir(root, func(path string, _ fs.DirEntry, err error) error {
		if err != nil || !isLog(path) {
			return err
		}
		b, err := os.ReadFile(path)
		if at := strings.Index(string(b), text); at >= 0 {
			broken++
			b[at]++
			return os.WriteFile(path, b, 0o600)
		}
		return err
	})
	if err != nil || broken != 1 {
		t.Fatalf("%d logs were broken: %v", broken, err)
	}
}

func TestShutdownAnswersWhatIsUnderWay(t *testing.T) {
	r, disk := faulty(t)
	r.create("slow", 1, nil)
	stalled := disk.Inject(faultdisk.Fault{Kinds: faultdisk.Writes, Path: isLog, Stall: true})
	defer stalled.Release()
	c, idle, waiting := r.dial(), r.dial(), r.dial()
	idle.ask(version(3, kmsg.NewPtrApiVersionsRequest()))
	request := produceOf("slow", 0, value("v"))
	c.send(request)
	<-stalled.Reached()
	fetch := fetchOf("slow", 0, 0)
	fetch.MinBytes, fetch.MaxWaitMillis = 1, 60_000
	waiting.send(fetch)
	r.until("the fetch was read", func() bool { return r.server.Stats().Requests["Fetch"] == 1 })

	done := make(chan error, 1)
	go func() { done <- r.server.Shutdown(r.ctx()) }()
	idle.ended("an idle connection")
	if got := waiting.receive(fetch, 1).(*kmsg.FetchResponse); len(got.Topics[0].Partitions[0].RecordBatches) != 0 {
		t.Error("a waiting fetch got records that are not on the device")
	}
	waiting.ended("a connection that waited")
	if _, err := net.Dial("tcp", r.addr); err == nil {
		t.Error("connections are still accepted")
	}
	select {
	case err := <-done:
		t.Fatalf("shutdown did not wait: %v", err)
	default:
	}
	stalled.Release()
	if got := failureOf(c.receive(request, 1)); got != codeNone {
		t.Errorf("the produce under way gave %d", got)
	}
	if err := <-done; err != nil {
		t.Error(err)
	}
}

func TestShutdownEndsWhenItsPatienceDoes(t *testing.T) {
	r, disk := faulty(t)
	r.create("stuck", 1, nil)
	stalled := disk.Inject(faultdisk.Fault{Kinds: faultdisk.Writes, Path: isLog, Stall: true})
	defer stalled.Release()
	c := r.dial()
	c.send(produceOf("stuck", 0, value("v")))
	<-stalled.Reached()
	ctx, cancel := context.WithTimeout(r.ctx(), 50*time.Millisecond)
	defer cancel()
	if err := r.server.Shutdown(ctx); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("shutdown gave %v", err)
	}
}

func TestAProduceThatTakesTooLongIsATimeout(t *testing.T) {
	r, disk := faulty(t)
	r.create("late", 1, nil)
	stalled := disk.Inject(faultdisk.Fault{Kinds: faultdisk.Writes, Path: isLog, Stall: true})
	defer stalled.Release()
	request := produceOf("late", 0, value("v"))
	request.TimeoutMillis = 500
	if got := failureOf(r.dial().ask(request)); got != codeRequestTimedOut {
		t.Errorf("gave %d", got)
	}
}

func TestOnePartitionDoesNotWaitForAnotherAndKeepsItsOrder(t *testing.T) {
	r, disk := faulty(t)
	r.create("two", 2, nil)
	stalled := disk.Inject(faultdisk.Fault{Kinds: faultdisk.Writes, Path: isLog, Stall: true})
	c := r.dial()
	first := produceOf("two", 0, value("0"))
	c.send(first)
	<-stalled.Reached()
	for _, s := range []string{"1", "2", "3"} {
		c.send(produceOf("two", 0, value(s)))
	}
	other := produceOf("two", 1, value("other"))
	c.send(other)
	watcher := fetchOf("two", 1, 0)
	watcher.MinBytes, watcher.MaxWaitMillis = 1, 20_000
	if p := r.dial().ask(watcher).(*kmsg.FetchResponse).Topics[0].Partitions[0]; p.HighWatermark != 1 {
		t.Errorf("the other partition's next offset is %d", p.HighWatermark)
	}
	stalled.Release()
	for i := range int32(4) {
		answer := c.receive(first, i+1).(*kmsg.ProduceResponse)
		if p := answer.Topics[0].Partitions[0]; p.ErrorCode != 0 || p.BaseOffset != int64(i) {
			t.Errorf("produce %d: %+v", i, p)
		}
	}
	c.receive(other, 5)
	for i, record := range r.consume(4, from("two", 0, kgo.NewOffset().AtStart())) {
		if string(record.Value) != string(rune('0'+i)) {
			t.Errorf("offset %d holds %q", i, record.Value)
		}
	}
}

package httpapi

import (
	"context"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"felix.local/felix/broker"
	"felix.local/felix/device"
	"felix.local/felix/engine"
	"felix.local/felix/fallback"
	"felix.local/felix/internal/faultdisk"
)

// onFaultyDisk is a durable broker whose disk fails as told. Closing it may fail.
func onFaultyDisk(t *testing.T) (*broker.Broker, *faultdisk.Disk) {
	t.Helper()
	disk := faultdisk.New(device.OS(), fallback.Open(fallback.Options{}), faultdisk.Options{})
	t.Cleanup(func() {
		if err := disk.Queue().Close(); err != nil {
			t.Error(err)
		}
	})
	config := engine.DefaultConfig()
	config.FsyncMode = engine.FsyncOnCommit
	config.Logger = quiet()
	config.FS, config.Queue = disk.FS(), disk.Queue()
	b, err := broker.Open(t.Context(), broker.Config{Root: t.TempDir(), Engine: config, Logger: quiet()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { t.Log("closing:", b.Close(context.Background())) })
	return b, disk
}

// ofLog says that a path belongs to a shard's records.
func ofLog(path string) bool { return strings.HasSuffix(path, ".log") }

func TestAPoisonedShardSaysSoAndTheOthersServe(t *testing.T) {
	b, disk := onFaultyDisk(t)
	f := start(t, b, Config{})
	f.stream(`{"shards":2}`)
	f.send("POST", orders+"/records?shard=0", "kept").want(http.StatusOK)
	e := f.subscribe("?shard=0&from=earliest")
	e.expect("subscribed")
	e.expect("record")
	disk.Inject(faultdisk.Fault{Kinds: faultdisk.WriteDsync | faultdisk.Flush, Errno: syscall.EIO, Path: ofLog})
	r := f.send("POST", orders+"/records?shard=0", "lost")
	refused := r.refused(http.StatusServiceUnavailable, codeUnavailable)
	if refused["state"] != "poisoned" || refused["shard"] != 0.0 || r.header.Get("Retry-After") == "" {
		t.Errorf("%v", refused)
	}
	if last := e.expect("error"); last.Error["code"] != codeUnavailable || last.Error["state"] != "poisoned" {
		t.Errorf("%+v", last)
	}
	e.expectEnd()
	if lines := f.send("GET", orders+"/records?shard=0", "").want(http.StatusOK).lines(); len(lines) != 1 || *lines[0].Text != "kept" {
		t.Errorf("%+v", lines)
	}
	f.send("POST", orders+"/records?shard=1", "others serve").want(http.StatusOK)
	var s streamJSON
	f.send("GET", orders, "").want(http.StatusOK).json(&s)
	if s.Unavailable != 1 || s.ShardList[0].State != "poisoned" || s.ShardList[0].Reason == nil || s.ShardList[1].State != "serving" {
		t.Errorf("%+v", s)
	}
}

func TestAFullDiskIsSaidAndTheNextPublishTriesAgain(t *testing.T) {
	b, disk := onFaultyDisk(t)
	f := start(t, b, Config{})
	f.stream("")
	disk.Inject(faultdisk.Fault{Kinds: faultdisk.Writes, Errno: syscall.ENOSPC, Path: ofLog})
	f.send("POST", orders+"/records", "x").refused(http.StatusInsufficientStorage, codeStorageFull)
	if p := f.publish("x"); p.First != 0 {
		t.Errorf("%+v", p)
	}
}

func TestAPublishWhoseDeviceHangsHasAnUnknownOutcome(t *testing.T) {
	b, disk := onFaultyDisk(t)
	f := start(t, b, Config{PublishTimeout: 300 * time.Millisecond})
	f.stream("")
	hung := disk.Inject(faultdisk.Fault{Kinds: faultdisk.WriteDsync | faultdisk.Flush, Stall: true, Path: ofLog})
	defer hung.Release()
	for _, query := range []string{"", "?timeout_ms=200", "?timeout_ms=100000000"} {
		unknown := f.send("POST", orders+"/records"+query, "kept").refused(http.StatusGatewayTimeout, "unknown_outcome")
		if unknown["first_offset"] != unknown["last_offset"] {
			t.Errorf("%v", unknown)
		}
	}
	if lines := f.send("GET", orders+"/records", "").lines(); len(lines) != 0 {
		t.Errorf("%+v", lines)
	}
	e := f.subscribe("?from=0")
	e.expect("subscribed")
	hung.Release()
	for range 3 {
		if l := e.expect("record"); *l.Text != "kept" {
			t.Errorf("%+v", l)
		}
	}
}

func TestAnAnswerThatTakesLongerThanAWriteMayIsStillWritten(t *testing.T) {
	b, disk := onFaultyDisk(t)
	f := start(t, b, Config{WriteTimeout: 500 * time.Millisecond})
	f.stream("")
	for _, request := range []string{"POST " + orders + "/records", "DELETE " + orders} {
		hung := disk.Inject(faultdisk.Fault{Kinds: faultdisk.WriteDsync | faultdisk.Flushes | faultdisk.Rename, Stall: true})
		go func() {
			<-hung.Reached()
			time.Sleep(600 * time.Millisecond) // past the deadline of a write
			hung.Release()
		}()
		method, path, _ := strings.Cut(request, " ")
		if r := f.send(method, path, ""); r.status/100 != 2 {
			t.Errorf("%s: %d %s", request, r.status, r.body)
		}
		if hung.Hits() == 0 {
			t.Errorf("%s: nothing was held up", request)
		}
	}
}

func TestADamagedShardSaysWhyAndTheOthersServe(t *testing.T) {
	root := t.TempDir()
	t.Run("before", func(t *testing.T) {
		f := start(t, durable(t, root), Config{})
		f.stream(`{"shards":2}`)
		f.send("POST", orders+"/records?shard=0", "x").want(http.StatusOK)
		f.send("POST", orders+"/records?shard=1", "kept").want(http.StatusOK)
	})
	segments, err := filepath.Glob(filepath.Join(root, "acme_shop_orders_0-*", "*.log"))
	if err != nil || len(segments) != 1 {
		t.Fatalf("%v, %v", segments, err)
	}
	file, err := os.OpenFile(segments[0], os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	if _, err := file.WriteAt([]byte("this is no header"), 0); err != nil {
		t.Fatal(err)
	}
	f := start(t, durable(t, root), Config{})
	for request, body := range map[string]string{"POST /records": "x", "GET /records": "", "GET /subscribe": ""} {
		method, path, _ := strings.Cut(request, " ")
		refused := f.send(method, orders+path+"?shard=0", body).refused(http.StatusServiceUnavailable, codeUnavailable)
		if refused["state"] != "refused" || refused["reason"] == "" {
			t.Errorf("%s: %v", request, refused)
		}
	}
	if lines := f.send("GET", orders+"/records?shard=1", "").want(http.StatusOK).lines(); len(lines) != 1 {
		t.Errorf("%+v", lines)
	}
	f.send("POST", orders+"/records?shard=1", "more").want(http.StatusOK)
	var page listJSON
	f.send("GET", "/v1/streams", "").want(http.StatusOK).json(&page)
	if len(page.Streams) != 1 || page.Streams[0].Unavailable != 1 {
		t.Errorf("%+v", page)
	}
}

func TestAStreamWhoseDefinitionIsUnreadableSaysWhy(t *testing.T) {
	root := t.TempDir()
	t.Run("before", func(t *testing.T) {
		f := start(t, durable(t, root), Config{})
		f.stream("")
		f.send("PUT", "/v1/streams/acme/shop/others", "").want(http.StatusCreated)
	})
	definitions, err := filepath.Glob(filepath.Join(root, broker.DefinitionsDir, "acme_shop_orders_*"))
	if err != nil || len(definitions) != 1 {
		t.Fatalf("%v, %v", definitions, err)
	}
	if err := os.WriteFile(definitions[0], []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	f := start(t, durable(t, root), Config{})
	var first, second listJSON
	f.send("GET", "/v1/streams?limit=1", "").want(http.StatusOK).json(&first)
	f.send("GET", "/v1/streams?limit=1&after="+first.After, "").want(http.StatusOK).json(&second)
	page := append(first.Streams, second.Streams...)
	if len(page) != 2 || (page[0].Error == nil) == (page[1].Error == nil) {
		t.Fatalf("%+v", page)
	}
	for _, s := range page {
		if s.Error != nil && (s.Durable != nil || s.Shards != nil) || s.Error == nil && s.Stream != "others" {
			t.Errorf("%+v", s)
		}
	}
	f.send("POST", "/v1/streams/acme/shop/others/records", "x").want(http.StatusOK)
	f.send("POST", orders+"/records", "x").want(http.StatusServiceUnavailable)
}

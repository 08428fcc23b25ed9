package main

import (
	"bytes"
	"strings"
	"testing"
)

func TestAPublishWithANumberIsStoredOnce(t *testing.T) {
	s := runServer(t, serveFlags(t))
	must(t, s, "streams", "create", "t1/default/orders", "--shards", "2")
	publish := []string{"publish", "t1/default/orders", "a", "b", "--shard", "1", "--producer-id", "7", "--sequence", "0"}
	if out := must(t, s, publish...); !strings.Contains(out, `"shard":1,"first_offset":0,"last_offset":1}`) {
		t.Errorf("the first says %s", out)
	}
	if out := must(t, s, publish...); !strings.Contains(out, `"first_offset":0,"last_offset":1,"duplicate":true}`) {
		t.Errorf("the second says %s", out)
	}
	if text := (publishedEvent{Shard: 1, FirstOffset: 3, LastOffset: 4, Duplicate: true}).text(); text != "already in shard 1 at offsets 3 to 4" {
		t.Errorf("a duplicate reads %q", text)
	}
	code, _, stderr := felixd(t, s, "publish", "t1/default/orders", "x", "--shard", "1", "--producer-id", "7", "--sequence", "5")
	if code != exitFailure || !strings.Contains(stderr, "sequence_gap: ") || !strings.Contains(stderr, "HTTP 409") {
		t.Errorf("one too far: %d, %q", code, stderr)
	}
	if out := must(t, s, "streams", "show", "t1/default/orders"); !strings.Contains(out, `"shard":1,"state":"serving","base_offset":0,"next_offset":2`) {
		t.Errorf("shown %s", out)
	}
}

func TestANumberBelongsToOneRequest(t *testing.T) {
	for _, args := range [][]string{
		{"publish", "t1/default/orders", "x", "--producer-id", "7"},
		{"publish", "t1/default/orders", "x", "--sequence", "7"},
		{"publish", "t1/default/orders", "--producer-id", "7", "--sequence", "0"},
		{"publish", "t1/default/orders", "x", "--producer-id", "-7", "--sequence", "0"},
	} {
		var stdout, stderr bytes.Buffer
		if code := run(args, &stdout, &stderr); code != exitUsage || strings.Count(stderr.String(), "\n") != 1 {
			t.Errorf("felixd %v exits %d: %s", args, code, stderr.String())
		}
	}
}

package main

import (
	"strings"
	"testing"

	"felix.local/felix/engine"
)

func TestSegmentsAndConnectionsShareTheDescriptors(t *testing.T) {
	for name, c := range map[string]struct {
		limit           uint64
		root            string
		openFilesMax    int
		segments        int
		http, kafka     int // asked for
		httpGot, kafkaG int
	}{
		"plenty":                       {100_000, "x", 0, 100_000 - 128 - 14_000, 10_000, 4_000, 10_000, 4_000},
		"too few":                      {20_128, "x", 0, 10_000, 15_000, 5_000, 7_500, 2_500},
		"very few":                     {256, "x", 0, 64, 10_000, 4_000, 45, 19},
		"no limit":                     {^uint64(0), "x", 0, 1<<20 - 128 - 14_000, 10_000, 4_000, 10_000, 4_000},
		"segments say how many":        {20_128, "x", 15_000, 15_000, 10_000, 4_000, 3_571, 1_429},
		"segments say all of them":     {1_000, "x", 5_000, 5_000, 10_000, 4_000, 1, 1},
		"nothing is stored":            {10_128, "", 0, 0, 10_000, 10_000, 5_000, 5_000},
		"connections ask for very few": {10_128, "x", 0, 9_990, 5, 5, 5, 5},
	} {
		t.Run(name, func(t *testing.T) {
			var config serverConfig
			config.broker.Root, config.broker.Engine = c.root, engine.DefaultConfig()
			config.broker.Engine.OpenFilesMax = c.openFilesMax
			config.httpConnectionsMax, config.kafkaConnectionsMax = c.http, c.kafka
			if err := config.shareDescriptors(c.limit); err != nil {
				t.Fatal(err)
			}
			if got := config.broker.Engine.OpenFilesMax; got != c.segments {
				t.Errorf("%d for segments, want %d", got, c.segments)
			}
			if config.httpConnectionsMax != c.httpGot || config.kafkaConnectionsMax != c.kafkaG {
				t.Errorf("%d and %d for connections, want %d and %d", config.httpConnectionsMax, config.kafkaConnectionsMax, c.httpGot, c.kafkaG)
			}
			if err := config.broker.Engine.Validate(); err != nil {
				t.Error(err)
			}
		})
	}
}

func TestTheAdminListenersDescriptorsAreKeptApart(t *testing.T) {
	config, err := settings(t, "--dir", "x", "--admin-connections-max", "100", "--http-connections-max", "50", "--kafka-connections-max", "50")
	if err != nil {
		t.Fatal(err)
	}
	off := config
	off.adminAddr = ""
	if err := config.shareDescriptors(1000); err != nil || config.broker.Engine.OpenFilesMax != 1000-128-100-100 {
		t.Errorf("%d for segments: %v", config.broker.Engine.OpenFilesMax, err)
	}
	if err := off.shareDescriptors(1000); err != nil || off.broker.Engine.OpenFilesMax != 1000-128-100 {
		t.Errorf("without the listener %d for segments: %v", off.broker.Engine.OpenFilesMax, err)
	}
}

func TestALimitOnOpenFilesThatIsTooLowIsNamed(t *testing.T) {
	config, err := settings(t, "--dir", "x")
	if err != nil {
		t.Fatal(err)
	}
	enough := config
	if err := config.shareDescriptors(64); exitCode(err) != exitUsage || !strings.Contains(err.Error(), "the limit on open files is 64; at least 256 are needed; raise it with ulimit -n or LimitNOFILE=") {
		t.Errorf("got %v", err)
	}
	if err := enough.shareDescriptors(256); err != nil {
		t.Error(err)
	}
	if err := enough.broker.Engine.Validate(); err != nil {
		t.Errorf("with the fewest: %v", err)
	}
}

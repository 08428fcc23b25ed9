package main

import (
	"bytes"
	"os"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// host is what the numbers were measured on, and with.
type host struct {
	Time     string   `json:"time"`
	Kernel   string   `json:"kernel"`
	Go       string   `json:"go"`
	CPUs     int      `json:"cpus"`
	Load     string   `json:"load_average"`
	Versions []string `json:"versions"`
}

// compared are the modules whose versions are part of a result.
func compared() []string {
	return []string{
		"github.com/cockroachdb/pebble/v2", "go.etcd.io/etcd/server/v3", "github.com/hashicorp/raft-wal", "github.com/tidwall/wal",
		"go.etcd.io/bbolt", "github.com/dgraph-io/badger/v4", "github.com/nats-io/nats-server/v2", "github.com/nats-io/nats.go",
	}
}

// thisHost asks the system, as far as it answers.
func thisHost() host {
	h := host{Time: time.Now().UTC().Format(time.RFC3339), Go: runtime.Version(), CPUs: runtime.GOMAXPROCS(0)}
	var name unix.Utsname
	if unix.Uname(&name) == nil {
		h.Kernel = string(bytes.TrimRight(name.Release[:], "\x00"))
	}
	if load, err := os.ReadFile("/proc/loadavg"); err == nil {
		h.Load = strings.TrimSpace(string(load))
	}
	if info, ok := debug.ReadBuildInfo(); ok {
		for _, module := range info.Deps {
			if slices.Contains(compared(), module.Path) {
				h.Versions = append(h.Versions, module.Path+"@"+module.Version)
			}
		}
	}
	return h
}

package main

import (
	"fmt"
	"strings"
)

// openingEvent says that the streams of a directory are being opened, before that has
// taken any time.
type openingEvent struct {
	Dir string `json:"dir"`
	// Default says that nobody named the directory.
	Default bool   `json:"default"`
	Fsync   string `json:"fsync"`
}

func (openingEvent) kind() string { return "opening" }

func (e openingEvent) text() string {
	return "opening    the streams in " + e.Dir + "; after a crash this may take a while"
}

// storageEvent says where streams are stored and how.
type storageEvent struct {
	// Dir is empty when nothing is stored.
	Dir string `json:"dir"`
	// Default says that nobody named the directory.
	Default bool   `json:"default"`
	Fsync   string `json:"fsync"`
	Backend string `json:"backend"`
	Reason  string `json:"reason"`
	// Remedy says what to change to get the ring, or all of it; empty when nothing is
	// amiss.
	Remedy string `json:"remedy,omitempty"`
	// Journal is the state of the commit journal, JournalReason why there is none.
	Journal       string `json:"commit_journal"`
	JournalReason string `json:"commit_journal_reason"`
}

func (storageEvent) kind() string { return "storage" }

func (e storageEvent) text() string {
	if e.Dir == "" {
		return "storage    none: durable streams are refused, the others end with this process"
	}
	s := fmt.Sprintf("storage    %s, fsync %s, backend %s", e.Dir, e.Fsync, e.Backend)
	if e.Reason != "" {
		s += " (" + e.Reason + ")"
	}
	s += ", commit journal " + e.Journal
	if e.JournalReason != "" {
		s += " (" + e.JournalReason + ")"
	}
	if e.Remedy != "" {
		s += "\n           to have io_uring: " + e.Remedy
	}
	if e.Default {
		s += "\n           nobody named a directory, so this is the default one; --dir or FELIX_DURABLE_STORAGE_DIR names another"
	}
	return s
}

// streamsEvent counts what was opened.
type streamsEvent struct {
	Streams     int `json:"streams"`
	Durable     int `json:"durable"`
	Shards      int `json:"shards"`
	Unavailable int `json:"unavailable"`
}

func (streamsEvent) kind() string { return "streams" }

func (e streamsEvent) text() string {
	return fmt.Sprintf("streams    %d, %d of them durable, with %d shards; %d do not serve", e.Streams, e.Durable, e.Shards, e.Unavailable)
}

// unavailableEvent is a shard, or with shard -1 a whole stream, that does not serve.
type unavailableEvent struct{ unavailableReport }

func (unavailableEvent) kind() string { return "unavailable" }

func (e unavailableEvent) text() string {
	what := e.Stream
	if e.Shard >= 0 {
		what = fmt.Sprintf("%s, shard %d", e.Stream, e.Shard)
	}
	return fmt.Sprintf("%-10s %s: %s", e.State, what, e.Reason)
}

// listeningEvent is one address that is served.
type listeningEvent struct {
	What string `json:"what"`
	Addr string `json:"addr"`
	TLS  bool   `json:"tls"`
	// Auth is "none", "credentials", "certificate", or both with a plus between.
	Auth string `json:"auth"`
}

func (listeningEvent) kind() string { return "listening" }

func (e listeningEvent) text() string {
	s := fmt.Sprintf("%-10s %s", e.What, e.Addr)
	if e.What != "kafka" {
		scheme := "http"
		if e.TLS {
			scheme = "https"
		}
		s = fmt.Sprintf("%-10s %s://%s", e.What, scheme, e.Addr)
	}
	if e.TLS {
		s += ", TLS"
	}
	if e.Auth != "none" {
		s += ", authenticated by " + strings.ReplaceAll(e.Auth, "+", " and ")
	}
	return s
}

// readyEvent says that everything serves; the addresses are those bound, "" for a
// listener that is off.
type readyEvent struct {
	HTTP  string `json:"http"`
	Kafka string `json:"kafka"`
	Admin string `json:"admin"`
}

func (readyEvent) kind() string { return "ready" }

func (readyEvent) text() string { return "ready" }

// reloadedEvent answers SIGHUP.
type reloadedEvent struct {
	OK bool `json:"ok"`
	// File is the credentials file, "" when there is none and nothing was to be read,
	// and Principals are how many it has, those in effect.
	File       string `json:"file"`
	Principals int    `json:"principals"`
	Problem    string `json:"problem,omitempty"`
}

func (reloadedEvent) kind() string { return "reloaded" }

func (e reloadedEvent) text() string {
	switch {
	case e.File == "":
		return "reloaded   nothing, since no credentials file is set; certificates are read again when their files change"
	case e.OK:
		return fmt.Sprintf("reloaded   %s, with %d principals; certificates are read again when their files change", e.File, e.Principals)
	default:
		return fmt.Sprintf("reloaded   nothing, the %d principals known before go on to apply: %s", e.Principals, e.Problem)
	}
}

// stoppingEvent says that an orderly end has begun.
type stoppingEvent struct {
	Reason         string `json:"reason"`
	TimeoutSeconds int    `json:"timeout_seconds"`
}

func (stoppingEvent) kind() string { return "stopping" }

func (e stoppingEvent) text() string {
	return fmt.Sprintf("stopping   %s; waiting up to %d s for what is under way; a second signal ends it at once", e.Reason, e.TimeoutSeconds)
}

// stoppedEvent says what the end left.
type stoppedEvent struct {
	OK bool `json:"ok"`
	// UnsyncedBytes were acknowledged under periodic or none and could not be
	// brought to the device.
	UnsyncedBytes int64 `json:"unsynced_bytes"`
	// Poisoned are the shards that had stopped accepting records.
	Poisoned []string `json:"poisoned"`
	Problem  string   `json:"problem,omitempty"`
}

func (stoppedEvent) kind() string { return "stopped" }

func (e stoppedEvent) text() string {
	if e.OK {
		return "stopped    everything acknowledged is where its mode promises"
	}
	s := fmt.Sprintf("stopped    with %d bytes not synced", e.UnsyncedBytes)
	if len(e.Poisoned) > 0 {
		s += "; poisoned: " + strings.Join(e.Poisoned, ", ")
	}
	if e.Problem != "" {
		s += "; " + e.Problem
	}
	return s
}

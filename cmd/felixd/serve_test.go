package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"felix.local/felix/broker"
	"felix.local/felix/engine"
)

func TestWithoutADirectoryTheDefaultOneIsUsedOnCommitAndSaid(t *testing.T) {
	t.Chdir(t.TempDir())
	s := runServer(t, []string{"--http-addr", "127.0.0.1:0", "--kafka-addr", "off", "--admin-addr", "off"})
	var e storageEvent
	if err := json.Unmarshal([]byte(eventLine(t, said(s), "storage")), &e); err != nil {
		t.Fatal(err)
	}
	dir, err := filepath.Abs("felix-data")
	if err != nil {
		t.Fatal(err)
	}
	if e.Dir != dir || !e.Default || e.Fsync != "on_commit" {
		t.Errorf("said %+v", e)
	}
	if text := e.text(); !strings.Contains(text, dir) || !strings.Contains(text, "--dir or FELIX_DURABLE_STORAGE_DIR") {
		t.Errorf("%q says neither what is used nor what to change", text)
	}
	if _, err := os.Stat(filepath.Join(dir, ".felixd")); err != nil {
		t.Error(err)
	}
}

func TestTheFsyncModeFollowsTheDirectory(t *testing.T) {
	for name, c := range map[string]struct {
		flags    []string
		variable string
		want     string
	}{
		"nothing given":                    {nil, "", "on_commit"},
		"nothing given but the mode":       {nil, "none", "none"},
		"nothing given but an interval":    {[]string{"--fsync-interval-ms", "9"}, "", "periodic:9ms"},
		"a directory":                      {[]string{"--dir", "x"}, "", "periodic:250ms"},
		"a directory and a mode":           {[]string{"--dir", "x", "--fsync", "on_commit"}, "", "on_commit"},
		"a directory, and the mode by env": {[]string{"--dir", "x"}, "on-commit", "on_commit"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Chdir(t.TempDir())
			t.Setenv("FELIX_DURABLE_FSYNC_MODE", c.variable)
			if c.variable == "" {
				os.Unsetenv("FELIX_DURABLE_FSYNC_MODE")
			}
			config, err := settings(t, c.flags...)
			if err != nil {
				t.Fatal(err)
			}
			if got := config.broker.Engine.Fsync(); got != c.want {
				t.Errorf("got %s, want %s", got, c.want)
			}
			if config.defaultDir != (len(c.flags) == 0 || c.flags[0] != "--dir") {
				t.Errorf("default directory: %v", config.defaultDir)
			}
		})
	}
}

func TestTheHelpOfServeShowsBothDefaultsOfTheFsyncMode(t *testing.T) {
	var stdout, stderr bytes.Buffer
	if code := run([]string{"serve", "--help"}, &stdout, &stderr); code != exitOK {
		t.Fatal(stderr.String())
	}
	words := strings.Join(strings.Fields(stdout.String()), " ")
	for _, want := range []string{"[default periodic; on_commit without --dir]", "without it ./felix-data is the default, with fsync on_commit"} {
		if !strings.Contains(words, want) {
			t.Errorf("%q is not in the help", want)
		}
	}
}

func TestInMemoryAndADirectoryExcludeEachOther(t *testing.T) {
	for name, variable := range map[string]string{"flag": "", "variable": t.TempDir()} {
		t.Run(name, func(t *testing.T) {
			flags := []string{"--in-memory"}
			if variable != "" {
				t.Setenv(engine.RootVariable, variable)
			} else {
				flags = append(flags, "--dir", t.TempDir())
			}
			_, err := settings(t, flags...)
			if exitCode(err) != exitUsage || !strings.Contains(err.Error(), "--in-memory") || !strings.Contains(err.Error(), engine.RootVariable) {
				t.Errorf("got %v", err)
			}
		})
	}
}

func TestInMemoryRefusesDurableStreamsAndServesOthers(t *testing.T) {
	t.Chdir(t.TempDir())
	s := runServer(t, []string{"--in-memory", "--http-addr", "127.0.0.1:0", "--kafka-addr", "off", "--admin-addr", "127.0.0.1:0"})
	c := clientOf(t, s)
	_, err := c.create(t.Context(), stream("orders"), definitionDocument{Durable: new(true), Shards: new(1), Format: "raw"})
	var refused *serverError
	if !errors.As(err, &refused) || refused.Code != "no_storage" || refused.Action == "" {
		t.Errorf("a durable stream: %v", err)
	}
	if _, err := c.create(t.Context(), stream("telemetry"), definitionDocument{Durable: new(false), Shards: new(1), Format: "raw"}); err != nil {
		t.Fatal(err)
	}
	publishText(t, c, stream("telemetry"), "t", 0)
	if status, body := get(t, s.admin, "/ready"); status != 200 {
		t.Errorf("/ready answers %d: %s", status, body)
	}
	if entries, err := os.ReadDir("."); err != nil || len(entries) > 0 {
		t.Errorf("left %v: %v", entries, err)
	}
}

func TestAllThatIsWrongIsSaidAtOnce(t *testing.T) {
	var stdout, stderr bytes.Buffer
	dir := filepath.Join(t.TempDir(), "data")
	code := run([]string{
		"serve", "--dir", dir, "--in-memory", "--http-addr", "localhost", "--kafka-addr", "127.0.0.1:70000", "--kafka-advertised-addr", "broker:0",
		"--kafka-auto-create=perhaps", "--default-tenant", "a/b", "--ring-records", "none", "--shutdown-timeout-seconds", "soon",
		"--segment-bytes", "12", "--fsync", "sometimes", "--tls-key-file", "key.pem", "--tls-client-ca-file", "ca.pem", "--insecure=yes",
	}, &stdout, &stderr)
	if code != exitUsage || stdout.Len() > 0 || strings.Count(stderr.String(), "\n") != 1 {
		t.Errorf("exit code %d, standard output %q, standard error %q", code, stdout.String(), stderr.String())
	}
	for _, part := range []string{
		"--in-memory", "--http-addr", "--kafka-addr", "--kafka-advertised-addr", "--kafka-auto-create", "--default-tenant",
		"--ring-records", "--shutdown-timeout-seconds", "--segment-bytes", "--fsync", "FELIX_TLS_CERT_FILE", "--tls-client-ca-file",
	} {
		if !strings.Contains(stderr.String(), part) {
			t.Errorf("%s is not named in %q", part, stderr.String())
		}
	}
	if strings.Contains(stderr.String(), "both are off") {
		t.Errorf("addresses that cannot be read pass for switched off: %q", stderr.String())
	}
	if _, err := os.Stat(dir); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("something was made: %v", err)
	}
}

func TestSettingsThatContradictEachOtherAreRefused(t *testing.T) {
	for name, flags := range map[string][]string{
		"both are off":                {"--http-addr", "off", "--kafka-addr", "OFF"},
		"is the address of":           {"--http-addr", "127.0.0.1:9092"},
		"is more than FELIX_RING":     {"--ring-records", "10", "--subscriber-queue-capacity", "11"},
		"one is set without":          {"--tls-cert-file", "cert.pem"},
		"FELIX_TLS_CLIENT_CA_FILE: n": {"--tls-client-ca-file", "ca.pem"},
	} {
		if _, err := settings(t, append(flags, "--dir", "x")...); exitCode(err) != exitUsage || !strings.Contains(err.Error(), name) {
			t.Errorf("%v: got %v", flags, err)
		}
	}
	// A queue that nobody asked for gives way to a small ring.
	config, err := settings(t, "--ring-records", "10", "--dir", "x")
	if err != nil || config.broker.SubscriberQueue != 10 {
		t.Errorf("queue %d: %v", config.broker.SubscriberQueue, err)
	}
}

func TestTheMemoryOfInMemoryStreamsIsASetting(t *testing.T) {
	for want, flags := range map[int64][]string{broker.DefaultMemoryBytesTotal: nil, 123_456: {"--memory-bytes-total", "123456"}} {
		if config, err := settings(t, append(flags, "--in-memory")...); err != nil || config.broker.MemoryBytesTotal != want {
			t.Errorf("%v gives %d: %v", flags, config.broker.MemoryBytesTotal, err)
		}
	}
}

func TestAListenerThatOthersReachNeedsAuthentication(t *testing.T) {
	for _, what := range []string{"http", "kafka", "admin"} {
		t.Run(what, func(t *testing.T) {
			flags := serveFlags(t, "--"+what+"-addr", "0.0.0.0:0")
			var stdout, stderr bytes.Buffer
			if code := run(append([]string{"serve", "--json"}, flags...), &stdout, &stderr); code != exitUsage {
				t.Errorf("exit code %d", code)
			}
			if text := stderr.String(); !strings.Contains(text, what) || !strings.Contains(text, "0.0.0.0:0") || !strings.Contains(text, "insecure") {
				t.Errorf("%q says neither which nor what to do", text)
			}
			runServer(t, append(flags, "--insecure"))
		})
	}
}

func TestATakenPortIsSaidBeforeAnythingIsOpened(t *testing.T) {
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	flags := serveFlags(t, "--kafka-addr", taken.Addr().String())
	var stdout, stderr bytes.Buffer
	if code := run(append([]string{"serve", "--json"}, flags...), &stdout, &stderr); code != exitFailure {
		t.Errorf("exit code %d", code)
	}
	if text := stderr.String(); !strings.Contains(text, "--kafka-addr") || !strings.Contains(text, taken.Addr().String()) {
		t.Errorf("%q does not say which", text)
	}
	if entries, err := os.ReadDir(flags[slices.Index(flags, "--dir")+1]); err != nil || len(entries) > 0 {
		t.Errorf("left %v: %v", entries, err)
	}
}

func TestADirectoryInUseIsRefusedWithItsOwnExitCode(t *testing.T) {
	flags := serveFlags(t)
	runServer(t, flags)
	var stdout, stderr bytes.Buffer
	if code := run(append([]string{"serve", "--json"}, flags...), &stdout, &stderr); code != exitLocked {
		t.Errorf("exit code %d: %s", code, stderr.String())
	}
}

func TestAListenerThatIsOffIsNotBound(t *testing.T) {
	s := runServer(t, serveFlags(t, "--kafka-addr", "off", "--admin-addr", "off"))
	if s.kafka != nil || s.admin != nil || s.http == nil {
		t.Errorf("kafka %v, admin %v, http %v", s.kafka, s.admin, s.http)
	}
	var e readyEvent
	if err := json.Unmarshal([]byte(eventLine(t, said(s), "ready")), &e); err != nil {
		t.Fatal(err)
	}
	if e.Kafka != "" || e.Admin != "" || e.HTTP != s.http.boundAddr() || strings.HasSuffix(e.HTTP, ":0") {
		t.Errorf("said %+v", e)
	}
}

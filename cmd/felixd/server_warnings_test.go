package main

import (
	"log/slog"
	"path/filepath"
	"strings"
	"testing"
)

// warned starts and stops a server and gives what it warned of.
func warned(t *testing.T, flags ...string) string {
	t.Helper()
	config, err := settings(t, append(serveFlags(t, "--fsync", "periodic"), flags...)...)
	if err != nil {
		t.Fatal(err)
	}
	config.broker.Logger = slog.New(slog.DiscardHandler)
	config.broker.Engine.Logger = config.broker.Logger
	var warnings safeBuffer
	s := newServer(config, &output{w: new(safeBuffer), json: true}, &warnings, config.broker.Logger)
	if err := s.start(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := s.stop("the test ends"); err != nil {
		t.Error(err)
	}
	return warnings.String()
}

func TestSettingsThatAreSeldomMeantAreWarnedAbout(t *testing.T) {
	path := filepath.Join(t.TempDir(), "credentials")
	credentialsFile(t, path, map[string]string{"a": "read:*"})
	certFile, keyFile := certificate(t)
	encrypted := []string{"--tls-cert-file", certFile, "--tls-key-file", keyFile}
	for name, c := range map[string]struct {
		flags []string
		want  string
	}{
		"nothing":                  {nil, ""},
		"a mode that nobody chose": {[]string{"--fsync", ""}, "nobody chose the fsync mode, and it is periodic:250ms"},
		"an interval alone":        {[]string{"--fsync", "", "--fsync-interval-ms", "50"}, ""},
		"credentials on loopback":  {[]string{"--credentials-file", path}, ""},
		"credentials in the clear": {[]string{"--credentials-file", path, "--http-addr", "0.0.0.0:0"}, "FELIX_TLS_CERT_FILE"},
		"TLS":                      {encrypted, "FELIX_KAFKA_ADVERTISED_ADDR is not set"},
		"TLS without Kafka":        {append(encrypted, "--kafka-addr", "off"), ""},
		"TLS with a name":          {append(encrypted, "--kafka-advertised-addr", "felix.example:9092", "--credentials-file", path, "--http-addr", "0.0.0.0:0"), ""},
	} {
		t.Run(name, func(t *testing.T) {
			got := warned(t, c.flags...)
			if c.want == "" && got != "" || !strings.Contains(got, c.want) || c.want != "" && strings.Count(got, "felixd: warning: ") != 1 {
				t.Errorf("warned %q, want %q", got, c.want)
			}
		})
	}
}

func TestAModeIsUnchosenOnlyWhereItLosesAcknowledgedRecords(t *testing.T) {
	for _, flags := range [][]string{{}, {"--in-memory"}, {"--dir", "x", "--fsync", "none"}} {
		config, err := settings(t, flags...)
		if err != nil {
			t.Fatal(err)
		}
		if config.fsyncUnchosen {
			t.Errorf("serve %v would warn", flags)
		}
	}
}

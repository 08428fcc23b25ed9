package engine

import (
	"errors"
	"io/fs"
	"math/big"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestDefaultsAreValidAndMatchTheDocumentedTexts(t *testing.T) {
	if err := DefaultConfig().Validate(); err != nil {
		t.Fatal(err)
	}
	written := make(map[string]string)
	for _, v := range Variables() {
		written[v.Name] = v.Default
	}
	parsed, err := ParseConfig(written)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(DefaultConfig(), parsed); diff != "" {
		t.Errorf("parsing every documented default gives another configuration (-default +parsed):\n%s", diff)
	}
}

func TestZeroConfigIsRefused(t *testing.T) {
	if err := (Config{}).Validate(); err == nil {
		t.Fatal("a zero Config was accepted")
	}
}

func TestSettingsAreRead(t *testing.T) {
	for name, test := range map[string]struct {
		settings map[string]string
		want     func(*Config)
	}{
		"blank counts as unset": {
			map[string]string{"FELIX_DURABLE_SEGMENT_BYTES": "  ", "FELIX_STORAGE_IO_URING": ""}, func(*Config) {},
		},
		"off is another name of none": {
			map[string]string{"FELIX_DURABLE_FSYNC_MODE": "off"}, func(c *Config) { c.FsyncMode = FsyncNone },
		},
		"commit is another name of on_commit": {
			map[string]string{"FELIX_DURABLE_FSYNC_MODE": "commit"}, func(c *Config) { c.FsyncMode = FsyncOnCommit },
		},
		"on-commit is another name of on_commit": {
			map[string]string{"FELIX_DURABLE_FSYNC_MODE": "on-commit"}, func(c *Config) { c.FsyncMode = FsyncOnCommit },
		},
		"an interval alone means periodic": {
			map[string]string{"FELIX_DURABLE_FSYNC_INTERVAL_MS": "7"},
			func(c *Config) { c.FsyncMode, c.FsyncInterval = FsyncPeriodic, 7*time.Millisecond },
		},
		"an interval beside a mode does not change the mode": {
			map[string]string{"FELIX_DURABLE_FSYNC_INTERVAL_MS": "7", "FELIX_DURABLE_FSYNC_MODE": "on_commit"},
			func(c *Config) { c.FsyncMode, c.FsyncInterval = FsyncOnCommit, 7*time.Millisecond },
		},
		"io_uring true": {map[string]string{"FELIX_STORAGE_IO_URING": "true"}, func(c *Config) { c.IOURing = IOURingAuto }},
		"io_uring 0":    {map[string]string{"FELIX_STORAGE_IO_URING": "0"}, func(c *Config) { c.IOURing = IOURingOff }},
		"io_uring require": {
			map[string]string{"FELIX_STORAGE_IO_URING": "require"}, func(c *Config) { c.IOURing = IOURingRequire },
		},
		"a guard may be turned off": {
			map[string]string{"FELIX_DURABLE_MIN_FREE_BYTES": "0"}, func(c *Config) { c.MinFreeBytes = 0 },
		},
		"retention": {
			map[string]string{"FELIX_DURABLE_RETENTION_BYTES": "1", "FELIX_DURABLE_RETENTION_SECONDS": "90"},
			func(c *Config) { c.RetentionBytes, c.RetentionAge = 1, 90*time.Second },
		},
		"modes are octal": {
			map[string]string{"FELIX_DURABLE_FILE_MODE": "600", "FELIX_DURABLE_DIR_MODE": "0o700"},
			func(c *Config) { c.FileMode, c.DirMode = fs.FileMode(0o600), fs.FileMode(0o700) },
		},
	} {
		t.Run(name, func(t *testing.T) {
			want := DefaultConfig()
			test.want(&want)
			got, err := ParseConfig(test.settings)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestEverySpellingOfABooleanIsRead(t *testing.T) {
	for _, on := range []string{"1", "true", "yes", "on", "TRUE", "On"} {
		if got, err := parseBool(on); err != nil || !got {
			t.Errorf("%q: %v, %v", on, got, err)
		}
	}
	for _, off := range []string{"0", "false", "no", "off", "False"} {
		if got, err := parseBool(off); err != nil || got {
			t.Errorf("%q: %v, %v", off, got, err)
		}
	}
	for _, neither := range []string{"2", "y", "enabled"} {
		if _, err := parseBool(neither); err == nil {
			t.Errorf("%q was read as a boolean", neither)
		}
	}
}

func TestAllInvalidValuesAreNamedAtOnce(t *testing.T) {
	invalid := map[string]string{
		"FELIX_DURABLE_FSYNC_MODE":                 "sometimes",
		"FELIX_DURABLE_FSYNC_INTERVAL_MS":          "0",
		"FELIX_DURABLE_SEGMENT_BYTES":              "59",
		"FELIX_DURABLE_INDEX_SPACING_BYTES":        "0",
		"FELIX_DURABLE_MAX_RECORDS_PER_READ":       "0",
		"FELIX_DURABLE_PREALLOCATE":                "maybe",
		"FELIX_DURABLE_ROLLOVER_THRESHOLD_PERCENT": "101",
		"FELIX_DURABLE_MAX_OVERSHOOT_PERCENT":      "-1",
		"FELIX_DURABLE_REPAIR_CHECKSUM_TAIL":       "2",
		"FELIX_DURABLE_VERIFY_ALL_ON_OPEN":         "2",
		"FELIX_DURABLE_SIDE_COPIES_KEPT":           "0",
		"FELIX_DURABLE_PRODUCER_DIGESTS":           "2",
		"FELIX_DURABLE_MARK_SYNC_INTERVAL_MS":      "-1",
		"FELIX_DURABLE_RETENTION_BYTES":            "0",
		"FELIX_DURABLE_RETENTION_SECONDS":          "0",
		"FELIX_DURABLE_RETENTION_INTERVAL_SECONDS": "9223372037", // more nanoseconds than int64 holds
		"FELIX_DURABLE_MIN_FREE_BYTES":             "-1",
		"FELIX_DURABLE_MIN_FREE_INODES":            "lots",
		"FELIX_DURABLE_OPEN_SEALED_MAX":            "0",
		"FELIX_DURABLE_OPEN_FILES_MAX":             "1",
		"FELIX_DURABLE_STAGED_BYTES_MAX":           "9223372036854775808", // 2^63
		"FELIX_DURABLE_STAGED_BYTES_PER_LOG_MAX":   "1e6",
		"FELIX_DURABLE_FILE_MODE":                  "0440",
		"FELIX_DURABLE_DIR_MODE":                   "01777",
		"FELIX_DURABLE_COMMIT_JOURNAL":             "maybe",
		"FELIX_DURABLE_COMMIT_JOURNAL_BYTES":       "4096",
		"FELIX_STORAGE_IO_URING":                   "maybe",
		"FELIX_STORAGE_RING_ENTRIES":               "0",
		"FELIX_STORAGE_RING_WORKERS_MAX":           "-1",
		"FELIX_STORAGE_POOL_WORKERS":               "1025",
	}
	for _, v := range Variables() {
		if _, covered := invalid[v.Name]; !covered && v.Name != RootVariable {
			t.Errorf("%s has no invalid value in this test", v.Name)
		}
	}
	_, err := ParseConfig(invalid)
	var refused *ConfigError
	if !errors.As(err, &refused) {
		t.Fatalf("got %v, want a *ConfigError", err)
	}
	for name := range invalid {
		named := 0
		for _, problem := range refused.Problems {
			if strings.HasPrefix(problem, name+":") || strings.HasPrefix(problem, name+" (") {
				named++
			}
		}
		if named != 1 {
			t.Errorf("%s is named %d times in:\n%s", name, named, strings.Join(refused.Problems, "\n"))
		}
	}
	if strings.Contains(err.Error(), "\n") {
		t.Error("the error takes more than one line")
	}
}

// A message once named the range of the number's type: whoever followed it was
// refused again.
func TestAMessageNamesTheRangeThatApplies(t *testing.T) {
	const whole = "9223372036854775807"
	ranges := map[string][2]string{
		"FELIX_DURABLE_FSYNC_INTERVAL_MS":          {"1", "9223372036854"},
		"FELIX_DURABLE_SEGMENT_BYTES":              {"60", "17592186044416"},
		"FELIX_DURABLE_INDEX_SPACING_BYTES":        {"1", "17592186044416"},
		"FELIX_DURABLE_MAX_RECORDS_PER_READ":       {"1", whole},
		"FELIX_DURABLE_ROLLOVER_THRESHOLD_PERCENT": {"1", "100"},
		"FELIX_DURABLE_MAX_OVERSHOOT_PERCENT":      {"0", "1000"},
		"FELIX_DURABLE_SIDE_COPIES_KEPT":           {"1", "1000"},
		"FELIX_DURABLE_MARK_SYNC_INTERVAL_MS":      {"0", "9223372036854"},
		"FELIX_DURABLE_RETENTION_BYTES":            {"1", whole},
		"FELIX_DURABLE_RETENTION_SECONDS":          {"1", "9223372036"},
		"FELIX_DURABLE_RETENTION_INTERVAL_SECONDS": {"0", "9223372036"},
		"FELIX_DURABLE_MIN_FREE_BYTES":             {"0", whole},
		"FELIX_DURABLE_MIN_FREE_INODES":            {"0", whole},
		"FELIX_DURABLE_OPEN_SEALED_MAX":            {"1", whole},
		"FELIX_DURABLE_OPEN_FILES_MAX":             {"16", whole},
		"FELIX_DURABLE_STAGED_BYTES_MAX":           {"1", whole},
		"FELIX_DURABLE_STAGED_BYTES_PER_LOG_MAX":   {"1", whole},
		"FELIX_DURABLE_COMMIT_JOURNAL_BYTES":       {"262144", "68719476736"},
		"FELIX_STORAGE_RING_ENTRIES":               {"2", "4096"},
		"FELIX_STORAGE_RING_WORKERS_MAX":           {"1", "1024"},
		"FELIX_STORAGE_POOL_WORKERS":               {"1", "1024"},
	}
	fields := bounds()
	for _, v := range Variables() {
		if _, numeric := fields[v.field]; numeric {
			if _, listed := ranges[v.Name]; !listed {
				t.Errorf("%s is not in this test", v.Name)
			}
		}
	}
	if len(fields) != len(ranges) {
		t.Errorf("%d fields have bounds, %d variables are listed here", len(fields), len(ranges))
	}
	for name, r := range ranges {
		allowed := "must be between " + r[0] + " and " + r[1]
		if name == "FELIX_DURABLE_OPEN_FILES_MAX" {
			allowed = "must be 0 or between " + r[0] + " and " + r[1]
		}
		low, _ := new(big.Int).SetString(r[0], 10)
		high, _ := new(big.Int).SetString(r[1], 10)
		one := big.NewInt(1)
		for _, outside := range []string{"much", new(big.Int).Sub(low, one).String(), new(big.Int).Add(high, one).String()} {
			_, err := ParseConfig(map[string]string{name: outside})
			if err == nil || !strings.Contains(err.Error(), allowed) {
				t.Errorf("%s=%s: got %v, want it to say %q", name, outside, err, allowed)
			}
		}
		for _, end := range r {
			_, err := ParseConfig(map[string]string{name: end})
			// How two settings fit together is another matter.
			if err != nil && !strings.Contains(err.Error(), "must not exceed") {
				t.Errorf("%s=%s, an end of its range: %v", name, end, err)
			}
		}
	}
}

func TestAFieldOutsideItsRangeIsNamedWithIt(t *testing.T) {
	c := DefaultConfig()
	c.SegmentBytes, c.MarkSyncInterval, c.RetentionBytes, c.OpenFilesMax = 59, -time.Second, -1, 1
	err := c.Validate()
	for _, want := range []string{
		"(SegmentBytes): 59 must be between 60 and 17592186044416",
		"(MarkSyncInterval): -1s must be between 0s and ",
		"(RetentionBytes): -1 must be 0 or between 1 and ",
		"(OpenFilesMax): 1 must be 0 or between 16 and ",
	} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want it to say %q", err, want)
		}
	}
}

func TestInvalidCombinationsAreNamed(t *testing.T) {
	for name, test := range map[string]struct {
		change func(*Config)
		want   string
	}{
		"a periodic flush needs an interval": {
			func(c *Config) { c.FsyncInterval = 0 }, "FELIX_DURABLE_FSYNC_INTERVAL_MS (FsyncInterval)",
		},
		"a retention bound needs an interval": {
			func(c *Config) { c.RetentionBytes, c.RetentionInterval = 1, 0 }, "FELIX_DURABLE_RETENTION_INTERVAL_SECONDS",
		},
		"a log may not stage more than the store": {
			func(c *Config) { c.StagedBytesMax = c.StagedBytesPerLogMax - 1 }, "must not exceed StagedBytesMax",
		},
		"an unknown fsync mode": {func(c *Config) { c.FsyncMode = 9 }, "fsync_mode(9)"},
		"an unknown ring mode":  {func(c *Config) { c.IOURing = 9 }, "io_uring_mode(9)"},
	} {
		t.Run(name, func(t *testing.T) {
			c := DefaultConfig()
			test.change(&c)
			err := c.Validate()
			if err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("got %v, want it to name %q", err, test.want)
			}
		})
	}
	t.Run("without a bound or a flush timer an interval may be 0", func(t *testing.T) {
		c := DefaultConfig()
		c.FsyncMode, c.FsyncInterval, c.RetentionInterval = FsyncOnCommit, 0, 0
		if err := c.Validate(); err != nil {
			t.Error(err)
		}
	})
}

func TestASettingThatIsNoVariableIsRefused(t *testing.T) {
	_, err := ParseConfig(map[string]string{"FELIX_DURABLE_SEGMENT_BYTE": "100"})
	if err == nil || !strings.Contains(err.Error(), "FELIX_DURABLE_SEGMENT_BYTE: is not a storage variable") {
		t.Errorf("got %v", err)
	}
}

func TestUnknownVariablesNameTheClosestKnownOne(t *testing.T) {
	known := []string{"FELIX_DURABLE_SEGMENT_BYTES", "FELIX_STORAGE_IO_URING"}
	got := UnknownVariables([]string{
		"FELIX_STORAGE_IOURING=1", "FELIX_DURABLE_SEGMENT_BYTES=1", "FELIX_ENTIRELY_DIFFERENT=x=y",
		"FELIX_DURABLE_SEGMENTS_BYTES=1", "PATH=/bin", "felix_storage_io_uring=1",
	}, known)
	want := []UnknownVariable{
		{"FELIX_DURABLE_SEGMENTS_BYTES", "FELIX_DURABLE_SEGMENT_BYTES"},
		{"FELIX_ENTIRELY_DIFFERENT", ""},
		{"FELIX_STORAGE_IOURING", "FELIX_STORAGE_IO_URING"},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestFsyncRendersWithItsInterval(t *testing.T) {
	c := DefaultConfig()
	for mode, want := range map[FsyncMode]string{
		FsyncPeriodic: "periodic:250ms", FsyncNone: "none", FsyncOnCommit: "on_commit",
	} {
		c.FsyncMode = mode
		if got := c.Fsync(); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}

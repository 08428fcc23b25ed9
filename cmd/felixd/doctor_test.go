package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

const mountinfo = `22 27 0:21 / /proc rw,relatime - proc proc rw
27 1 254:0 / / rw,relatime - ext4 /dev/vda rw,discard
40 27 0:50 / /data rw,noatime shared:7 master:1 - overlay overlay rw,lowerdir=/l,volatile
41 27 254:1 / /data/inner\040disk rw - xfs /dev/mapper/data rw,nobarrier
42 27 0:51 / /data rw - tmpfs tmpfs rw,size=64k
`

func TestTheMountThatHoldsADirectoryIsFound(t *testing.T) {
	for dir, want := range map[string]string{
		"/":                    "ext4",
		"/database":            "ext4",  // not below /data
		"/data":                "tmpfs", // the later mount covers the earlier
		"/data/x":              "tmpfs",
		"/data/inner disk/log": "xfs",
		"/proc/1":              "proc",
	} {
		m, found := findMount(strings.NewReader(mountinfo), dir)
		if !found || m.fstype != want {
			t.Errorf("%s is on %q (found %v), want %q", dir, m.fstype, found, want)
		}
	}
	m, _ := findMount(strings.NewReader(mountinfo), "/data/inner disk")
	want := mount{point: "/data/inner disk", fstype: "xfs", source: "/dev/mapper/data", device: "data", options: []string{"rw", "nobarrier"}}
	if diff := cmp.Diff(want, m, cmp.AllowUnexported(mount{})); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestFilesystemsAreWarnedAbout(t *testing.T) {
	for name, test := range map[string]struct {
		fstype  string
		options []string
		want    []string // one part of each warning
	}{
		"plain ext4":               {"ext4", []string{"rw"}, nil},
		"plain xfs":                {"xfs", []string{"rw"}, nil},
		"ext4 without barriers":    {"ext4", []string{"rw", "nobarrier"}, []string{"nobarrier"}},
		"tmpfs":                    {"tmpfs", nil, []string{"in memory"}},
		"overlay":                  {"overlay", nil, []string{"mount a volume"}},
		"volatile overlay":         {"overlay", []string{"volatile"}, []string{"mount a volume", "nothing is durable"}},
		"NFS, soft":                {"nfs4", []string{"soft"}, []string{"NFS", "soft"}},
		"CIFS":                     {"cifs", nil, []string{"CIFS"}},
		"a FUSE filesystem":        {"fuse.sshfs", nil, []string{"FUSE"}},
		"ZFS":                      {"zfs", nil, []string{"sync"}},
		"9p":                       {"9p", nil, []string{"the blocking pool is used"}},
		"btrfs overwrites nowhere": {"btrfs", nil, []string{"copy-on-write"}},
		"read-only":                {"ext4", []string{"ro"}, []string{"read-only"}},
	} {
		t.Run(name, func(t *testing.T) {
			var got []string
			for _, w := range filesystemWarnings() {
				if w.applies(test.fstype, test.options) {
					got = append(got, w.text)
				}
			}
			if len(got) != len(test.want) {
				t.Fatalf("%d warnings, want %d: %q", len(got), len(test.want), got)
			}
			for i, part := range test.want {
				if !strings.Contains(got[i], part) {
					t.Errorf("%q does not say %q", got[i], part)
				}
			}
		})
	}
}

func TestFastCommitsAreCounted(t *testing.T) {
	path := filepath.Join(t.TempDir(), "fc_info")
	if _, known := fastCommits(path); known {
		t.Error("a missing file gave a number")
	}
	if err := os.WriteFile(path, []byte("fc stats:\n42 commits\n3 ineligible\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if n, known := fastCommits(path); n != 42 || !known {
		t.Errorf("got %d, %v", n, known)
	}
}

func TestRingFeaturesAreNamed(t *testing.T) {
	got := ringFeatures(1<<0 | 1<<8 | 1<<31)
	if diff := cmp.Diff([]string{"single_mmap", "ext_arg", "0x80000000"}, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestCostIsJudged(t *testing.T) {
	for name, test := range map[string]struct {
		micros     int64
		filesystem string
		warned     bool
	}{
		"an ordinary device":      {200, "ext4", false},
		"too fast to be true":     {3, "ext4", true},
		"memory may be that fast": {3, "tmpfs", false},
		"very slow":               {60_000, "ext4", true},
	} {
		t.Run(name, func(t *testing.T) {
			var d doctor
			d.judgeCost(&costReport{InlineMicros: test.micros}, test.filesystem)
			if (len(d.warnings) > 0) != test.warned {
				t.Errorf("warnings: %q", d.warnings)
			}
		})
	}
}

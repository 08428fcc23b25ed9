package main

import (
	"fmt"
	"runtime"
	"runtime/debug"
	"strings"

	"github.com/alecthomas/kong"

	"felix.local/felix/segment"
	"felix.local/felix/uring"
)

// release is the version of a build whose source says none: packages of an archive
// without its history set it with the linker's -X. Empty otherwise.
var release string

// unknown stands for what a build does not say about itself.
const unknown = "unknown"

type versionCommand struct{ outputFlags }

// versionEvent says what was built and which files it reads and writes.
type versionEvent struct {
	Version string `json:"version"`
	// Revision is the commit and Date its time, not that of the build: the same source
	// gives the same bytes. Modified says that the source was not what the commit has.
	Revision      string `json:"revision"`
	Date          string `json:"date"`
	Modified      bool   `json:"modified"`
	Go            string `json:"go"`
	Platform      string `json:"platform"`
	Driver        string `json:"io_uring_driver"`
	SegmentOldest uint16 `json:"segment_version_oldest"`
	SegmentNewest uint16 `json:"segment_version_newest"`
}

func (versionEvent) kind() string { return "version" }

func (v versionEvent) text() string {
	changed := ""
	if v.Modified {
		changed = " with changes"
	}
	return fmt.Sprintf("felixd %s, revision %s%s of %s; %s, %s, io_uring driver %s; segment formats %d to %d",
		v.Version, v.Revision, changed, v.Date, v.Go, v.Platform, v.Driver, v.SegmentOldest, v.SegmentNewest)
}

func (c *versionCommand) Run(a *app) error { return a.output(c.outputFlags).emit(thisBuild()) }

// versionFlag prints what was built and ends the command, as --help does.
type versionFlag bool

// BeforeReset is called by kong when the flag is given, before anything is missed.
func (versionFlag) BeforeReset(parser *kong.Kong) error {
	_, err := fmt.Fprintln(parser.Stdout, thisBuild().text())
	parser.Exit(exitOK)
	return err
}

// thisBuild says what this program is.
func thisBuild() versionEvent {
	info, _ := debug.ReadBuildInfo()
	return built(info)
}

// built reads what the toolchain wrote into the program; info is nil when it wrote
// nothing.
func built(info *debug.BuildInfo) versionEvent {
	v := versionEvent{
		Version: unknown, Revision: unknown, Date: unknown,
		Go: runtime.Version(), Platform: runtime.GOOS + "/" + runtime.GOARCH, Driver: uring.DriverName,
		SegmentOldest: segment.VersionOldest, SegmentNewest: segment.VersionNewest,
	}
	if info != nil {
		v.Version = strings.TrimPrefix(info.Main.Version, "v")
		for _, setting := range info.Settings {
			switch setting.Key {
			case "vcs.revision":
				v.Revision = setting.Value
			case "vcs.time":
				v.Date = setting.Value
			case "vcs.modified":
				v.Modified = setting.Value == "true"
			}
		}
	}
	if release != "" {
		v.Version = release
	}
	return v
}

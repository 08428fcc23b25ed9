package main

import (
	"fmt"
	"runtime"
	"runtime/debug"

	"felix.local/felix/segment"
)

type versionCommand struct{ outputFlags }

// versionEvent says what was built and which files it reads and writes.
type versionEvent struct {
	Version       string `json:"version"`
	Revision      string `json:"revision"`
	Modified      bool   `json:"modified"`
	Go            string `json:"go"`
	SegmentOldest uint16 `json:"segment_version_oldest"`
	SegmentNewest uint16 `json:"segment_version_newest"`
}

func (versionEvent) kind() string { return "version" }

func (v versionEvent) text() string {
	changed := ""
	if v.Modified {
		changed = " with changes"
	}
	return fmt.Sprintf("felixd %s, revision %s%s, %s; segment formats %d to %d",
		v.Version, v.Revision, changed, v.Go, v.SegmentOldest, v.SegmentNewest)
}

func (c *versionCommand) Run(a *app) error {
	v := versionEvent{
		Version: "unknown", Revision: "unknown", Go: runtime.Version(),
		SegmentOldest: segment.VersionOldest, SegmentNewest: segment.VersionNewest,
	}
	if info, ok := debug.ReadBuildInfo(); ok {
		v.Version = info.Main.Version
		for _, setting := range info.Settings {
			switch setting.Key {
			case "vcs.revision":
				v.Revision = setting.Value
			case "vcs.modified":
				v.Modified = setting.Value == "true"
			}
		}
	}
	return a.output(c.outputFlags).emit(v)
}

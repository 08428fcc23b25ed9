package main

import (
	"cmp"
	"context"
	"os/exec"
	"runtime/debug"
	"strings"
)

// revisionDigits is how much of a commit's name is shown.
const revisionDigits = 12

// revision names the commit that this program is of, and says when there were changes.
func revision(ctx context.Context) string {
	info, _ := debug.ReadBuildInfo()
	return revisionOf(info, func(args ...string) (string, error) {
		out, err := exec.CommandContext(ctx, "git", args...).Output()
		return strings.TrimSpace(string(out)), err
	})
}

// revisionOf asks git where the toolchain has written nothing into the program, as go run
// does not; info may be nil.
func revisionOf(info *debug.BuildInfo, git func(args ...string) (string, error)) string {
	name, changed := "", false
	if info != nil {
		for _, setting := range info.Settings {
			switch setting.Key {
			case "vcs.revision":
				name = setting.Value
			case "vcs.modified":
				changed = setting.Value == "true"
			}
		}
	}
	if name == "" {
		var err error
		if name, err = git("rev-parse", "HEAD"); err == nil {
			status, err := git("status", "--porcelain")
			changed = status != "" || err != nil
		}
	}
	name = cmp.Or(name, "unknown")
	name = name[:min(len(name), revisionDigits)]
	if changed {
		name += " and changes"
	}
	return name
}

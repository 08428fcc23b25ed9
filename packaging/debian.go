package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"
)

// nfpm packs. It is not among the modules of this tree: what it needs in turn is many
// times what Felix does.
const (
	nfpmProgram = "github.com/goreleaser/nfpm/v2/cmd/nfpm"
	nfpmVersion = "v2.48.0"
)

// maintainer is who Debian's tools name.
const maintainer = "Felix <felix@felix.local>"

// debianVersion writes a version so that Debian orders it as Go does: a pre-release,
// as which Go names commits without a tag, comes before its release.
func debianVersion(version string) string {
	release, build, built := strings.Cut(version, "+")
	number, pre, early := strings.Cut(release, "-")
	if early {
		number += "~" + strings.ReplaceAll(pre, "-", ".")
	}
	if built {
		number += "+" + strings.ReplaceAll(build, "-", ".")
	}
	return number
}

type (
	nfpmConfig struct {
		Name          string            `json:"name"`
		Arch          string            `json:"arch"`
		Platform      string            `json:"platform"`
		Version       string            `json:"version"`
		VersionSchema string            `json:"version_schema"`
		Section       string            `json:"section"`
		Priority      string            `json:"priority"`
		Maintainer    string            `json:"maintainer"`
		Description   string            `json:"description"`
		MTime         time.Time         `json:"mtime"`
		Depends       []string          `json:"depends"`
		Suggests      []string          `json:"suggests"`
		Contents      []nfpmContent     `json:"contents"`
		Scripts       map[string]string `json:"scripts"`
	}
	nfpmContent struct {
		Source      string   `json:"src,omitempty"`
		Destination string   `json:"dst"`
		Type        string   `json:"type,omitempty"`
		Info        nfpmInfo `json:"file_info"`
	}
	nfpmInfo struct {
		Mode  os.FileMode `json:"mode"`
		Owner string      `json:"owner"`
		Group string      `json:"group"`
		MTime time.Time   `json:"mtime"`
	}
)

// debianPackage packs the files for Debian. The scripts that dpkg runs are in
// packaging/debian.
func debianPackage(ctx context.Context, out, work, source string, p program, items []item) error {
	packer, err := tool(ctx, work, nfpmProgram, nfpmVersion)
	if err != nil {
		return err
	}
	config := nfpmConfig{
		Name: "felixd", Arch: p.arch, Platform: "linux", Version: debianVersion(p.version), VersionSchema: "none",
		Section: "database", Priority: "optional", Maintainer: maintainer, MTime: p.time,
		Description: "durable log for Linux hosts\nA server of append-only streams over HTTP and the Kafka\nprotocol: an acknowledged record is there after a crash. " +
			"Also its\nclients, and tools that check, copy and cut logs.",
		Depends:  []string{"systemd | systemd-standalone-sysusers | adduser"},
		Suggests: []string{"kcat"},
		Scripts:  make(map[string]string),
	}
	for key, script := range map[string]string{"postinstall": "postinst", "preremove": "prerm", "postremove": "postrm"} {
		config.Scripts[key] = filepath.Join(source, "packaging", "debian", script)
	}
	if config.Contents, err = staged(filepath.Join(work, "staged"), p.time, items); err != nil {
		return err
	}
	text, err := json.Marshal(config) // which is YAML too
	if err != nil {
		return err
	}
	path := filepath.Join(work, "nfpm.yaml")
	if err := os.WriteFile(path, text, 0o600); err != nil {
		return err
	}
	command := exec.CommandContext(ctx, packer, "package", "--config", path, "--packager", "deb", "--target", out)
	command.Env = append(os.Environ(), fmt.Sprintf("SOURCE_DATE_EPOCH=%d", p.time.Unix()))
	_, err = output(command)
	return err
}

// staged writes the files where the packer finds them, and says where each goes. The
// directory of settings is named, so that it is not open to everybody.
func staged(dir string, at time.Time, items []item) ([]nfpmContent, error) {
	info := func(mode os.FileMode) nfpmInfo { return nfpmInfo{Mode: mode, Owner: "root", Group: "root", MTime: at} }
	contents := []nfpmContent{{Destination: "/etc/felix", Type: "dir", Info: info(0o750)}}
	for _, i := range items {
		if i.deb == "" {
			continue
		}
		path := filepath.Join(dir, i.deb)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			return nil, err
		}
		if err := os.WriteFile(path, i.content, 0o600); err != nil {
			return nil, err
		}
		content := nfpmContent{Source: path, Destination: i.deb, Info: info(i.mode)}
		if i.setting {
			content.Type = "config"
		}
		contents = append(contents, content)
	}
	return contents, nil
}

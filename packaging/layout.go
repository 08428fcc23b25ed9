package main

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// item is a file and where it goes. An empty path means not there.
type item struct {
	tar, deb string
	mode     fs.FileMode
	content  []byte
	// setting says that the administrator may change the file: an upgrade keeps theirs.
	setting bool
}

// layout is everything that the packages of one architecture hold.
func layout(source string, p program, linked []module, generated documents) ([]item, error) {
	binary, err := os.ReadFile(p.path)
	if err != nil {
		return nil, err
	}
	items := []item{
		{tar: "felixd", deb: "/usr/bin/felixd", mode: 0o755, content: binary},
		{tar: "share/man/man1/felixd.1", mode: 0o644, content: generated["felixd.1"]},
		{deb: "/usr/share/man/man1/felixd.1.gz", mode: 0o644, content: compressed(generated["felixd.1"])},
		{tar: "share/bash-completion/completions/felixd", deb: "/usr/share/bash-completion/completions/felixd", mode: 0o644, content: generated["bash"]},
		{tar: "share/zsh/site-functions/_felixd", deb: "/usr/share/zsh/vendor-completions/_felixd", mode: 0o644, content: generated["zsh"]},
		{tar: "share/fish/vendor_completions.d/felixd.fish", deb: "/usr/share/fish/vendor_completions.d/felixd.fish", mode: 0o644, content: generated["fish"]},
		{deb: "/usr/share/doc/felixd/changelog.gz", mode: 0o644, content: compressed(changelog(p))},
	}
	own, err := ownLicence(source)
	if err != nil {
		return nil, err
	}
	notices := notices(own, linked)
	items = append(items, item{tar: "LICENSES", deb: "/usr/share/doc/felixd/copyright", mode: 0o644, content: notices})
	deployed, err := deployment(source)
	if err != nil {
		return nil, err
	}
	monitored, err := tree(source, "/usr/share/felixd/", monitoring()...)
	if err != nil {
		return nil, err
	}
	texts, err := tree(source, "/usr/share/doc/felixd/", "README.md", "docs")
	return slices.Concat(items, deployed, monitored, texts), err
}

// unitProgram is the line of the unit in the tree, whose head installs it by hand. In
// the package the program is where Debian puts those of packages.
const unitProgram = "ExecStart=/usr/local/bin/felixd "

// deployment are the unit, its user and its settings, and the profile for containers.
func deployment(source string) ([]item, error) {
	texts := make(map[string][]byte)
	for _, name := range []string{"felixd.service", "felix.sysusers", "felix.env", "seccomp-felixd.json"} {
		text, err := os.ReadFile(filepath.Join(source, "deploy", name))
		if err != nil {
			return nil, err
		}
		texts[name] = text
	}
	unit, err := packagedUnit(string(texts["felixd.service"]))
	if err != nil {
		return nil, err
	}
	user := texts["felix.sysusers"]
	return []item{
		{tar: "deploy/felixd.service", mode: 0o644, content: texts["felixd.service"]},
		{deb: "/usr/lib/systemd/system/felixd.service", mode: 0o644, content: []byte(unit)},
		{tar: "deploy/felix.sysusers", deb: "/usr/lib/sysusers.d/felix.conf", mode: 0o644, content: user},
		{tar: "deploy/felix.env", deb: "/etc/felix/felix.env", mode: 0o640, content: texts["felix.env"], setting: true},
		{tar: "deploy/seccomp-felixd.json", deb: "/usr/share/felixd/deploy/seccomp-felixd.json", mode: 0o644, content: texts["seccomp-felixd.json"]},
	}, nil
}

// packagedUnit is the tree's unit without the head that says how to install it by
// hand, and with the package's program.
func packagedUnit(unit string) (string, error) {
	_, body, found := strings.Cut(unit, "\n[Unit]\n")
	if !found || strings.Count(body, unitProgram) != 1 {
		return "", fmt.Errorf("deploy/felixd.service has no [Unit], or no line %q", unitProgram)
	}
	return "# Settings are in /etc/felix/felix.env. To change this unit: systemctl edit felixd\n\n[Unit]\n" +
		strings.Replace(body, unitProgram, "ExecStart=/usr/bin/felixd ", 1), nil
}

// monitoring are the dashboard, the alerts, and what starts a server with both.
func monitoring() []string {
	return []string{"deploy/compose.yaml", "deploy/prometheus", "deploy/grafana"}
}

// tree are files of the source and those below its directories: at the same paths in the
// archive, where the documents' links and names find them, and below dir in the package.
func tree(source, dir string, names ...string) (items []item, err error) {
	for _, name := range names {
		err := filepath.WalkDir(filepath.Join(source, name), func(path string, entry fs.DirEntry, err error) error {
			if err != nil || entry.IsDir() {
				return err
			}
			content, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			name, err := filepath.Rel(source, path)
			if err != nil {
				return err
			}
			name = filepath.ToSlash(name)
			items = append(items, item{tar: name, deb: dir + name, mode: 0o644, content: content})
			return nil
		})
		if err != nil {
			return nil, err
		}
	}
	return items, nil
}

// changelog is what Debian's tools read a package's history from.
func changelog(p program) []byte {
	return fmt.Appendf(nil, "felixd (%s) unstable; urgency=medium\n\n  * Built from revision %s.\n\n -- %s  %s\n",
		debianVersion(p.version), p.revision, maintainer, p.time.Format("Mon, 02 Jan 2006 15:04:05 -0700"))
}

// compressed is gzip without a name or a time, at the level that Debian asks for.
func compressed(content []byte) []byte {
	var b bytes.Buffer
	w, err := gzip.NewWriterLevel(&b, gzip.BestCompression)
	if err == nil {
		_, err = w.Write(content)
	}
	if err == nil {
		err = w.Close()
	}
	if err != nil {
		panic("packaging: compressing in memory: " + err.Error()) // the level is one that exists
	}
	return b.Bytes()
}

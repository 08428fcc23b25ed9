package main

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"debug/buildinfo"
	"debug/elf"
	"encoding/binary"
	"encoding/json"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// packages are what one build made.
type packages struct {
	product
	dir                   string // where its files are
	source                string // what it was made from
	archive, list, debian string // paths
	modules               []module
	program               string // felixd, taken out of the archive
}

// TestPackages builds the last commit twice and looks at what the first build made.
func TestPackages(t *testing.T) {
	for _, program := range []string{"git", "dpkg-deb", "tar"} {
		if _, err := exec.LookPath(program); err != nil {
			t.Skipf("%s is not installed", program)
		}
	}
	if _, err := output(exec.CommandContext(t.Context(), "git", "rev-parse", "HEAD")); err != nil {
		t.Skip("the source has no history here: ", err)
	}
	p := makePackages(t)
	t.Run("the checksums are those of the files", p.checkSums)
	t.Run("felixd says which commit it is", p.checkVersion)
	t.Run("the archive is whole", p.checkArchive)
	t.Run("the Debian package is whole", p.checkDebian)
	t.Run("settings and scripts are where dpkg looks", p.checkControl)
	t.Run("the list of components is what the program is linked from", p.checkList)
	t.Run("every licence is passed on", p.checkNotices)
	t.Run("the unit is valid", p.checkUnit)
	t.Run("what the document says can be done with them can be done", p.checkDocument)
	t.Run("it installs and goes and leaves the data", p.checkInstallation)
}

func makePackages(t *testing.T) packages {
	t.Helper()
	top, err := filepath.Abs("..")
	if err != nil {
		t.Fatal(err)
	}
	work := t.TempDir()
	made, err := reproduce(t.Context(), top, work, []string{runtime.GOARCH})
	if away := new(notToBeHadError); errors.As(err, &away) {
		t.Skip(away)
	}
	if err != nil {
		t.Fatal(err)
	}
	base := "felixd_" + made.version + "_linux_" + runtime.GOARCH
	p := packages{product: made, dir: filepath.Join(work, "one", "dist"), source: filepath.Join(work, "one", "source")}
	p.archive, p.list = filepath.Join(p.dir, base+".tar.gz"), filepath.Join(p.dir, base+".cdx.json")
	p.debian = filepath.Join(p.dir, "felixd_"+debianVersion(made.version)+"_"+runtime.GOARCH+".deb")
	if p.modules, err = linkedModules(t.Context(), p.source, runtime.GOARCH); err != nil {
		t.Fatal(err)
	}
	command(t, "tar", "-xzf", p.archive, "-C", work)
	p.program = filepath.Join(work, base, "felixd")
	return p
}

// command runs a program and gives what it printed.
func command(t *testing.T, name string, args ...string) string {
	t.Helper()
	out, err := output(exec.CommandContext(t.Context(), name, args...))
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return string(out)
}

func (p packages) checkSums(t *testing.T) {
	entries, err := os.ReadDir(p.dir)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, entry := range entries {
		names = append(names, entry.Name())
	}
	want := []string{sumsName, filepath.Base(p.archive), filepath.Base(p.list), filepath.Base(p.debian)}
	slices.Sort(want)
	if diff := cmp.Diff(want, names); diff != "" {
		t.Errorf("(-want +made):\n%s", diff)
	}
	check := exec.CommandContext(t.Context(), "sha256sum", "--check", "--strict", sumsName)
	check.Dir = p.dir
	if out, err := output(check); err != nil || strings.Count(string(out), ": OK\n") != 3 {
		t.Errorf("%v\n%s", err, out)
	}
}

func (p packages) checkVersion(t *testing.T) {
	var said struct {
		Version, Revision, Date, Platform string
		Modified                          bool
		Driver                            string `json:"io_uring_driver"`
	}
	if err := json.Unmarshal([]byte(command(t, p.program, "version", "--json")), &said); err != nil {
		t.Fatal(err)
	}
	revision := strings.TrimSpace(command(t, "git", "-C", p.source, "rev-parse", "HEAD"))
	if said.Revision != revision || said.Version != p.version || said.Modified || said.Platform != "linux/"+runtime.GOARCH || said.Driver != "native" {
		t.Errorf("felixd %+v, from revision %s, packed as %s", said, revision, p.version)
	}
	if untagged := strings.HasPrefix(p.version, "0.0.0-"); untagged && !strings.HasSuffix(p.version, "-"+revision[:12]) {
		t.Errorf("the version %s does not name the revision %s", p.version, revision)
	}
	if at := committed(t, p.source); said.Date != at {
		t.Errorf("dated %s, the commit is of %s", said.Date, at)
	}
	if asks, err := loads(p.program); err != nil || len(asks) > 0 {
		t.Errorf("the program is not static: it has %v, %v", asks, err)
	}
}

// committed is when the last commit of a source was made, in UTC, as a program says it.
func committed(t *testing.T, source string) string {
	t.Helper()
	git := exec.CommandContext(t.Context(), "git", "-C", source, "log", "-1", "--format=%cd", "--date=format-local:%Y-%m-%dT%H:%M:%SZ")
	git.Env = append(os.Environ(), "TZ=UTC")
	out, err := output(git)
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return strings.TrimSpace(string(out))
}

func TestACommitIsDatedInUTCWhereverTheTestRuns(t *testing.T) {
	if _, err := exec.LookPath("git"); err != nil {
		t.Skip("git is not installed")
	}
	source := t.TempDir()
	t.Setenv("TZ", "JST-9")
	t.Setenv("GIT_COMMITTER_DATE", "2001-02-03T04:05:06+09:00")
	command(t, "git", "init", "-q", source)
	command(t, "git", "-C", source, "-c", "user.name=a", "-c", "user.email=a@b.c", "commit", "-q", "--allow-empty", "-m", "one")
	if got := committed(t, source); got != "2001-02-02T19:05:06Z" {
		t.Errorf("the commit is of %s", got)
	}
}

// loads gives the parts of a program by which it asks for a loader or libraries: none,
// where it is static.
func loads(program string) (asks []elf.ProgType, err error) {
	file, err := elf.Open(program)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	for _, part := range file.Progs {
		if part.Type == elf.PT_INTERP || part.Type == elf.PT_DYNAMIC {
			asks = append(asks, part.Type)
		}
	}
	return asks, nil
}

func TestAProgramThatAsksForALoaderIsNotStatic(t *testing.T) {
	for _, kind := range []elf.ProgType{elf.PT_INTERP, elf.PT_DYNAMIC, elf.PT_LOAD} {
		header := elf.Header64{
			Ident: [elf.EI_NIDENT]byte{0x7f, 'E', 'L', 'F', byte(elf.ELFCLASS64), byte(elf.ELFDATA2LSB), byte(elf.EV_CURRENT)},
			Type:  uint16(elf.ET_EXEC), Machine: uint16(elf.EM_X86_64), Version: uint32(elf.EV_CURRENT),
			Phoff: 64, Ehsize: 64, Phentsize: 56, Phnum: 1, Shentsize: 64,
		}
		var program bytes.Buffer
		if err := binary.Write(&program, binary.LittleEndian, header); err != nil {
			t.Fatal(err)
		}
		if err := binary.Write(&program, binary.LittleEndian, elf.Prog64{Type: uint32(kind)}); err != nil {
			t.Fatal(err)
		}
		path := filepath.Join(t.TempDir(), "program")
		if err := os.WriteFile(path, program.Bytes(), 0o600); err != nil {
			t.Fatal(err)
		}
		asks, err := loads(path)
		if static := kind == elf.PT_LOAD; err != nil || (len(asks) == 0) != static {
			t.Errorf("a program with %v has %v, %v", kind, asks, err)
		}
	}
}

func (p packages) checkArchive(t *testing.T) {
	file, err := os.Open(p.archive)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	decompressed, err := gzip.NewReader(file)
	if err != nil {
		t.Fatal(err)
	}
	modes := make(map[string]int64)
	for archive := tar.NewReader(decompressed); ; {
		header, err := archive.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		base, name, _ := strings.Cut(header.Name, "/")
		modes[name] = header.Mode
		if base+".tar.gz" != filepath.Base(p.archive) || header.Uname != "root" || header.Uid != 0 || header.Gid != 0 {
			t.Errorf("%s of %s, %d:%d", header.Name, header.Uname, header.Uid, header.Gid)
		}
	}
	for name, mode := range map[string]int64{
		"felixd": 0o755, "README.md": 0o644, "LICENSES": 0o644, "docs/packaging.md": 0o644, "docs/measurements/bars.json": 0o644, "deploy/prometheus/alerts.yaml": 0o644, "deploy/grafana/felix.json": 0o644, "deploy/compose.yaml": 0o644, "deploy/felix.env": 0o640, "deploy/seccomp-felixd.json": 0o644, "deploy/felixd.service": 0o644,
		"deploy/felix.sysusers": 0o644, "share/man/man1/felixd.1": 0o644, "share/bash-completion/completions/felixd": 0o644,
		"share/zsh/site-functions/_felixd": 0o644, "share/fish/vendor_completions.d/felixd.fish": 0o644,
	} {
		if modes[name] != mode {
			t.Errorf("%s has mode %o, want %o", name, modes[name], mode)
		}
	}
}

func (p packages) checkDebian(t *testing.T) {
	listed := make(map[string]string)
	line := regexp.MustCompile(`(?m)^(\S{10}) (\S+) +\d+ (\S+ \S+) \.(/\S*)$`)
	times := make(map[string]bool)
	for _, m := range line.FindAllStringSubmatch(command(t, "dpkg-deb", "-c", p.debian), -1) {
		listed[m[4]] = m[1] + " " + m[2]
		times[m[3]] = true
	}
	for path, want := range map[string]string{
		"/usr/bin/felixd":                                   "-rwxr-xr-x root/root",
		"/etc/felix/":                                       "drwxr-x--- root/root",
		"/etc/felix/felix.env":                              "-rw-r----- root/root",
		"/usr/lib/systemd/system/felixd.service":            "-rw-r--r-- root/root",
		"/usr/lib/sysusers.d/felix.conf":                    "-rw-r--r-- root/root",
		"/usr/share/felixd/deploy/seccomp-felixd.json":      "-rw-r--r-- root/root",
		"/usr/share/felixd/deploy/prometheus/alerts.yaml":   "-rw-r--r-- root/root",
		"/usr/share/felixd/deploy/grafana/felix.json":       "-rw-r--r-- root/root",
		"/usr/share/felixd/deploy/compose.yaml":             "-rw-r--r-- root/root",
		"/usr/share/man/man1/felixd.1.gz":                   "-rw-r--r-- root/root",
		"/usr/share/bash-completion/completions/felixd":     "-rw-r--r-- root/root",
		"/usr/share/zsh/vendor-completions/_felixd":         "-rw-r--r-- root/root",
		"/usr/share/fish/vendor_completions.d/felixd.fish":  "-rw-r--r-- root/root",
		"/usr/share/doc/felixd/copyright":                   "-rw-r--r-- root/root",
		"/usr/share/doc/felixd/changelog.gz":                "-rw-r--r-- root/root",
		"/usr/share/doc/felixd/README.md":                   "-rw-r--r-- root/root",
		"/usr/share/doc/felixd/docs/operations.md":          "-rw-r--r-- root/root",
		"/usr/share/doc/felixd/docs/measurements/bars.json": "-rw-r--r-- root/root",
	} {
		if listed[path] != want {
			t.Errorf("%s is %q, want %q", path, listed[path], want)
		}
	}
	if len(times) != 1 {
		t.Errorf("the files have %d times, want the commit's alone", len(times))
	}
}

func (p packages) checkControl(t *testing.T) {
	for field, want := range map[string]string{
		"Package": "felixd", "Version": debianVersion(p.version), "Architecture": runtime.GOARCH, "Depends": "systemd | systemd-standalone-sysusers | adduser",
	} {
		if got := strings.TrimSpace(command(t, "dpkg-deb", "-f", p.debian, field)); got != want {
			t.Errorf("%s is %q, want %q", field, got, want)
		}
	}
	dir := t.TempDir()
	command(t, "dpkg-deb", "-e", p.debian, dir)
	if settings, err := os.ReadFile(filepath.Join(dir, "conffiles")); err != nil || string(settings) != "/etc/felix/felix.env\n" {
		t.Errorf("conffiles: %q, %v", settings, err)
	}
	for _, script := range []string{"postinst", "prerm", "postrm"} {
		info, err := os.Stat(filepath.Join(dir, script))
		if err != nil || info.Mode().Perm() != 0o755 {
			t.Errorf("%s: %v, %v", script, info, err)
		}
		command(t, "sh", "-n", filepath.Join(dir, script))
	}
}

func (p packages) checkList(t *testing.T) {
	content, err := os.ReadFile(p.list)
	if err != nil {
		t.Fatal(err)
	}
	var list bom
	if err := json.Unmarshal(content, &list); err != nil {
		t.Fatal(err)
	}
	info, err := buildinfo.ReadFile(p.program)
	if err != nil {
		t.Fatal(err)
	}
	want := []string{"pkg:golang/std@" + strings.TrimPrefix(info.GoVersion, "go")}
	for _, dependency := range info.Deps {
		want = append(want, "pkg:golang/"+dependency.Path+"@"+dependency.Version)
	}
	slices.Sort(want)
	var got []string
	for _, c := range list.Components {
		got = append(got, c.PURL)
		if len(c.Licences) == 0 {
			t.Errorf("%s has no licence", c.PURL)
		}
	}
	slices.Sort(got)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-in the program +in the list):\n%s", diff)
	}
	if diff := cmp.Diff(got, slices.Sorted(slices.Values(list.Dependencies[0].DependsOn))); diff != "" {
		t.Errorf("(-components +dependencies):\n%s", diff)
	}
	sum, _, _ := strings.Cut(command(t, "sha256sum", p.program), " ")
	if hashes := list.Metadata.Component.Hashes; len(hashes) != 1 || hashes[0].Content != sum {
		t.Errorf("the list is of a program with the checksums %v, this one has %s", hashes, sum)
	}
	if list.Format != "CycloneDX" || list.SpecVersion != "1.6" || !regexp.MustCompile(`^urn:uuid:[0-9a-f]{8}-[0-9a-f]{4}-8[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$`).MatchString(list.SerialNumber) {
		t.Errorf("%s %s, %s", list.Format, list.SpecVersion, list.SerialNumber)
	}
}

func (p packages) checkNotices(t *testing.T) {
	passed, err := os.ReadFile(filepath.Join(filepath.Dir(p.program), "LICENSES"))
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range p.modules {
		for _, text := range m.texts {
			if !strings.Contains(string(passed), m.path+" "+m.version+": "+text.name+"\n") || !strings.Contains(string(passed), strings.TrimSpace(readable(text.content))) {
				t.Errorf("%s of %s is not passed on", text.name, m.path)
			}
		}
	}
}

func (p packages) checkUnit(t *testing.T) {
	analyze, err := exec.LookPath("systemd-analyze")
	if err != nil {
		t.Skip("systemd-analyze is not installed")
	}
	root := t.TempDir()
	command(t, "dpkg-deb", "-x", p.debian, root)
	path := filepath.Join(root, "usr/lib/systemd/system/felixd.service")
	unit, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	here := filepath.Join(t.TempDir(), "felixd.service")
	if err := os.WriteFile(here, []byte(strings.ReplaceAll(string(unit), "/usr/bin/felixd", filepath.Join(root, "usr/bin/felixd"))), 0o600); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.CommandContext(t.Context(), analyze, "verify", "--man=no", here).CombinedOutput(); err != nil || len(out) > 0 {
		t.Errorf("systemd-analyze verify: %v\n%s", err, out)
	}
	// What systemd counts against a unit, of 10: a change that opens it wide shows here.
	if out, err := exec.CommandContext(t.Context(), analyze, "security", "--offline=true", "--threshold=20", here).CombinedOutput(); err != nil {
		t.Errorf("systemd-analyze security: %v\n%s", err, out)
	}
}

package containers

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// root is the top of the tree, seen from this package.
const root = "../.."

// instruction is one line of a Dockerfile, with those that continue it.
type instruction struct{ name, rest string }

// stage is what follows a FROM, that included.
type stage []instruction

// dockerfile is what comes before the first stage, and the stages.
type dockerfile struct {
	arguments stage
	stages    []stage
}

func readDockerfile(t *testing.T) (d dockerfile) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(root, "Dockerfile.linux"))
	if err != nil {
		t.Fatal(err)
	}
	text = regexp.MustCompile(`(?m)^#.*\n`).ReplaceAll(text, nil)
	for line := range strings.Lines(strings.ReplaceAll(string(text), "\\\n", " ")) {
		name, rest, _ := strings.Cut(strings.TrimSpace(line), " ")
		switch i := (instruction{name, strings.TrimSpace(rest)}); {
		case name == "":
		case name == "FROM":
			d.stages = append(d.stages, stage{i})
		case len(d.stages) == 0:
			d.arguments = append(d.arguments, i)
		default:
			last := len(d.stages) - 1
			d.stages[last] = append(d.stages[last], i)
		}
	}
	if len(d.stages) != 2 {
		t.Fatalf("Dockerfile.linux has %d stages, not one that builds and one that runs", len(d.stages))
	}
	return d
}

func (d dockerfile) build() stage { return d.stages[0] }
func (d dockerfile) image() stage { return d.stages[1] }

// all gives what the instructions of a name say.
func (s stage) all(name string) (rests []string) {
	for _, i := range s {
		if i.name == name {
			rests = append(rests, i.rest)
		}
	}
	return rests
}

// one gives what the only instruction of a name says.
func (s stage) one(t *testing.T, name string) string {
	t.Helper()
	rests := s.all(name)
	if len(rests) != 1 {
		t.Fatalf("there are %d of %s: %q", len(rests), name, rests)
	}
	return rests[0]
}

// words are the arguments of an instruction that are written as a JSON list.
func words(t *testing.T, list string) (args []string) {
	t.Helper()
	if err := json.Unmarshal([]byte(list), &args); err != nil {
		t.Fatalf("%s: %v; a shell would be needed, which the image has not", list, err)
	}
	return args
}

// healthCheck is how often and what a container is asked.
type healthCheck struct {
	options map[string]string
	command []string
}

func (d dockerfile) health(t *testing.T) healthCheck {
	t.Helper()
	options, command, found := strings.Cut(d.image().one(t, "HEALTHCHECK"), "CMD ")
	if !found {
		t.Fatal("the health check has no command")
	}
	h := healthCheck{options: make(map[string]string), command: words(t, command)}
	for _, option := range strings.Fields(options) {
		name, value, _ := strings.Cut(strings.TrimPrefix(option, "--"), "=")
		h.options[name] = value
	}
	return h
}

// environment is what ENV sets, one variable a line.
func (d dockerfile) environment(t *testing.T) map[string]string {
	t.Helper()
	set := make(map[string]string)
	for _, line := range d.image().all("ENV") {
		name, value, found := strings.Cut(line, "=")
		if !found {
			t.Fatalf("ENV %s sets nothing", line)
		}
		set[name] = value
	}
	return set
}

func TestTheImageIsOfAnOrdinaryUserWithADataVolume(t *testing.T) {
	image := readDockerfile(t).image()
	user := image.one(t, "USER")
	if user != "10001:10001" {
		t.Errorf("the image runs as %q; a number lets Kubernetes see that it is not root", user)
	}
	if want := fmt.Sprintf("--from=build --chown=%s /out/data /data", user); !strings.Contains(strings.Join(image.all("COPY"), "\n"), want) {
		t.Errorf("nothing makes the data directory the user's own: no COPY %s", want)
	}
	for name, want := range map[string]string{"VOLUME": "/data", "WORKDIR": "/data"} {
		if got := image.one(t, name); got != want {
			t.Errorf("%s is %s, not %s", name, got, want)
		}
	}
	if got := readDockerfile(t).environment(t); len(got) != 1 || got["FELIX_DURABLE_STORAGE_DIR"] != "/data" {
		t.Errorf("the image sets %v", got)
	}
	if len(image.all("RUN")) > 0 {
		t.Error("the last stage runs something, which an image without a shell cannot")
	}
}

func TestBothBaseImagesAreArguments(t *testing.T) {
	d := readDockerfile(t)
	defaults := make(map[string]string)
	for _, rest := range d.arguments.all("ARG") {
		name, value, _ := strings.Cut(rest, "=")
		defaults[name] = value
	}
	for i, name := range []string{"BUILD_IMAGE", "RUN_IMAGE"} {
		if from := d.stages[i].one(t, "FROM"); defaults[name] == "" || !strings.HasPrefix(from, "${"+name+"}") {
			t.Errorf("stage %d is from %s, and %s is %q by default", i, from, name, defaults[name])
		}
	}
	if got := d.build().one(t, "ARG"); got != "VERSION=" {
		t.Errorf("the stage that builds takes %s", got)
	}
}

// patterns are the lines of an ignore file, without its remarks.
type patterns []string

func readPatterns(t *testing.T, name string) patterns {
	t.Helper()
	return strings.Fields(regexp.MustCompile(`(?m)^#.*$`).ReplaceAllString(read(t, name), ""))
}

// ignoredByDocker is what is left out of an image's source.
func ignoredByDocker(t *testing.T) patterns {
	t.Helper()
	return readPatterns(t, ".dockerignore")
}

// has says whether a pattern is of a path from the top of the tree: one that begins with
// **/ is of names in any directory.
func (p patterns) has(path string) bool {
	return slices.ContainsFunc(p, func(pattern string) bool {
		of := path
		if rest, anywhere := strings.CutPrefix(pattern, "**/"); anywhere {
			pattern, of = rest, filepath.Base(path)
		}
		matched, err := filepath.Match(pattern, of)
		return matched && err == nil
	})
}

// The history is a part of what is built, for felixd version; what builds leave is not,
// and git ignores that.
func TestWhatBuildsLeaveIsNoPartOfAnImagesSource(t *testing.T) {
	ignored := ignoredByDocker(t)
	for _, left := range readPatterns(t, ".gitignore") {
		name, top := strings.CutPrefix(left, "/")
		if name = strings.TrimSuffix(name, "/"); !top {
			name = "**/" + name
		}
		if !slices.Contains(ignored, name) {
			t.Errorf("%s is not left out", name)
		}
	}
	if ignored.has(".git") {
		t.Error("the history is left out")
	}
}

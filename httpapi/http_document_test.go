package httpapi

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"reflect"
	"regexp"
	"strings"
	"testing"
)

// httpDocument is docs/http.md.
func httpDocument(t *testing.T) string {
	t.Helper()
	text, err := os.ReadFile("../docs/http.md")
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// command is a curl line of the document and what it says is answered.
type command struct {
	method, url, body string
	headers           []string
	stream            bool
	status            int
	answer            string
}

// words splits a command as a shell does: blanks, and quotes of both kinds.
func words(text string) []string {
	var all []string
	word, open, quote := "", false, rune(0)
	for _, c := range text {
		switch {
		case quote == 0 && (c == '\'' || c == '"'):
			quote, open = c, true
		case c == quote:
			quote = 0
		case quote == 0 && (c == ' ' || c == '\n'):
			if open {
				all = append(all, word)
			}
			word, open = "", false
		default:
			word, open = word+string(c), true
		}
	}
	return all
}

// commands reads the shell blocks of the document.
func commands(t *testing.T, document string) []command {
	t.Helper()
	var all []command
	for _, block := range regexp.MustCompile("(?s)```sh\n(.*?)```").FindAllStringSubmatch(document, -1) {
		for _, text := range regexp.MustCompile(`(?ms)^curl .*?\n((?:#[^\n]*\n)+)`).FindAllStringSubmatch(block[1], -1) {
			c := curl(t, strings.TrimSuffix(text[0], text[1]))
			answer := strings.ReplaceAll(strings.ReplaceAll(text[1], "# ", ""), "#\n", "\n")
			if _, err := fmt.Sscanf(answer, "%d", &c.status); err != nil {
				t.Fatalf("%q says no status", text[0])
			}
			c.answer = strings.TrimLeft(strings.TrimSuffix(answer, "\n")[3:], " ")
			all = append(all, c)
		}
	}
	return all
}

func curl(t *testing.T, text string) command {
	t.Helper()
	c := command{method: "GET"}
	rest := words(text)[1:]
	for i := 0; i < len(rest); i++ {
		switch rest[i] {
		case "-X":
			i++
			c.method = rest[i]
		case "-H":
			i++
			c.headers = append(c.headers, rest[i])
		case "-d", "--data-binary":
			i++
			c.body = rest[i]
			if c.method == "GET" {
				c.method = "POST"
			}
		case "-N":
			c.stream = true
		default:
			c.url = rest[i]
		}
	}
	if c.body != "" && !strings.Contains(strings.Join(c.headers, "\n"), "Content-Type") {
		c.headers = append(c.headers, "Content-Type: application/x-www-form-urlencoded") // as curl does
	}
	return c
}

// shown says whether an answer is what the document shows, where … stands for anything.
func shown(document, answer string) bool {
	parts := strings.Split(document, "…")
	for i, part := range parts {
		parts[i] = regexp.QuoteMeta(part)
	}
	return regexp.MustCompile(`(?s)^` + strings.Join(parts, ".*") + `$`).MatchString(answer)
}

func TestTheCommandsOfTheDocumentAnswerWhatItShows(t *testing.T) {
	all := commands(t, httpDocument(t))
	f := start(t, durable(t, t.TempDir()), Config{})
	used := make(map[string]bool)
	for _, c := range all {
		path := strings.TrimPrefix(c.url, "$server")
		ctx, cancel := context.WithTimeout(t.Context(), patience)
		response := f.open(ctx, c.method, path, strings.NewReader(c.body), c.headers...)
		used[c.method+" "+pattern(f.server, c.method, path)] = true
		answer := ""
		if c.stream { // as much as is shown
			in := bufio.NewReader(response.Body)
			for range strings.Count(c.answer, "\n") + 1 {
				line, err := in.ReadString('\n')
				if err != nil {
					t.Errorf("%s: %v", c.url, err)
				}
				answer += line
			}
		} else {
			body, err := io.ReadAll(response.Body)
			if err != nil {
				t.Errorf("%s: %v", c.url, err)
			}
			answer = string(body)
		}
		cancel()
		response.Body.Close()
		if response.StatusCode != c.status || !shown(c.answer, strings.TrimSuffix(answer, "\n")) {
			t.Errorf("%s %s:\nshown    %d %s\nanswered %d %s", c.method, c.url, c.status, c.answer, response.StatusCode, answer)
		}
	}
	for _, r := range f.server.routes {
		if r != f.server.unknown && !used[r.method+" "+r.path] {
			t.Errorf("the document shows no %s %s", r.method, r.path)
		}
	}
}

// pattern is the path of the route that a request takes.
func pattern(s *Server, method, path string) string {
	mux := http.NewServeMux()
	for _, r := range s.routes {
		if r != s.unknown {
			mux.Handle(r.method+" "+r.path, http.NotFoundHandler())
		}
	}
	request, err := http.NewRequest(method, "http://x"+path, nil)
	if err != nil {
		return ""
	}
	_, found := mux.Handler(request)
	_, found, _ = strings.Cut(found, " ")
	return found
}

func TestTheDocumentListsEveryRouteCodeAndLimit(t *testing.T) {
	document := httpDocument(t)
	server := must(New(Config{Broker: inMemory(t, brokerDefaults)}))
	for _, r := range server.routes {
		row := strings.Replace(r.path, streamPath+"/", "…/", 1)
		if r != server.unknown && !strings.Contains(document, "| `"+r.method+" "+row+"` |") {
			t.Errorf("it does not list %s %s", r.method, row)
		}
	}
	for _, row := range errorTable() {
		listed := regexp.MustCompile(fmt.Sprintf("(?m)^\\| %d \\|.*`%s`", row.base.status, row.base.code))
		if !listed.MatchString(document) {
			t.Errorf("it does not list %d %s", row.base.status, row.base.code)
		}
	}
	kind := reflect.TypeFor[Config]()
	for i := range kind.NumField() {
		switch name := kind.Field(i).Name; name {
		case "Broker", "Credentials", "Logger", "Observer":
		default:
			if !regexp.MustCompile("(?m)^\\| .*`" + name + "`.* \\|").MatchString(document) {
				t.Errorf("it does not list the limit %s", name)
			}
		}
	}
}

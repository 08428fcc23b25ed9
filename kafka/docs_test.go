package kafka

import (
	"fmt"
	"os"
	"reflect"
	"regexp"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"felix.local/felix/broker"
)

// rows gives the cells of the document's table rows that match.
func rows(t *testing.T, pattern string) [][]string {
	t.Helper()
	text, err := os.ReadFile("../docs/kafka.md")
	if err != nil {
		t.Fatal(err)
	}
	var found [][]string
	for _, m := range regexp.MustCompile(pattern).FindAllStringSubmatch(string(text), -1) {
		found = append(found, m[1:])
	}
	return found
}

func TestTheDocumentListsTheRequestsThatAreServed(t *testing.T) {
	var served [][]string
	for _, a := range supported() {
		served = append(served, []string{kmsg.NameForKey(a.key), fmt.Sprint(a.key), fmt.Sprint(a.min), fmt.Sprint(a.max)})
	}
	if diff := cmp.Diff(served, rows(t, `(?m)^\| (\w+) \| (\d+) \| (\d+)–(\d+) \|$`)); diff != "" {
		t.Errorf("(-served +documented):\n%s", diff)
	}
}

func TestTheDocumentListsTheLimitsWithTheirDefaults(t *testing.T) {
	cfg, err := Config{Broker: new(broker.Broker)}.withDefaults()
	if err != nil {
		t.Fatal(err)
	}
	documented := make(map[string]string)
	for _, row := range rows(t, "(?m)^\\| `([A-Z]\\w+)` \\| ([^|]+) \\| [^|]+ \\|$") {
		documented[row[0]] = row[1]
	}
	limit := regexp.MustCompile(`(Max|Memory|Timeout)$`)
	v := reflect.ValueOf(cfg)
	for i := range v.NumField() {
		name := v.Type().Field(i).Name
		if !limit.MatchString(name) {
			continue
		}
		value := v.Field(i)
		shown := fmt.Sprint(value.Interface())
		if n := value.Int(); value.Type().String() != "time.Duration" && n >= 1<<10 && n%(1<<10) == 0 && n != DefaultConnectionsMax {
			shown = fmt.Sprintf("%d KiB", n>>10)
			if n%(1<<20) == 0 {
				shown = fmt.Sprintf("%d MiB", n>>20)
			}
		}
		if documented[name] != shown {
			t.Errorf("%s is %s and documented as %q", name, shown, documented[name])
		}
		delete(documented, name)
	}
	for name := range documented {
		t.Errorf("%s is documented and no limit", name)
	}
}

func TestTheDocumentListsTheCodesThatAreAnswered(t *testing.T) {
	documented := make(map[string]bool)
	for _, row := range rows(t, "(?m)^\\| `([A-Z_]+)` \\((\\d+)\\) \\|") {
		var number int16
		fmt.Sscan(row[1], &number)
		if e, ok := kerr.ErrorForCode(number).(*kerr.Error); !ok || e.Message != row[0] && row[0] != "NOT_LEADER_OR_FOLLOWER" {
			t.Errorf("code %d is %v, and documented as %s", number, e, row[0])
		}
		documented[row[1]] = true
	}
	source, err := os.ReadFile("codes.go")
	if err != nil {
		t.Fatal(err)
	}
	declared := 0
	for _, m := range regexp.MustCompile(`code\w+ +code = ([1-9]\d*)\n`).FindAllStringSubmatch(string(source), -1) {
		declared++
		if !documented[m[1]] {
			t.Errorf("code %s is not documented", m[1])
		}
	}
	if declared != len(documented) {
		t.Errorf("%d codes are answered and %d documented", declared, len(documented))
	}
}

func TestTheDocumentListsTheConfigurationsOfTopics(t *testing.T) {
	want := [][]string{{configFormat}, {configDurable}, {configFsync}, {configRetentionBytes}, {configRetentionMS}}
	if diff := cmp.Diff(want, rows(t, "(?m)^\\| `([a-z]+\\.[a-z]+)` \\|")); diff != "" {
		t.Errorf("(-taken +documented):\n%s", diff)
	}
}

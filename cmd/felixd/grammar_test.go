package main

import (
	"strings"
	"testing"

	"github.com/alecthomas/kong"
)

func TestTheHelpOfEverySettingSaysWhatItMeans(t *testing.T) {
	parser, _ := grammar(t)
	meanings := make(map[string]string)
	for _, v := range allVariables() {
		meanings[v.Name] = v.Meaning
	}
	settings := 0
	_ = kong.Visit(parser.Model, func(node kong.Visitable, next kong.Next) error {
		flag, ok := node.(*kong.Flag)
		if !ok {
			return next(nil)
		}
		if strings.Contains(flag.Help, "${") {
			t.Errorf("--%s: %s", flag.Name, flag.Help)
		}
		if len(flag.Envs) > 0 && strings.HasPrefix(flag.OrigHelp, "${") {
			settings++
			if meaning := meanings[flag.Envs[0]]; meaning == "" || !strings.HasPrefix(flag.Help, meaning) {
				t.Errorf("--%s: the help is %q, want %q", flag.Name, flag.Help, meaning)
			}
		}
		return next(nil)
	})
	if settings < 100 {
		t.Errorf("only %d settings have a help", settings)
	}
}

// Every start builds the grammar. When each of its flags has all variables expanded anew,
// that is some hundred thousand allocations more.
func TestTheGrammarIsBuiltWithFewAllocations(t *testing.T) {
	const most = 100_000
	if got := testing.AllocsPerRun(1, func() { newParser(new(commands)) }); got > most {
		t.Errorf("%.0f allocations, want at most %d", got, most)
	} else {
		t.Logf("%.0f allocations", got)
	}
}

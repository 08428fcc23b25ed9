package main

import (
	"errors"
	"fmt"
	"reflect"
	"strings"

	"github.com/alecthomas/kong"

	"felix.local/felix/engine"
)

// newParser builds the command line from the grammar.
func newParser(grammar *commands, options ...kong.Option) *kong.Kong {
	parser, err := kong.New(grammar, append([]kong.Option{
		kong.Name("felixd"),
		kong.Description("Felix, a durable log for Linux hosts."),
		kong.PostBuild(describeSettings),
		kong.Vars{"offset_max": offsetMax()},
		kong.NamedMapper("path", kong.MapperFunc(decodePath)),
		kong.ExplicitGroups([]kong.Group{{Key: "storage", Title: "Storage settings:"}, {Key: "server", Title: "Server settings:"}}),
		kong.ConfigureHelp(kong.HelpOptions{Compact: true}),
	}, options...)...)
	if err != nil {
		panic("felixd: the command grammar is invalid: " + err.Error())
	}
	describeDefaults(parser.Model)
	return parser
}

// decodePath reads a path and makes it absolute. A blank one is refused: it would
// mean the working directory, and an unset shell variable is no reason to fill or
// check that.
func decodePath(ctx *kong.DecodeContext, target reflect.Value) error {
	var text string
	if err := ctx.Scan.PopValueInto("path", &text); err != nil {
		return err
	}
	if strings.TrimSpace(text) == "" {
		return errors.New("the path is blank")
	}
	target.SetString(kong.ExpandPath(text))
	return nil
}

// defaulted is a command with defaults of its own for storage settings.
type defaulted interface{ defaults() map[string]string }

// describeDefaults ends the help of every flag with the value that applies
// without it, as its command has it. A help that speaks of its default by itself
// stays as it is, and so does a flag that shows the default for its value.
func describeDefaults(model *kong.Application) {
	general := make(map[string]string)
	for _, v := range allVariables() {
		general[v.Name] = v.Default
	}
	_ = kong.Visit(model, func(node kong.Visitable, next kong.Next) error {
		if command, ok := node.(*kong.Node); ok && command.Type == kong.CommandNode {
			var own map[string]string
			if c, ok := command.Target.Addr().Interface().(defaulted); ok {
				own = c.defaults()
			}
			for _, flag := range command.Flags {
				value := defaultOf(flag, own, general)
				if value != "" && !strings.Contains(flag.Help, "default") {
					flag.Help += fmt.Sprintf(" [default %s]", value)
				}
			}
		}
		return next(nil)
	})
}

// defaultOf is the value that applies without the flag, or "" when there is none
// or the help shows it already. Of a variable the command's own default goes before the
// general one.
func defaultOf(flag *kong.Flag, own, general map[string]string) string {
	if flag.HasDefault {
		if flag.PlaceHolder == "" {
			return ""
		}
		return flag.Default
	}
	if len(flag.Envs) == 0 {
		return ""
	}
	if value, ok := own[flag.Envs[0]]; ok {
		return value
	}
	return general[flag.Envs[0]]
}

// allVariables are those of the storage and those of the server.
func allVariables() []engine.Variable { return append(engine.Variables(), serverVariables()...) }

// describeSettings puts the meaning of every variable in where a help names it as
// ${NAME}. kong can do that too, but it expands every variable it was given anew for each
// flag, which took most of the time a start took.
func describeSettings(parser *kong.Kong) error {
	meanings := make(map[string]string)
	for _, v := range allVariables() {
		meanings["${"+v.Name+"}"] = v.Meaning
	}
	return kong.Visit(parser.Model, func(node kong.Visitable, next kong.Next) error {
		if flag, ok := node.(*kong.Flag); ok {
			if meaning, ok := meanings[flag.Help]; ok {
				flag.Help = meaning
			}
		}
		return next(nil)
	})
}

// knownVariables lists what the grammar reads, and what belongs to Felix but is
// read elsewhere.
func knownVariables(model *kong.Application) []string {
	known := []string{engine.RootVariable, "FELIX_LONG_TESTS"}
	_ = kong.Visit(model, func(node kong.Visitable, next kong.Next) error {
		if flag, ok := node.(*kong.Flag); ok {
			known = append(known, flag.Envs...)
		}
		return next(nil)
	})
	return known
}

// limit is a number and the range it has to be in.
type limit struct {
	flag             string
	value, low, high int64
}

// validate refuses numbers out of range, all at once.
func validate(limits ...limit) error {
	var problems []error
	for _, l := range limits {
		if l.value < l.low || l.value > l.high {
			problems = append(problems, fmt.Errorf("%s must be between %d and %d, is %d", l.flag, l.low, l.high, l.value))
		}
	}
	return errors.Join(problems...)
}

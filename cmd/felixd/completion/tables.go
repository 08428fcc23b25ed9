package completion

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/alecthomas/kong"
)

// word is something to offer, with a line that explains it.
type word struct{ text, help string }

// kind is what a value names, beyond words.
type kind string

const (
	anything  kind = ""
	file      kind = "file"
	directory kind = "directory"
)

// value is what may stand behind a flag, or as an argument.
type value struct {
	words []string
	kind  kind
}

func (v value) empty() bool { return len(v.words) == 0 && v.kind == anything }

// place is a command, as the words that lead to it, and what may follow it.
type place struct {
	path     string
	commands []word
	flags    []word
	valued   []string // flags that take the next word for their value
	values   []keyed  // by flag, or by an argument's number from 0
}

// keyed is a value at its key: "--fsync", or "0" for the first argument.
type keyed struct {
	key string
	value
}

// Script is the code for bash, zsh or fish.
func Script(app *kong.Application, shell string) (string, error) {
	write, ok := map[string]func(name string, places []place) string{"bash": bash, "zsh": zsh, "fish": fish}[shell]
	if !ok {
		return "", fmt.Errorf("completion: there is none for %q", shell)
	}
	return write(app.Name, tables(app.Node)), nil
}

// tables are the places at and below a command, parents first.
func tables(node *kong.Node) []place {
	p := place{path: node.FullPath()}
	if node.DefaultCmd != nil {
		p.addFlags(node.DefaultCmd.Flags) // which may come without its name
	}
	for n := node; n != nil; n = n.Parent {
		p.addFlags(n.Flags)
	}
	for i, arg := range node.Positional {
		p.addValue(strconv.Itoa(i), valueOf(arg, arg.Name))
	}
	var below []place
	for _, child := range node.Children {
		if !child.Hidden {
			p.commands = append(p.commands, word{child.Name, child.Help})
			below = append(below, tables(child)...)
		}
	}
	return append([]place{p}, below...)
}

func (p *place) addFlags(flags []*kong.Flag) {
	for _, flag := range flags {
		if flag.Hidden {
			continue
		}
		name := "--" + flag.Name
		p.flags = append(p.flags, word{name, flag.Help})
		if flag.Tag.Negatable != "" {
			p.flags = append(p.flags, word{"--no-" + flag.Name, "the opposite of " + name})
		}
		if flag.IsBool() || flag.IsCounter() {
			continue
		}
		p.valued = append(p.valued, name)
		p.addValue(name, valueOf(flag.Value, flag.PlaceHolder))
	}
}

func (p *place) addValue(key string, v value) {
	if !v.empty() {
		p.values = append(p.values, keyed{key, v})
	}
}

// literal is a word that is typed as it stands. Others in a description, such as
// OFFSET, stand for something.
var literal = regexp.MustCompile(`^[a-z0-9_]+$`)

// valueOf reads a value's words from its enumeration, or from a description such as
// "off|auto|require", and what it names from its type or from the description.
func valueOf(v *kong.Value, described string) value {
	if v.Enum != "" {
		return value{words: slices.DeleteFunc(v.EnumSlice(), func(s string) bool { return s == "" })}
	}
	if strings.Contains(described, "|") {
		return value{words: slices.DeleteFunc(strings.Split(described, "|"), func(s string) bool { return !literal.MatchString(s) })}
	}
	switch {
	case strings.EqualFold(described, "dir"), strings.EqualFold(described, "root"):
		return value{kind: directory}
	case strings.EqualFold(described, "file"), v.Tag.Type == "path":
		return value{kind: file}
	}
	return value{}
}

// byValue gathers the keys of equal values, as "PATH KEY", in the order of the places.
func byValue(places []place) (answers []answer) {
	at := make(map[string]int)
	for _, p := range places {
		for _, v := range p.values {
			id := string(v.kind) + " " + strings.Join(v.words, " ")
			if _, known := at[id]; !known {
				at[id] = len(answers)
				answers = append(answers, answer{value: v.value})
			}
			answers[at[id]].keys = append(answers[at[id]].keys, p.path+" "+v.key)
		}
	}
	return answers
}

// answer is a value and everything that has it, each as "PATH KEY".
type answer struct {
	keys []string
	value
}

func texts(words []word) []string {
	list := make([]string, len(words))
	for i, w := range words {
		list[i] = w.text
	}
	return list
}

// quoted writes strings between single quotes, for bash and zsh.
func quoted(list ...string) []string {
	all := make([]string, len(list))
	for i, s := range list {
		all[i] = "'" + strings.ReplaceAll(s, "'", `'\''`) + "'"
	}
	return all
}

package manual

import (
	"slices"
	"strings"

	"github.com/alecthomas/kong"
)

// group is a set of flags that several commands may share, and that has a section of
// its own.
type group struct {
	key, heading string
	flags        []*kong.Flag
}

func (g group) title() string { return strings.ToUpper(strings.TrimSuffix(g.heading, ":")) }

// sharedFlags collects the groups in the order in which commands use them. Of a flag
// that commands describe differently, the first command's words are the section's.
func sharedFlags(app *kong.Application) (groups []group) {
	for _, leaf := range leaves(app) {
		for _, flag := range flagsOf(leaf) {
			if flag.Group == nil {
				continue
			}
			i := slices.IndexFunc(groups, func(g group) bool { return g.key == flag.Group.Key })
			if i < 0 {
				i = len(groups)
				groups = append(groups, group{key: flag.Group.Key, heading: flag.Group.Title})
			}
			if !slices.ContainsFunc(groups[i].flags, func(f *kong.Flag) bool { return f.Name == flag.Name }) {
				groups[i].flags = append(groups[i].flags, flag)
			}
		}
	}
	return groups
}

// sharedBy is the group whose section describes a flag as its command does, or nil.
// The same flag with another default belongs to its command.
func (p *page) sharedBy(flag *kong.Flag) *group {
	for i, g := range p.shared {
		for _, f := range g.flags {
			if f.Name == flag.Name && f.Help == flag.Help && term(f) == term(flag) && aside(f) == aside(flag) {
				return &p.shared[i]
			}
		}
	}
	return nil
}

// variables are those that stand for flags, in the order in which they first appear,
// with the commands that read them.
func variables(app *kong.Application) (list []Entry) {
	all := leaves(app)
	type use struct {
		flags, commands []string
	}
	uses := make(map[string]*use)
	var names []string
	note := func(flag *kong.Flag, command string) {
		for _, name := range flag.Envs {
			u := uses[name]
			if u == nil {
				u = new(use)
				uses[name] = u
				names = append(names, name)
			}
			if !slices.Contains(u.flags, "--"+flag.Name) {
				u.flags = append(u.flags, "--"+flag.Name)
			}
			u.commands = append(u.commands, command)
		}
	}
	for _, leaf := range all {
		for _, flag := range flagsOf(leaf) {
			note(flag, leaf.Path())
		}
	}
	for _, flag := range visible(app.Flags) {
		note(flag, "every command")
	}
	for _, name := range names {
		u := uses[name]
		list = append(list, Entry{name, strings.Join(u.flags, ", ") + " of " + strings.Join(u.commands, ", ")})
	}
	return list
}

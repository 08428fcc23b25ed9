package main

import (
	"fmt"
	"strings"
)

// target is one way to keep logs durable.
type target struct {
	name string
	// logs says what a log is there, and how several are laid out.
	logs string
	// how is what differs from the library's defaults, and who orders appends.
	how string
	// why says what has happened to a record when it is acknowledged.
	why string
	// serves leaves out rows where this target is another one under a second name; nil is all.
	serves func(row) bool
	// extra is measured only when it is asked for.
	extra bool
	open  opener
}

// shared says that several publishers append to one log. Where each has its own, a group
// commit has nobody to gather.
func shared(r row) bool { return r.Publishers > r.Logs }

func several(r row) bool { return r.Logs > 1 }

// targets lists what is compared. Felix comes first: what others are set against.
func targets() []target {
	list := felixTargets()
	for _, of := range [][]target{
		pebbleTargets(), etcdTargets(), raftwalTargets(), tidwallTargets(), bboltTargets(), badgerTargets(), natsTargets(),
	} {
		list = append(list, of...)
	}
	return list
}

// targetTable renders how each is configured, for a document.
func targetTable(list []target) string {
	var b strings.Builder
	b.WriteString("| Target | What a log is | Configuration | Durable when acknowledged, because |\n|---|---|---|---|\n")
	for _, t := range list {
		fmt.Fprintf(&b, "| `%s` | %s | %s | %s |\n", t.name, t.logs, t.how, t.why)
	}
	return b.String()
}

func targetName(t target) string { return t.name }

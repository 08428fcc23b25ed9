package manual

import (
	"fmt"
	"slices"
	"strings"

	"github.com/alecthomas/kong"
)

// About is what the page says beyond the model.
type About struct {
	// Date, as 2006-01-02, and Version stand in the page's footer.
	Date, Version string
	Description   []string // paragraphs
	ExitStatus    []Entry
	Signals       []Entry
	Files         []Entry
	SeeAlso       string
}

// Entry is a term and what it means.
type Entry struct{ Term, Text string }

// Page is the manual page of section 1.
func Page(app *kong.Application, about About) string {
	p := &page{shared: sharedFlags(app)}
	p.head(app, about)
	p.section("NAME")
	p.line(roff(app.Name) + ` \- ` + roff(strings.TrimSuffix(app.Help, ".")))
	p.section("SYNOPSIS")
	p.line(bold(app.Name) + ` \fIcommand\fR [\fIflags\fR] [\fIarguments\fR]`)
	p.section("DESCRIPTION")
	for i, paragraph := range about.Description {
		if i > 0 {
			p.line(".PP")
		}
		p.text(paragraph)
	}
	p.section("COMMANDS")
	for _, leaf := range leaves(app) {
		p.command(leaf)
	}
	p.section("OPTIONS OF EVERY COMMAND")
	p.flags(visible(app.Flags))
	for _, g := range p.shared {
		p.section(g.title())
		p.flags(g.flags)
	}
	p.section("ENVIRONMENT")
	p.text("A flag that is given wins over its variable. A blank variable counts as unset.")
	p.entries(variables(app))
	p.section("EXIT STATUS")
	p.entries(about.ExitStatus)
	p.section("SIGNALS")
	p.entries(about.Signals)
	p.section("FILES")
	p.entries(about.Files)
	p.section("SEE ALSO")
	p.text(about.SeeAlso)
	return p.String()
}

// page is the text so far.
type page struct {
	strings.Builder
	shared []group
}

func (p *page) line(text string) { p.WriteString(text + "\n") }

// columns is the length of a line of the source at most, unless a word is longer.
const columns = 80

// text writes words that are filled into lines by whoever shows the page.
func (p *page) text(text string) {
	line := ""
	for _, word := range strings.Fields(text) {
		if longer := line + " " + roff(word); line != "" && len(longer) <= columns {
			line = longer
			continue
		}
		if line != "" {
			p.line(line)
		}
		line = roff(word)
	}
	p.line(line)
}

func (p *page) section(title string) { p.line(".SH " + quoted(strings.ToUpper(title))) }

// head names the page, and asks for lines that are neither stretched nor hyphenated:
// names of flags and variables are long and have to be found whole.
func (p *page) head(app *kong.Application, about About) {
	p.line(`.\" Written by "` + app.Name + ` man" from the definitions of its commands.`)
	p.line(fmt.Sprintf(".TH %s 1 %s %s %s", strings.ToUpper(app.Name), quoted(about.Date), quoted(app.Name+" "+about.Version), quoted("User Commands")))
	p.line(".nh")
	p.line(".ad l")
}

// command writes one command: how it is called, what it does, its arguments and flags.
// Of the flags that have a section, those that mean the same here are only named.
func (p *page) command(node *kong.Node) {
	p.line(".SS " + quoted(strings.TrimSpace(node.FullPath()+" "+arguments(node))))
	p.text(node.Help)
	for _, arg := range node.Positional {
		p.item(`\fI`+roff(arg.Name)+`\fR`, arg.Help)
	}
	var own []*kong.Flag
	named := make(map[string][]string)
	for _, flag := range flagsOf(node) {
		if g := p.sharedBy(flag); g != nil {
			named[g.key] = append(named[g.key], "--"+flag.Name)
			continue
		}
		own = append(own, flag)
	}
	p.flags(own)
	for _, g := range p.shared {
		switch names := named[g.key]; {
		case len(names) == 0:
		case len(names) == len(g.flags):
			p.line(".PP")
			p.text("It takes everything in " + g.title() + " below.")
		default:
			p.line(".PP")
			p.text("Of " + g.title() + " below it takes " + strings.Join(names, ", ") + ".")
		}
	}
}

// arguments is what follows a command's name: flags that it cannot do without, then
// arguments, in the parser's notation.
func arguments(node *kong.Node) string {
	var words []string
	for n := node; n != nil; n = n.Parent {
		for _, flag := range visible(n.Flags) {
			if flag.Required {
				words = append(words, flag.Summary())
			}
		}
	}
	words = append(words, "[flags]")
	for _, arg := range node.Positional {
		words = append(words, arg.Summary())
	}
	return strings.Join(words, " ")
}

func (p *page) flags(flags []*kong.Flag) {
	for _, flag := range flags {
		p.item(term(flag), flag.Help+aside(flag))
	}
}

// term is a flag as it is typed.
func term(flag *kong.Flag) string {
	text := bold("--" + flag.Name)
	if flag.Tag.Negatable != "" {
		text += ", " + bold("--no-"+flag.Name)
	}
	if flag.Short != 0 {
		text = bold("-"+string(flag.Short)) + ", " + text
	}
	if !flag.IsBool() && !flag.IsCounter() {
		text += `=\fI` + roff(flag.FormatPlaceHolder()) + `\fR`
	}
	return text
}

// aside is what the help of a flag does not say itself.
func aside(flag *kong.Flag) string {
	var notes []string
	if len(flag.Aliases) > 0 {
		notes = append(notes, "also --"+strings.Join(flag.Aliases, ", --"))
	}
	if len(flag.Envs) > 0 {
		notes = append(notes, "variable "+strings.Join(flag.Envs, ", "))
	}
	if len(notes) == 0 {
		return ""
	}
	return " (" + strings.Join(notes, "; ") + ")"
}

func (p *page) entries(list []Entry) {
	for _, e := range list {
		p.item(bold(e.Term), e.Text)
	}
}

func (p *page) item(head, text string) {
	p.line(".TP")
	p.line(head)
	p.text(text)
}

// leaves are the commands that do something, in the order of the definitions.
func leaves(app *kong.Application) []*kong.Node { return app.Leaves(true) }

// flagsOf are a command's own flags and those of the commands it is part of; the
// application's have a section.
func flagsOf(node *kong.Node) []*kong.Flag {
	if node.Parent == nil {
		return nil
	}
	return append(flagsOf(node.Parent), visible(node.Flags)...)
}

func visible(flags []*kong.Flag) []*kong.Flag {
	return slices.DeleteFunc(slices.Clone(flags), func(f *kong.Flag) bool { return f.Hidden })
}

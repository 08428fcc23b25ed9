package manual

import (
	"strings"
	"testing"

	"github.com/alecthomas/kong"
	"github.com/google/go-cmp/cmp"
)

type (
	pace struct {
		Pace string `name:"pace" env:"T_PACE" placeholder:"N" group:"gait" help:"steps a minute"`
		Lane string `name:"lane" env:"T_LANE" placeholder:"N" group:"gait" help:"which lane"`
	}
	walk struct {
		pace
		Shoes string `name:"shoes" required:"" placeholder:"PAIR" help:"a pair that you don't mind"`
	}
	run struct {
		pace
		Far    bool     `name:"far" negatable:"" short:"f" help:"far"`
		Places []string `arg:"" help:"where to"`
	}
	legs struct {
		Walk   walk     `cmd:"" help:"Walk."`
		Run    run      `cmd:"" help:".Run \\ fast."`
		Secret struct{} `cmd:"" hidden:"" help:"Fly."`
		Hush   bool     `name:"hush" hidden:"" help:"be quiet"`
	}
)

// testPage is the page of a grammar whose command run has another default of a shared
// flag.
func testPage(t *testing.T) string {
	t.Helper()
	parser, err := kong.New(new(legs), kong.Name("legs"), kong.Description("Legs."),
		kong.ExplicitGroups([]kong.Group{{Key: "gait", Title: "Gait:"}}))
	if err != nil {
		t.Fatal(err)
	}
	parser.Model.Children[1].Flags[0].Help += " [default 9]"
	return Page(parser.Model, About{
		Date: "2001-02-03", Version: "1.2", Description: []string{"One.", "Two."},
		ExitStatus: []Entry{{"0", "there"}}, Signals: []Entry{{"SIGHUP", "tie"}}, Files: []Entry{{"~/.legs", "two"}}, SeeAlso: "feet(1)",
	})
}

func between(t *testing.T, text, from, to string) string {
	t.Helper()
	_, rest, found := strings.Cut(text, from)
	part, _, ended := strings.Cut(rest, to)
	if !found || !ended {
		t.Fatalf("no text between %q and %q in:\n%s", from, to, text)
	}
	return part
}

func TestACommandHasItsOwnFlagsAndNamesTheSharedOnes(t *testing.T) {
	page := testPage(t)
	want := strings.Join([]string{
		"", "Walk.",
		".TP", `\fB\-\-shoes\fR=\fIPAIR\fR`, `a pair that you don\(aqt mind`,
		".PP", "It takes everything in GAIT below.", "",
	}, "\n")
	if diff := cmp.Diff(want, between(t, page, `.SS "legs walk \-\-shoes=PAIR [flags]"`, ".SS")); diff != "" {
		t.Errorf("(-want +page):\n%s", diff)
	}
}

func TestASharedFlagWithAnotherDefaultIsTheCommandsOwn(t *testing.T) {
	want := strings.Join([]string{
		"", `\&.Run \e fast.`,
		".TP", `\fIplaces\fR`, "where to",
		".TP", `\fB\-\-pace\fR=\fIN\fR`, `steps a minute [default 9] (variable T_PACE)`,
		".TP", `\fB\-f\fR, \fB\-\-far\fR, \fB\-\-no\-far\fR`, "far",
		".PP", `Of GAIT below it takes \-\-lane.`, "",
	}, "\n")
	if diff := cmp.Diff(want, between(t, testPage(t), `.SS "legs run [flags] <places> ..."`, ".SH")); diff != "" {
		t.Errorf("(-want +page):\n%s", diff)
	}
}

func TestWhatIsHiddenIsNotInThePage(t *testing.T) {
	page := testPage(t)
	for _, hidden := range []string{"secret", "hush", "Fly"} {
		if strings.Contains(page, hidden) {
			t.Errorf("the page has %q", hidden)
		}
	}
}

func TestAVariableNamesItsFlagAndItsCommands(t *testing.T) {
	environment := between(t, testPage(t), `.SH "ENVIRONMENT"`, ".SH")
	if want := "\\fBT_PACE\\fR\n\\-\\-pace of walk, run\n"; !strings.Contains(environment, want) {
		t.Errorf("%q is not in:\n%s", want, environment)
	}
}

func TestTextShowsAsItIs(t *testing.T) {
	for text, want := range map[string]string{
		".so /etc/passwd": `\&.so /etc/passwd`,
		"'x' \"y\" `z`":   `\(aqx\(aq \(dqy\(dq \(gaz\(ga`,
		`a\fB --b ^ ~`:    `a\efB \-\-b \(ha \(ti`,
		"é\nnext":         `\[u00E9] next`,
	} {
		if got := roff(text); got != want {
			t.Errorf("%q becomes %q, want %q", text, got, want)
		}
	}
}

func TestNoLineOfTheSourceIsTakenForARequest(t *testing.T) {
	p := new(page)
	p.text(strings.Repeat("word .hidden ", 40))
	for line := range strings.Lines(p.String()) {
		if strings.HasPrefix(line, ".") || len(line) > columns+1 {
			t.Errorf("the line %q", line)
		}
	}
}

package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"

	"github.com/alecthomas/kong"
)

type grammar struct {
	Build           buildCommand           `cmd:"" default:"withargs" help:"Build tarballs, Debian packages, lists of components and checksums."`
	Check           checkCommand           `cmd:"" help:"Build the last commit twice, in different places, and compare."`
	Licences        licencesCommand        `cmd:"" help:"List the modules linked into felixd with their licences; fails on one that is not permitted."`
	Vulnerabilities vulnerabilitiesCommand `cmd:"" help:"Ask the Go vulnerability database about the code that felixd calls; fails on a finding."`
}

// sourceFlags say what is packaged.
type sourceFlags struct {
	Source string   `name:"source" default:"." type:"path" placeholder:"DIR" help:"the top of the source tree"`
	Arch   []string `name:"arch" default:"amd64,arm64" enum:"amd64,arm64" help:"architectures, as Go and Debian call them"`
}

type buildCommand struct {
	sourceFlags
	Out     string `name:"out" default:"dist" type:"path" placeholder:"DIR" help:"where the files go"`
	Version string `name:"version" placeholder:"VERSION" help:"the version, for a source without its history; otherwise the commit's tag says it"`
}

func (c *buildCommand) Run(ctx context.Context) error {
	made, err := build(ctx, options{source: c.Source, out: c.Out, arches: c.Arch, version: c.Version})
	if err != nil {
		return err
	}
	if made.modified {
		fmt.Println("the source has changes that no commit has: this build cannot be made again")
	}
	for _, sum := range made.sums {
		fmt.Println(sum)
	}
	return nil
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	parsed := kong.Parse(new(grammar), kong.Name("packaging"), kong.Description("Make Felix's packages."),
		kong.BindTo(ctx, (*context.Context)(nil)), kong.ConfigureHelp(kong.HelpOptions{Compact: true}))
	parsed.FatalIfErrorf(parsed.Run())
}

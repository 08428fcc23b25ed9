package main

import (
	"context"
	"fmt"
	"os"

	"github.com/alecthomas/kong"

	"felix.local/felix/test/matrix/ending"
)

// commands is the grammar.
type commands struct {
	Kernels kernelsCommand `cmd:"" help:"Kernels and denials: the backend chosen, its reason, the demo, and the same bytes everywhere."`

	Powercut  powercutCommand  `cmd:"" help:"Power cuts while a guest appends, and at moments of its disk's log of writes: what was promised has to be there."`
	Diskerror diskerrorCommand `cmd:"" help:"Disks that fail while a guest appends: the log is poisoned, nothing is acknowledged, no sync is retried, nothing is lost."`

	All allCommand `cmd:"" help:"All of these, the tests of test/filesystems and test/docker.sh --start, one after the other, as one page."`

	Filesystems filesystemsCommand `cmd:"" help:"The tests on real filesystems in a guest, whose kernel mounts with quotas: what runs out is refused, and nothing is lost."`
}

func main() {
	ctx, stop := ending.Context()
	defer stop()
	var grammar commands
	parsed := kong.Parse(&grammar, kong.Name("matrix"), kong.UsageOnError(), kong.BindTo(ctx, (*context.Context)(nil)))
	if err := parsed.Run(); err != nil {
		fmt.Fprintln(os.Stderr, "matrix:", err)
		os.Exit(1)
	}
}

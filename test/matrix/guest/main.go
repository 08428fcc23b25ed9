package main

import (
	"context"
	"fmt"
	"os"

	"felix.local/felix/test/matrix/ending"
)

// modes are what the program can be asked for, by its first argument.
func modes() map[string]func(ctx context.Context, args []string) error {
	return map[string]func(context.Context, []string) error{
		"run":        runOnHost,
		"deny":       denyAndExec,
		"limit":      limitAndExec,
		"workload":   workload,
		"append":     appendUntilCut,
		"images":     lookAtImages,
		"disk-error": sufferDiskErrors,
	}
}

func main() {
	if os.Getpid() == 1 {
		beFirst()
	}
	if err := dispatch(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "guest:", err)
		os.Exit(1)
	}
}

func dispatch(args []string) error {
	if len(args) == 0 {
		return fmt.Errorf("a mode is missing; see the package comment")
	}
	mode := modes()[args[0]]
	if mode == nil {
		return fmt.Errorf("no mode %q is known", args[0])
	}
	ctx, stop := ending.Context()
	defer stop()
	return mode(ctx, args[1:])
}

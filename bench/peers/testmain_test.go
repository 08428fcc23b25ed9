package main

import (
	"context"
	"fmt"
	"os"
	"strconv"
	"testing"
)

// liar acknowledges before anything is durable.
func liar() target {
	return target{name: "liar", open: perLog(tidwallWith(lock, true))}
}

// TestMain lets the test binary be the process that is traced, which may be told to lie.
func TestMain(m *testing.M) {
	if len(os.Args) == 7 && os.Args[1] == "--child-target" {
		appends, err := strconv.Atoi(os.Args[4])
		if err == nil {
			err = child(context.Background(), append(targets(), liar()), os.Args[2], os.Args[6], appends)
		}
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	os.Exit(m.Run())
}

package main

import (
	"context"
	"errors"
	"path/filepath"
	"strings"
	"testing"

	"felix.local/felix/test/matrix/plan"
)

func TestOnlyOnePlanAtATimeChangesAHost(t *testing.T) {
	dir := t.TempDir()
	first, err := alone(t.Context(), dir)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := alone(ctx, dir); !errors.Is(err, context.Canceled) || !strings.Contains(err.Error(), "another run of the matrix is under way") {
		t.Errorf("got %v", err)
	}
	first()
	second, err := alone(ctx, dir)
	if err != nil {
		t.Fatalf("the lock is not given back: %v", err)
	}
	second()
}

func TestAPlanThatRunsOnAHostWaitsForTheOther(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	// Where a plan runs already, that is the other.
	if release, err := alone(ctx, sysctlDir); err == nil {
		defer release()
	}
	if err := runOnHost(ctx, []string{planOf(t)}); err == nil || !strings.Contains(err.Error(), "another run of the matrix") {
		t.Errorf("got %v", err)
	}
}

// planOf is the path of a plan with nothing to do.
func planOf(t *testing.T) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "plan.json")
	if err := (plan.Plan{}).Write(path); err != nil {
		t.Fatal(err)
	}
	return path
}

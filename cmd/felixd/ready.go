package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"
)

// readyCommand asks a server's admin listener, for health checks and for scripts
// that wait.
type readyCommand struct {
	Admin string        `name:"admin" env:"FELIX_ADMIN" default:"http://127.0.0.1:9644" placeholder:"URL" help:"the server's admin address"`
	Wait  time.Duration `name:"wait" default:"0s" placeholder:"DURATION" help:"how long to wait until it is ready"`
	identityFlags
	outputFlags
}

// readyPollInterval is the time between two questions.
const readyPollInterval = 100 * time.Millisecond

func (readyReport) kind() string { return "readiness" }

func (e readyReport) text() string {
	s := "ready"
	if !e.Ready {
		s = "not ready: " + e.Reason
	}
	for _, u := range e.Unavailable {
		s += "\n" + unavailableEvent{u}.text()
	}
	if more := e.UnavailableCount - len(e.Unavailable); more > 0 {
		s += fmt.Sprintf("\nand %d more shards that do not serve", more)
	}
	return s
}

// Run asks until the server is ready or the time is up.
func (c *readyCommand) Run(a *app) error {
	admin, err := c.client("--admin (FELIX_ADMIN)", c.Admin)
	if err != nil {
		return err
	}
	deadline := time.NewTimer(c.Wait)
	defer deadline.Stop()
	again := time.NewTicker(readyPollInterval)
	defer again.Stop()
	for {
		report, err := admin.ready(a.ctx)
		if err == nil && report.Ready {
			return a.output(c.outputFlags).emit(report)
		}
		select {
		case <-again.C:
		case <-a.ctx.Done():
			return a.ctx.Err()
		case <-deadline.C:
			if err != nil {
				return err
			}
			return errors.Join(a.output(c.outputFlags).emit(report), &exitError{code: exitFailure})
		}
	}
}

// ready asks once. A server that is not ready is no error.
func (c *client) ready(ctx context.Context) (report readyReport, err error) {
	out, err := http.NewRequestWithContext(ctx, http.MethodGet, c.base.JoinPath("ready").String(), nil)
	if err != nil {
		return report, err
	}
	answer, err := c.send(out)
	if err != nil {
		return report, err
	}
	defer joined(&err, answer.Body.Close)
	if answer.StatusCode == http.StatusNotFound {
		return report, fmt.Errorf("%s is no admin listener: it has no /ready; --admin is the address that felixd serve has in FELIX_ADMIN_ADDR", c.base.Host)
	}
	if answer.StatusCode != http.StatusOK && answer.StatusCode != http.StatusServiceUnavailable {
		return report, readServerError(answer)
	}
	err = json.NewDecoder(io.LimitReader(answer.Body, clientDocumentMax)).Decode(&report)
	return report, err
}

package main

import (
	"errors"
	"fmt"
	"strings"

	"felix.local/felix/auth"
)

type credentialsCheckCommand struct {
	credentialsFlags
}

// credentialEvent is one principal.
type credentialEvent struct {
	Name   string   `json:"name"`
	Grants []string `json:"grants"`
	// Scheme and Iterations are those of the secret's hash; 0 is a quick one.
	Scheme     string `json:"scheme"`
	Iterations int    `json:"iterations"`
	Line       int    `json:"line"`
}

func (credentialEvent) kind() string { return "credential" }

func (e credentialEvent) text() string {
	return fmt.Sprintf("line %d: %s may %s", e.Line, e.Name, strings.Join(e.Grants, " "))
}

// credentialProblemEvent is one reason to refuse the file.
type credentialProblemEvent struct {
	// Line counts from 1; 0 is the file as a whole.
	Line int    `json:"line"`
	Text string `json:"text"`
}

func (credentialProblemEvent) kind() string { return "credential_problem" }

func (e credentialProblemEvent) text() string {
	if e.Line == 0 {
		return "PROBLEM: " + e.Text
	}
	return fmt.Sprintf("line %d: PROBLEM: %s", e.Line, e.Text)
}

// credentialsCheckedEvent sums up.
type credentialsCheckedEvent struct {
	File       string `json:"file"`
	Principals int    `json:"principals"`
	Problems   int    `json:"problems"`
}

func (credentialsCheckedEvent) kind() string { return "credentials_checked" }

func (e credentialsCheckedEvent) text() string {
	if e.Problems > 0 {
		return fmt.Sprintf("%s: %d problems; a server would refuse it", e.File, e.Problems)
	}
	return fmt.Sprintf("%s: %d principals", e.File, e.Principals)
}

// Run does what the server does at its start, and prints what it finds.
func (c *credentialsCheckCommand) Run(a *app) error {
	out := a.output(c.outputFlags)
	credentials, err := auth.Load(c.File)
	var refused *auth.FileError
	if errors.As(err, &refused) {
		return c.report(out, refused)
	}
	if err != nil {
		return err
	}
	sum := credentialsCheckedEvent{File: c.File}
	for _, p := range credentials.List() {
		sum.Principals++
		if err := out.emit(credentialEvent{p.Name, p.Grants, p.Scheme, p.Iterations, p.Line}); err != nil {
			return err
		}
	}
	return out.emit(sum)
}

// report prints why the file is refused.
func (c *credentialsCheckCommand) report(out *output, refused *auth.FileError) error {
	problems := refused.Problems
	if len(problems) == 0 {
		problems = []auth.Problem{{Text: refused.Err.Error()}}
	}
	for _, p := range problems {
		if err := out.emit(credentialProblemEvent{p.Line, p.Text}); err != nil {
			return err
		}
	}
	if err := out.emit(credentialsCheckedEvent{File: c.File, Problems: len(problems)}); err != nil {
		return err
	}
	return &exitError{code: exitVerify}
}

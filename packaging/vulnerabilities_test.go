package main

import (
	"errors"
	"os"
	"strings"
	"testing"
)

func TestTheDocumentSaysAboutWhatGovulncheckIsAsked(t *testing.T) {
	text, err := os.ReadFile("../docs/packaging.md")
	if err != nil {
		t.Fatal(err)
	}
	if want := "by `govulncheck " + govulncheckOf + "`"; !strings.Contains(string(text), want) {
		t.Errorf("docs/packaging.md does not say %s", want)
	}
}

func TestAReportIsJudgedByWhatItSaysLast(t *testing.T) {
	const (
		asked    = `{"progress":{"message":"Fetching vulnerabilities from the database..."}}`
		checked  = `{"progress":{"message":"Checking the code against the vulnerabilities..."}}`
		called   = `{"finding":{"osv":"GO-1","fixed_version":"v1.2.3","trace":[{"module":"m","version":"v1.0.0","package":"m/p","function":"F"}]}}`
		imported = `{"finding":{"osv":"GO-2","trace":[{"module":"m","version":"v1.0.0","package":"m/p"}]}}`
	)
	silent := errors.New("exit status 1\ngovulncheck: fetching vulnerabilities: dial tcp: no such host")
	for name, c := range map[string]struct {
		report  string
		failed  error
		verdict string
		fails   bool
	}{
		"nothing found":                            {asked + checked, nil, "no vulnerable code is called; 0 known", false},
		"something found that is not called":       {asked + checked + imported + imported, nil, "no vulnerable code is called; 1 known", false},
		"something found that is called":           {asked + checked + imported + called, nil, "GO-1 in m v1.0.0, fixed in v1.2.3", true},
		"found, then broken off":                   {asked + checked + called, errors.New("killed"), "GO-1", true},
		"the database does not answer":             {asked, silent, "skipped: the vulnerability database does not answer", false},
		"another failure while asking":             {asked, errors.New("exit status 1\nno space left on device"), "not checked", true},
		"the code does not build":                  {"", errors.New("exit status 1\nloading packages"), "not checked", true},
		"a failure after the answer":               {asked + checked, silent, "not checked", true},
		"an end without an answer":                 {asked, nil, "not checked", true},
		"no output at all":                         {"", nil, "not checked", true},
		"output that nobody understands":           {"<html>", nil, "not understood", true},
		"output that ends in the middle of a line": {asked + checked + called[:40], nil, "not understood", true},
	} {
		t.Run(name, func(t *testing.T) {
			verdict, err := judgeReport([]byte(c.report), c.failed)
			if !strings.Contains(verdict, c.verdict) || (err != nil) != c.fails {
				t.Errorf("%q, %v", verdict, err)
			}
		})
	}
}

package main

import (
	"regexp"
	"strings"

	"github.com/alecthomas/kong"
)

// mistakes are what the parser says of a command line in words for who wrote the
// parser, and what it is to say.
func mistakes() map[*regexp.Regexp]string {
	return map[*regexp.Regexp]string{
		regexp.MustCompile(`expected \S+ value but got "EOL" \(<EOL>\)`):                  `a value is missing`,
		regexp.MustCompile(`expected \S+ value but got (".*") \((?:long|short) flag\).*`): `a value is missing: $1 is a flag`,
		regexp.MustCompile(`expected a valid \d+ bit int but got (".*")`):                 `$1 is no whole number`,
		regexp.MustCompile(`expected a valid \d+ bit uint but got (".*")`):                `$1 is no whole number from 0 on`,
		regexp.MustCompile(`expected duration but got ("[^"]*")(?:: time: .*)?`):          `$1 is no duration such as 500ms, 60s or 5m`,
		regexp.MustCompile(`expected one of ("[a-z]+"(?:, *"[a-z]+")*)(?:, +\.\.\.)?$`):   `a command is missing: one of $1`,
		regexp.MustCompile(`^expected ("<[a-z]+>.*)$`):                                    `an argument is missing: $1`,
	}
}

func mistakeText(text string) string {
	for pattern, plain := range mistakes() {
		text = pattern.ReplaceAllString(text, plain)
	}
	return text
}

// givenFlags are the flags of a command line, by the variables that would do the same.
type givenFlags map[string]string

// flagsGiven reads them off a command line that was parsed.
func flagsGiven(parsed *kong.Context) givenFlags {
	flags := make(givenFlags)
	for _, element := range parsed.Path {
		if element.Flag == nil || element.Resolved {
			continue
		}
		for _, variable := range element.Flag.Envs {
			flags[variable] = "--" + element.Flag.Name
		}
	}
	return flags
}

// name puts the flag that was given in the place of the variable that was not: settings
// are judged under the names of the variables.
func (f givenFlags) name(text string) string {
	for variable, flag := range f {
		text = strings.ReplaceAll(text, flag+" ("+variable+")", flag)
	}
	return regexp.MustCompile(`\bFELIX_[A-Z_]+\b`).ReplaceAllStringFunc(text, func(variable string) string {
		if flag, given := f[variable]; given {
			return flag
		}
		return variable
	})
}

// Package manual writes a command's manual page, in the macros of man(7), from kong's
// model of it: every command, flag and variable that the parser knows is in the page,
// in the parser's own words. What no model holds (exit codes, files, signals) is
// handed in.
//
// The same model gives the same bytes.
package manual

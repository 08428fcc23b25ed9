// Package completion writes shell code that completes a command's subcommands, flags
// and values, from kong's model of it. The code holds tables of what may stand where
// and one walk over the words typed so far; all three shells get the same tables. It
// runs nothing but the shell itself.
package completion

// Package plan is what the matrix asks a machine to do, and what the machine answers:
// the steps, as JSON in a file, and a line of JSON for each result.
//
// It owns the two formats and the words around them. It runs nothing: that is the guest
// program's, which takes a plan as the first process of a virtual machine and as an
// ordinary program alike.
package plan

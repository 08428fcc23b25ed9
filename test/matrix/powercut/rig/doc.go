// Package rig starts a machine for one mode of the guest program: it writes the plan, the
// specification and the first filesystem, and hears what the program says.
package rig

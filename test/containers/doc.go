// Package containers holds Dockerfile.linux and what is deployed with it against the
// program, without a container engine: the build command is the file's own, run on a copy
// of the tree, and what the image declares is tried with what the command made.
//
// It owns reading the file. It never runs a container: test/docker.sh does.
package containers

// Package rig is what the commands that measure ratios and curves have in common: their
// flags, the directory that they work in and remove, the choice of what to measure by
// name, the configuration of the stores, and the file with every sample.
//
// It measures and judges nothing, and keeps nothing from one call to the next.
package rig

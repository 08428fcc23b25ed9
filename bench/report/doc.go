// Package report makes a page of measurements that a person wants to look at: plots,
// every number behind them, the machine they are of, and the command that repeats
// them.
//
// It measures nothing and judges nothing; what it is given is what it shows.
//
// # Invariants
//
//   - The page is one file that needs no network: its plots are in it.
//   - Every plotted value is in a table of the page too, and in results.json.
//   - A plot shows where zero is, or says on its axis that it is logarithmic.
package report

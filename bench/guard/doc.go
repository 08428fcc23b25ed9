// Command guard measures the ratios that Felix holds itself to and compares them with
// their limits, in about two minutes:
//
//	go run ./bench/guard [-dir DIR] [-inform] [-budget 2m] [-rounds 3] [-only NAME] [-json FILE]
//
// It prints a table, with -json writes every sample of both sides to a file, and exits
// 1 when a limit is missed or a measurement failed; with -inform always 0, for where a
// noisy machine must not stop anything.
//
// What is held against a limit is the median of the ratios of the pairs, which has their
// 95% interval beside it: what drifts for both sides of a pair cancels in its ratio. The
// ratio of the medians of both sides is only shown.
//
// Only ratios of measurements made side by side have a limit, since rates say more
// about the machine than about the code. One that is missed is measured again, up to
// three times, while the budget lasts, and the best value counts: noise makes a ratio
// worse on one try, a regression on all of them.
//
// It never measures what it does not read back: a lost record is a failure.
package main

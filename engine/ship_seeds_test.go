package engine_test

// shipSeeds is how many runs of the replicas' test there are per mode: fewer under
// the race detector, which makes each of them take long.
func shipSeeds() uint64 {
	if raceDetector {
		return 4
	}
	return 20
}

package engine_test

// shipSeeds is how many runs of the replicas' test there are per mode.
const shipSeeds = 20

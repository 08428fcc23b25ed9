//go:build race

package enumerate

// raced: the race detector makes everything several times slower.
const raced = true

//go:build !race

package enumerate

const raced = false

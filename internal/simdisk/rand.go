package simdisk

// Rand is the SplitMix64 generator. All choices of this package come from it, so
// that a seed printed by a failing test means the same on every machine and in
// every version.
type Rand struct{ state uint64 }

// NewRand starts a generator.
func NewRand(seed uint64) *Rand { return &Rand{state: seed} }

// Next gives the next 64 bits.
func (r *Rand) Next() uint64 {
	r.state += 0x9E3779B97F4A7C15
	z := r.state
	z = (z ^ z>>30) * 0xBF58476D1CE4E5B9
	z = (z ^ z>>27) * 0x94D049BB133111EB
	return z ^ z>>31
}

// Below gives a number from 0 to n-1, by remainder; 0 for n = 0.
func (r *Rand) Below(n uint64) uint64 {
	if n == 0 {
		return 0
	}
	return r.Next() % n
}

// Coin gives the low bit of the next number.
func (r *Rand) Coin() bool { return r.Next()&1 == 1 }

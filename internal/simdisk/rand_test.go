package simdisk_test

import (
	"testing"

	"felix.local/felix/internal/simdisk"
)

func TestTheFirstNumbersOfSeedOneArePinned(t *testing.T) {
	r := simdisk.NewRand(1)
	for i, want := range []uint64{0x910a2dec89025cc1, 0xbeeb8da1658eec67, 0xf893a2eefb32555e} {
		if got := r.Next(); got != want {
			t.Errorf("number %d is %016x, want %016x", i, got, want)
		}
	}
}

func TestBelowIsTheRemainderAndCoinTheLowBit(t *testing.T) {
	for seed := range uint64(50) {
		next := simdisk.NewRand(seed).Next()
		if got := simdisk.NewRand(seed).Below(7); got != next%7 {
			t.Errorf("seed %d: below 7 is %d, want %d", seed, got, next%7)
		}
		if got := simdisk.NewRand(seed).Coin(); got != (next%2 == 1) {
			t.Errorf("seed %d: coin is %v", seed, got)
		}
	}
	if simdisk.NewRand(1).Below(0) != 0 {
		t.Error("below 0 is not 0")
	}
}

package compact

import "math/bits"

// MinReadings is the least number of readings of a window in a stream of such windows, so that packing adds little
// to their error (Packer.Pack).
const MinReadings = 64

// Order returns the readings of a window in the order in which they are sent, so that bootstrapping
// (henc/bootstrap's Coefficients) brings slots[i] of a window to slots in the order in which they are here: the first
// half of them to one ciphertext, the second half to the same slots of the other. It fills up with zeros to
// a power of two, at least MinReadings. With half of that: reading j is slots[j] with the bits of j below half
// reversed. The result is new memory; whoever has secrets there wipes it.
func Order(slots []float64) []float64 {
	n := MinReadings
	for n < len(slots) {
		n <<= 1
	}
	out := make([]float64, n)
	for i, x := range slots {
		out[i&(n/2)|reversed(i&(n/2-1), n/2)] = x
	}
	return out
}

// reversed is i with its bits reversed, for i below n, a power of two.
func reversed(i, n int) int {
	if n < 2 {
		return i
	}
	return int(bits.Reverse64(uint64(i)) >> (64 - bits.Len(uint(n-1))))
}

// Spot is where Pack and Join have to put the window whose slots, in Order, shall come to the slots
// block*readings/2 and following of both ciphertexts: its index in Join's argument, and that in Pack's.
// readings is a power of two, at least 2, and block below twice the slots over readings. ok is false for others.
func (p *Packer) Spot(block, readings int) (packed, window int, ok bool) {
	n := p.Windows(readings)
	if n == 0 || readings < 2 || readings&(readings-1) != 0 || block < 0 || block >= n*p.receiver.Windows() {
		return 0, 0, false
	}
	at := reversed(block, n*p.receiver.Windows())
	return at % p.receiver.Windows(), at / p.receiver.Windows(), true
}

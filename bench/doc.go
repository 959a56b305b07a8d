// Command bench times this library and Lattigo v6 side by side: one process, one
// core, the same ring degree, size of modulus and number of key-switching digits,
// uniform ternary secrets on both sides and noise of deviation 3.24 (centred
// binomial) against 3.2 (rounded Gaussian).
//
// Times are processor times of the process, garbage collection included, which do
// not count waiting for other processes. Rounds are interleaved: in every round each operation runs
// once on our side and
// once on Lattigo's, each for about the same time, so that what else the machine
// does touches both. The table gives the median and the least of the rounds and the
// ratio of the medians; -json writes the same with every field.
//
// Lattigo's limbs are about 50 bits wide and ours below 30, so its chains have
// about half as many limbs for one modulus; our sets rescale by pairs of primes.
// Lattigo encrypts a plaintext that was transformed before and ours starts from
// integral coefficients, one transform per limb more. Lattigo writes into a result
// that exists; ours is freed after each call, so that the next finds its memory.
//
// -boot compares bootstrappings from level 0, one for one, with the precision of both for random and constant
// slots: our sets beside those of Lattigo's own sets for dense secrets that have the same degree and about the
// same modulus. Both have an ephemeral secret of 32 nonzero coefficients. boot15-13 has the moduli of boot15 and
// a ring of 2^13, which is not secure, and needs a quarter of the memory.
package main

// Package bootstrap gives ciphertexts without levels their levels back (bootstrapping), with
// public keys only. A Plan fixes levels, scales and keys; henc/secret's Key.BootstrapKeys makes the keys; a
// Bootstrapper computes. docs/cryptography.md has the algorithm with its sources.
//
// Precision. Errors below are those of one real or imaginary part of a slot, for slots with parts
// in [-1, 1]: root mean square over the slots, and the largest. Tests assert them.
//
//	set     slots      levels   random              all others
//	boot15  all 2^14   3 to 6   2^-15.5, 2^-12.5    2^-15.5, 2^-12.5
//	boot16  all 2^15   2 to 15  2^-22, 2^-20        2^-21.2, 2^-20
//
// Slots become coefficients first (SlotsToCoeffs), then the modulus is raised, and the coefficients come back to the
// slots without its multiples: so what is off in one slot stays there. With f a slot times the message's scale over the
// modulus of level 0, the sine is off by (2*pi*f)^2/6 of it: 2^-21.7 of a value of 1 in boot16 (Plan.Error). Larger
// values lose precision in proportion to their cube, and beyond Plan.MaxScale they are refused.
//
// Coefficients leaves SlotsToCoeffs out: it puts the coefficients of a message, such as the readings of
// compact windows, into slots.
package bootstrap

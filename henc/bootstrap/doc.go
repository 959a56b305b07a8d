// Package bootstrap gives ciphertexts without levels their levels back (bootstrapping), with
// public keys only. A Plan fixes levels, scales and keys; henc/secret's Key.BootstrapKeys makes the keys; a
// Bootstrapper computes. docs/cryptography.md has the algorithm with its sources.
//
// Precision. Errors below are those of one real or imaginary part of a slot, for slots with parts
// in [-1, 1]: root mean square over the slots, and the largest. Tests assert them.
//
//	set     slots      levels left  random, extreme     constant
//	boot15  all 2^14   3            2^-15.5, 2^-12.5    2^-15.5, 2^-12.5
//	boot16  all 2^15   13           2^-21.5, 2^-19      2^-19.3, 2^-18
//
// With f a coefficient of the message over the modulus of level 0, the sine is off by (2*pi*f)^2/6 of it. A constant in
// every slot would be one large coefficient; a public polynomial spreads it over 18 first, at no level, which gains
// four bits in boot16. Slots that repeat after fewer than 16 are not spread, and have 2^-15.5.
// Plan.Error bounds what any real message can lose, which is more. Values
// above 1 lose precision in proportion to their cube, and beyond 2^6 everything.
//
// Coefficients stops before SlotsToCoeffs: it puts the coefficients of a message, such as the readings of
// compact windows, into slots.
package bootstrap

// Package bootstrap gives ciphertexts without levels their levels back (bootstrapping), with
// public keys only. A Plan fixes levels, scales and keys; henc/secret's Key.BootstrapKeys makes the keys; a
// Bootstrapper computes. docs/cryptography.md has the algorithm with its sources.
//
// Precision. Errors below are those of one real or imaginary part of a slot, for slots with parts
// in [-1, 1]: root mean square over the slots, and the largest. Tests assert them.
//
//	set     slots      levels left  random, extreme     constant
//	boot15  all 2^14   3            2^-15.5, 2^-12.5    2^-14.5, 2^-12.5
//	boot16  all 2^15   13           2^-21.5, 2^-19      2^-15, 2^-14.5
//
// A constant in every slot is one large coefficient of the message, where the sine differs from its
// argument by (2*pi*v/2^9)^2/6 of the value v: 2^-15.3 for v = 1. There is no correction for it yet. Values
// above 1 lose precision in proportion to their cube, and beyond 2^6 everything.
//
// Coefficients stops before SlotsToCoeffs: it puts the coefficients of a message, such as the readings of
// compact windows, into slots.
package bootstrap

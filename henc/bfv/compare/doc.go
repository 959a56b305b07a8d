// Package compare compares two encrypted numbers, exactly and without interaction, by the formulas of cuXCMP (Yang,
// Shen, Liu and Zhao, CUDA-Accelerated Private Comparison Based on Homomorphic Encryption), corrected.
//
// A number a below N is encrypted as the monomial X^a. The constant coefficient of (1 + X + ... + X^(N-1)) * X^a * X^-b
// modulo X^N + 1 is 1 if a <= b, and -1 otherwise. X^-b is X^b under the automorphism of 2N-1, which is one key switch
// (AKS). log2(N) automorphisms, each added, multiply the constant coefficient by N and remove all others (CTX); a
// product with -1/(2N) before them, and 1/2 added, leave 1 if a > b and 0 otherwise. The paper has 1/2 as mu, which is
// -1/2, in line 3 of its Figure 1, and no factor of 1/N.
//
// Numbers below N^2 are compared by two digits. What comes out is a constant polynomial: the same number in every slot,
// so products and sums with it go on. It has the noise of the operations that made it; Masked, for a result that is
// decrypted at once, hides all but the comparison in the plaintext; its noise is not flooded.
package compare

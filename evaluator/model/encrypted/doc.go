// Package encrypted evaluates forests on encrypted readings: the plans of package rangecover, on ciphertexts of package
// henc/bfv.
//
// A device sends one ciphertext for each row of readings (package steps). The evaluator, who has the model and
// evaluation keys (steps.Elements, and relinearisation), answers with a few ciphertexts for each block of trees
// (Evaluator.Run), and the key holder learns the sums of the trees from them (Open) and nothing else about the model,
// as far as plaintexts go. The noise of results is not flooded: who decrypts and analyses it may learn of the model.
package encrypted

// Package rangecover plans the evaluation of a forest on encrypted readings by range covers, and carries it out on
// plain numbers modulo t: the reference for package encrypted, which does the same on ciphertexts.
//
// The idea is that of Mahdavi, Ni, Linkov and Kerschbaum, Level Up: Private Non-Interactive Decision Tree Evaluation
// using Levelled Homomorphic Encryption (2023, arXiv 2309.06496): the steps that a split sends right are a few
// subtrees of the tree of all steps, so a comparison is a sum of tests for equal prefixes. Here the tree of steps has
// 16 branches (Width bits a digit) instead of two, and a digit is sent as a thermometer, the bits "digit >= k" for k
// from 1 to 15. What a split says of one digit is then a linear form in those bits, and a term of a cover is the
// product of at most four forms.
//
// Slots hold terms of splits, so that one product does them all. The terms stand in the order of a walk around the
// tree: c of a split before its left branch, 1-2c between the branches, c-1 after the right one, where c is 1 if
// the reading goes right. The sum of all slots up to a leaf is then the number of splits on its path that decide
// otherwise: 0 for the leaf that the row ends in, and for no other. Prefix sums need rotations only. The slots of a
// whole walk add up to 0, so that the walk around another tree can follow in the same row.
//
// The results are blinded: each leaf's number of wrong splits, times a random one, and its value plus another random
// multiple. The key holder finds one zero for each tree, and beside it the tree's value plus a random share; the
// shares add up to nothing, so that only the sum of all trees is learned. Random rotations, a random order of rows and
// of blocks hide which leaf it was. A tree that shares a block with others has a segment of the slots to itself, within
// which it is rotated by a number of its own: its zero is equally likely to be in each slot of the segment, whatever
// the leaf. All segments of a plan are equally long.
package rangecover

// Package program turns an expression over sensor windows, such as
// "mean(x)", "cov(x, y)" or "x*y + 0.5*z", into a circuit over CKKS
// ciphertexts, and runs it without any secret key.
//
// The way of an expression:
//
//	parse     text -> syntax tree (expr-lang's grammar), with limits
//	lower     syntax tree -> graph: types, constant folding, common parts once
//	plan      graph -> steps: levels, scales, rescaling, rotations, error bound
//	run       steps over a henc.Evaluator
//
// A value is held as A*ct + B with public numbers A and B, so that units,
// offsets and divisions cost neither a level nor noise. The planner tries a few
// policies of when to rescale and keeps the cheapest plan whose promised error is
// within half a bit of the best. Everything is decided at compile time, without keys; docs/programs.md explains
// the language and how the promised error is computed.
//
// The package holds no secret and imports no secret-key code.
package program

// Package plan finds out before an agent runs whether it can work, and what that costs.
//
//	Check    finds all mistakes of a configuration at once, with their places
//	Prepare  checks likewise, and returns the keys and open sources
//	Predict  predicts traffic, time, memory, wear and precision
package plan

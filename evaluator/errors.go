package evaluator

import "errors"

// ErrConfig: the configuration cannot be served; the message says why.
var ErrConfig = errors.New("evaluator configuration")

// ErrAbsent: the configuration is sound, and something that it names cannot be
// used now: a key, a secret, a directory. It may be there later, so that trying
// again is worth it, unlike with other mistakes.
var ErrAbsent = errors.New("something that the configuration names is absent")

// Reasons for refusals besides those of package transport.
var (
	// ErrSamples: a window says that it holds more samples than it can.
	ErrSamples = errors.New("wrong number of samples")
	// ErrWindow: a window by time does not lie on the common grid.
	ErrWindow = errors.New("window is off the grid")
	// ErrDuplicate: there is another window of the same number.
	ErrDuplicate = errors.New("second window for the same place")
	// ErrKeyChange: inputs of one result are under different keys.
	ErrKeyChange = errors.New("inputs are under different keys")
	// ErrUnjoined: a window left without all that it was to be joined with.
	ErrUnjoined = errors.New("window left without its partners")
)

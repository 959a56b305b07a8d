package store

import "errors"

// Errors of this package.
var (
	// ErrState: the state or the store of an evaluator cannot be used.
	ErrState = errors.New("evaluator state")
	// ErrKnown: the evaluator answers for the object already.
	ErrKnown = errors.New("the object was taken before")
	// ErrBusy: the store has no room, or its disk fails.
	ErrBusy = errors.New("the store takes nothing")
	// ErrShare: the undelivered results of a program fill its share of the store.
	ErrShare = errors.New("results that are not delivered fill their share of it")
)

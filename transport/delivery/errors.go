package delivery

import "errors"

// ErrNumbered is for Options.Renumber: the object cannot have another number. It is dropped.
var ErrNumbered = errors.New("the object is bound to its number")

var (
	errRefused  = errors.New("refused")
	errReplayed = errors.New("the number was used before")
	errSilent   = errors.New("no receipt")
	errBusy     = errors.New("the receiver accepts nothing for now; its disk may be full")
	errUnread   = errors.New("no program of the evaluator reads this stream")

	errRenumbered = errors.New("the number of a window that was never sent is in use elsewhere; the window has a " +
		"new one")
)

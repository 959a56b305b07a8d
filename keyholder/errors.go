package keyholder

import (
	"errors"

	"github.com/hencedge/hencedge/keyset"
)

// Errors of key sets and results; test with errors.Is. Every class of refused
// result has its own.
var (
	// ErrPermissions: a secret is accessible to other users of the machine.
	ErrPermissions = errors.New("keyholder: secret is accessible to others")
	// ErrClaimed: another process reads results under the same client id.
	ErrClaimed = errors.New("keyholder: two would read results as one client")
	// ErrExists: the key set or file is there already and is not overwritten.
	ErrExists = errors.New("keyholder: exists already")
	// ErrNoKeySet: the directory holds no key set.
	ErrNoKeySet = errors.New("keyholder: no key set")
	// ErrCorrupt: a file of the key set is damaged or does not belong to it.
	ErrCorrupt = keyset.ErrCorrupt
	// ErrRotation: there is no such rotation under the parameters.
	ErrRotation = errors.New("keyholder: impossible rotation")
	// ErrInsecure: keys of insecure parameters are never written.
	ErrInsecure = errors.New("keyholder: insecure parameters")

	// ErrState: the file that remembers which results were read cannot be used.
	ErrState = errors.New("keyholder: state")

	// ErrWrongKey: the result was made under a key that is not in the set.
	ErrWrongKey = errors.New("keyholder: result is for another key")
	// ErrWrongEpoch: the key set has the key, or has other epochs, but not
	// this epoch, or the epoch is no longer accepted.
	ErrWrongEpoch = errors.New("keyholder: result is of a wrong key epoch")
	// ErrTampered: the bytes were altered or damaged after signing.
	ErrTampered = errors.New("keyholder: result was tampered with")
	// ErrUnknownSigner: the result is signed by nobody that is trusted.
	ErrUnknownSigner = errors.New("keyholder: result is signed by an unknown signer")
	// ErrWrongParams: the result was computed under other parameters.
	ErrWrongParams = errors.New("keyholder: result is of other parameters")
	// ErrUnread: the result was taken, its evaluator was told so, and it cannot be read.
	ErrUnread = errors.New("keyholder: result was taken and cannot be read")
	// ErrNotApproved: the result is of a program that was not approved; see Set.Approve.
	ErrNotApproved = errors.New("keyholder: the program is not approved")
	// ErrWrongProgram: the header is not what the approved program gives.
	ErrWrongProgram = errors.New("keyholder: result is not what the approved program gives")
	// ErrNotResult: the object is something else than a result.
	ErrNotResult = errors.New("keyholder: not a result")
)

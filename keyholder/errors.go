package keyholder

import (
	"errors"

	"github.com/hencedge/hencedge/keyset"
)

// Errors of key sets and results, for errors.Is. Each class of refused result has its own.
var (
	// ErrPermissions: a secret is accessible to other users of the machine.
	ErrPermissions = errors.New("keyholder: secret is accessible to others")
	// ErrClaimed: another process reads results under the same client id.
	ErrClaimed = errors.New("keyholder: two would read results as one client")
	// ErrExists: the key set or file exists and is not overwritten.
	ErrExists = errors.New("keyholder: exists already")
	// ErrNoKeySet: the directory holds no key set.
	ErrNoKeySet = errors.New("keyholder: no key set")
	// ErrCorrupt: a file of the key set is damaged or does not belong to it.
	ErrCorrupt = keyset.ErrCorrupt
	// ErrRotation: the parameters have no such rotation.
	ErrRotation = errors.New("keyholder: impossible rotation")
	// ErrInsecure: keys of insecure parameters are never written.
	ErrInsecure = errors.New("keyholder: insecure parameters")

	// ErrState: the file that records which results were read cannot be used.
	ErrState = errors.New("keyholder: state")

	// ErrWrongKey: the result was made under a key that is not in the set.
	ErrWrongKey = errors.New("keyholder: result is for another key")
	// ErrWrongEpoch: the key set does not have this epoch, or no longer accepts it.
	ErrWrongEpoch = errors.New("keyholder: result is of a wrong key epoch")
	// ErrTampered: the bytes were altered or damaged after signing.
	ErrTampered = errors.New("keyholder: result was tampered with")
	// ErrUnknownSigner: the signer of the result is not trusted.
	ErrUnknownSigner = errors.New("keyholder: result is signed by an unknown signer")
	// ErrWrongParams: the result was computed under other parameters.
	ErrWrongParams = errors.New("keyholder: result is of other parameters")
	// ErrUnread: the result was acknowledged to its evaluator and cannot be read.
	ErrUnread = errors.New("keyholder: result was taken and cannot be read")
	// ErrNotApproved: the program of the result is not approved; see Set.Approve.
	ErrNotApproved = errors.New("keyholder: the program is not approved")
	// ErrWrongProgram: the header is not what the approved program gives.
	ErrWrongProgram = errors.New("keyholder: result is not what the approved program gives")
	// ErrReceipt: a receipt is not the key holder's for this result.
	ErrReceipt = errors.New("keyholder: the receipt is not this key holder's for this result")
	// ErrNotResult: the object is not a result.
	ErrNotResult = errors.New("keyholder: not a result")
)

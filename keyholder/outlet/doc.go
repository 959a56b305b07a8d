// Package outlet is what alarms and the sinks of results share: connections to those who are
// told of decrypted values, and the error that says that one of them is there and refuses.
// What waits for them is kept by their users: alarms have an outbox on disk, sinks the database.
package outlet

import "errors"

// ErrRefused: the receiver answers, but does not take what it was sent.
var ErrRefused = errors.New("refused")

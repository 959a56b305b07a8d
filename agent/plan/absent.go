package plan

import (
	"errors"
	"io/fs"

	"github.com/hencedge/hencedge/agent/sensor"
	"github.com/hencedge/hencedge/config"
)

// ErrAbsent: the configuration is sound, and something that it names cannot be
// used now: a key, a secret, a directory, a sensor. It may be there later, so that
// trying again is worth it, unlike with other mistakes.
var ErrAbsent = errors.New("something that the configuration names is absent")

// absentErrors are mistakes that may all go away by themselves.
type absentErrors struct{ *config.Errors }

// Unwrap returns ErrAbsent and the mistakes.
func (e absentErrors) Unwrap() []error { return []error{ErrAbsent, e.Errors} }

// mayAppear reports whether err may go away without a change of the configuration.
func mayAppear(err error) bool {
	for _, e := range []error{ErrAbsent, sensor.ErrNoSensor, sensor.ErrSlow, config.ErrSecret, fs.ErrNotExist,
		fs.ErrPermission} {
		if errors.Is(err, e) {
			return true
		}
	}
	return false
}

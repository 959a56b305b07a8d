package keys

import (
	"github.com/hencedge/hencedge/cmd/hencedge/internal/cli"
)

// app is the command line with the commands of this package.
type app struct{ *cli.App }

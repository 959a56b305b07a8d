// Package invite holds the commands that enrol a board with one token: "invite" and "enroll"
// for the operator, "agent join" for the board.
package invite

import "github.com/hencedge/hencedge/cmd/hencedge/internal/cli"

// app is the command line with the commands of this package.
type app struct{ *cli.App }

// What the commands of an operator do, which programs for boards lack.
const (
	inviteShort = "make a token with which a board can ask to join a class"
	enrollShort = "answer boards that ask to join"
)

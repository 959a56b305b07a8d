//go:build !nostore

package invite

import (
	"errors"
	"strings"

	"rsc.io/qr/coding"
)

// border is the light margin around a code, in modules. The standard asks for 4; readers find
// a code with 2.
const border = 2

// qrCode returns a QR code of capital letters, digits and "-" for a terminal: black on white
// whatever its colours are, two rows of modules in a line.
func qrCode(text string) (string, error) {
	enc := coding.Alpha(text)
	if err := enc.Check(); err != nil {
		return "", err
	}
	version := coding.Version(coding.MinVersion)
	for enc.Bits(version) > version.DataBytes(coding.L)*8 {
		if version++; version > coding.MaxVersion {
			return "", errors.New("the token is too long for a QR code")
		}
	}
	plan, err := coding.NewPlan(version, coding.L, 0)
	if err != nil {
		return "", err
	}
	code, err := plan.Encode(enc)
	if err != nil {
		return "", err
	}
	black := func(x, y int) bool { return x >= 0 && y >= 0 && x < code.Size && y < code.Size && code.Black(x, y) }
	var b strings.Builder
	for y := -border; y < code.Size+border; y += 2 {
		b.WriteString("\x1b[30;107m")
		for x := -border; x < code.Size+border; x++ {
			b.WriteString(halves[black(x, y)][black(x, y+1)])
		}
		b.WriteString("\x1b[0m\n")
	}
	return b.String(), nil
}

// halves are the characters of two modules, the upper one first.
var halves = map[bool]map[bool]string{false: {false: " ", true: "▄"}, true: {false: "▀", true: "█"}}

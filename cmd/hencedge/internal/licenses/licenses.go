// Package licenses holds the licences of the software that hencedge is built with.
package licenses

import _ "embed"

//go:generate go run ./gen -out zlicenses.txt

// Text lists every module that any build of hencedge links, with its version, its licence
// and the licence's text.
//
//go:embed zlicenses.txt
var Text string

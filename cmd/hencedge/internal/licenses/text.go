//go:build !nostore && !evaluatoronly

package licenses

import _ "embed"

// Text lists every module that any build of hencedge links, with its version, its licence
// and the licence's text.
//
//go:embed zlicenses.txt
var Text string

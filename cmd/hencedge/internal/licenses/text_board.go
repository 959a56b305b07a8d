//go:build nostore || evaluatoronly

package licenses

import _ "embed"

// Text lists every module that builds without a database of results link, with its version,
// its licence and the licence's text.
//
//go:embed zlicensesboard.txt
var Text string

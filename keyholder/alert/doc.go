// Package alert raises alarms on decrypted results and delivers them.
//
// Alarms follows the rules of a configuration (config.Alerts). Observe takes results one by
// one. It commits to disk, in one write, what a result changes and the events that it
// causes, and returns: receivers are told by goroutines of their own. So neither a receiver
// that is away nor one that is slow holds up the results.
//
// Every event has an id that follows from the rule and the window that caused it. It is sent
// until the receiver has taken it, at least once; the events of one alarm go to each
// receiver in order.
//
// The package knows nothing of keys and ciphertexts. What it sends and logs, and when,
// follows from decrypted values: docs/alerts.md says who must not see it.
package alert

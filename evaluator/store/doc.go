// Package store keeps on disk what an evaluator answers for: the windows that it took
// and the results that are not delivered yet. It knows bytes, names and numbers, and
// nothing of what a ciphertext holds.
//
//	store.go       the store as a whole, and the mark that ties it to a state (mark.go)
//	state.go       what outlives a process besides: boot epoch, replay guard, mark
//	windows.go     the inbox: which windows are taken, needed, and missing (continuity.go)
//	results.go     the outbox, divided among the programs (shares.go)
//	receipts.go    what devices ask and are told (answers.go)
//	ledger.go      what was taken and made before, also by an earlier process (spent.go, latest.go)
package store

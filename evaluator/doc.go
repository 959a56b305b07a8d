// Package evaluator is the cloud subscriber: it takes signed, encrypted windows
// from the broker, joins those that belong together, runs the declared programs
// on them and publishes signed, encrypted results. It holds evaluation keys and
// no secret key, and links no code that uses one.
//
// The way of a message:
//
//	Receiver   chunks -> sealed object                        (package transport)
//	intake     signature, allow-lists, replay, body           intake.go
//	join       windows of several streams and times           join.go
//	worker     program, result sealed and published           work.go
//
// With a store (config.Store) it answers for what it takes: a window is on disk
// before its device gets a receipt, a result before the window is signed off, and
// a ledger keeps either from being taken or made twice (durable.go, store.go,
// ledger.go, receipts.go; docs/delivery.md).
//
// Whatever is refused is counted under its own reason and changes nothing for
// later messages. Check and Explain work without keys and without a broker.
package evaluator

// Package evaluator is the cloud subscriber: it takes signed, encrypted windows
// from the broker, joins those that belong together, runs the declared programs
// on them and publishes signed, encrypted results. It holds evaluation keys and
// no secret key, and links no code that uses one.
//
// The way of a message:
//
//	Receiver   chunks -> sealed object                       package transport
//	intake     signature, allow-lists, replay, body          intake.go, source.go
//	join       windows of several streams and times          join.go
//	sums       windows of many devices of a class            fleet.go, package interval
//	queue      programs take turns                           queue.go
//	run        the program of each result                    run.go, package engine
//	seal       number, header and signature of a result      seal.go
//	publish    to the broker, or into the store              custody.go, stored.go
//
// A Service (service.go) starts and stops these stages; what they share is their pipeline
// (pipeline.go). The reporter (report.go) counts what they refuse, and the devices
// (devices.go) know what the senders say of themselves.
//
// Two kinds of custody say who answers for windows and results on this way. Without a
// store nobody does (direct). With one (config.Store) the evaluator does (stored): a
// window is on disk before its device gets a receipt, a result before its windows go,
// and neither is taken or made twice (package store; docs/delivery.md).
//
// Whatever is refused is counted under its own reason and changes nothing for later
// messages. Check and Explain work without keys and without a broker.
package evaluator

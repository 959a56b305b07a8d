// Package keyset is what every role knows of a key set: its manifest, and how an
// export of it is verified. An export is a directory that `hencedge keys export`
// wrote:
//
//	keyset.json, keyset.cose      the manifest, and the holder's signature over it
//	public.key                    for an agent
//	epoch-0001/evaluation.key     for an evaluator, one for each epoch
//
// With compact windows there are also
//
//	board.key                     the secret of a board, for its agent
//	epoch-0001/compact-join.key, compact-pack.key, compact/NAME.key
//	                              for an evaluator: the keys of all devices, and one of each
//
// The manifest lists the SHA-256 of every public file, so that the signature covers
// them all. Whether it is the signature of the right holder says a Trust: whoever
// carries an export could otherwise put one of their own in its place, and boards
// would encrypt for them.
//
// Nothing here reads a secret key; agents and evaluators import it.
package keyset

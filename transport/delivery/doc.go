// Package delivery takes objects from a spool to the one who answers for them.
//
//	spool -> lease -> [ask] -> missing chunks -> broker -> receiver
//	  ^                                                      |
//	  '------------------- receipt (signed) -----------------'
//
// An object leaves the spool at the acknowledgement level of its stream: Broker
// when the broker has acknowledged every chunk, Receiver when the receiver has
// signed that it has the object on disk. At the second level nothing that
// happens on the way loses it: a broker that forgets what it acknowledged, a
// receiver that is restarted, a connection that is cut. When no receipt comes in
// time, the courier asks what the receiver has of the object and sends the chunks
// that are missing; so it does for objects that an earlier process may have sent
// already. Nothing is encrypted or signed again.
//
// Of each stream one object is under way at a time, the next one after the
// receipt of the last, so a stream arrives in order. (Its chunks are pipelined,
// and streams do not wait for each other. With a share for live data a second
// object of the stream overtakes the backlog.)
//
// At most Window.Chunks messages plus one ask and one status are unacknowledged
// at a time: ten by default, the Receive Maximum of the strictest brokers.
package delivery

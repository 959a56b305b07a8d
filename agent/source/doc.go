// Package source gives the samples of streams and makes windows of them.
//
//	live, replay or events -> Row -> Collector -> Window
//
// A Source samples sensors on ticks, replays a file, or takes the messages of an
// input. It knows where it is in what can be read again, and why no sample can come.
// Rows that come late wait until they are in order. A Collector applies the policies
// for values that are missing or out of range, and cuts windows.
package source

// Package encryption is what encryption under a public key (package henc) and under
// the secret key (package henc/secret) have in common: encoding slots, checking
// messages, copying and wiping seeds, and taking the fast way of a ring where it has
// one.
package encryption

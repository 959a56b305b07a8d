// Package spool keeps sealed objects on disk until they are delivered, one file
// per object, in order per stream.
//
// What is in a spool are sealed objects, that is ciphertexts and signatures,
// and the names of their streams and topics; it never sees a plaintext.
//
// An object is safe when Put returns nil: it was written to a temporary file,
// the file was flushed, renamed into place, and the directory was flushed. A
// crash at any point leaves either the whole object or a temporary file, which
// the next start completes (when all of it is there) or removes. Every file
// carries a version, a CRC-32C of its header and of its body, and the object's
// content id (SHA-256), so whatever the disk did to it is noticed before it is
// sent. A damaged file is moved to the directory damaged/, which is bounded,
// and counted; with a mirror directory its second copy takes its place.
//
// A disk that is full, read-only or failing does not stop the caller: objects
// stay in memory within a bound, Health says so, and they are written as soon as
// the disk takes them. Objects of inputs that can be read again (Item.Cursor is
// set) are not taken into memory but wait for the disk, so that an input is never
// ahead of what is safe.
package spool

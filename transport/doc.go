// Package transport moves sealed objects between devices, evaluators and key
// holders. It knows nothing about ciphertexts: a body is bytes.
//
// The life of an object:
//
//	Seal      body + COSE_Sign1 (Ed25519) over Meta and the digest of the body
//	Sender    sealed bytes -> chunks below the broker's limit -> MQTT QoS 1
//	Receiver  chunks in any order -> sealed bytes, bounded in count, bytes, time
//	Open      sealed bytes -> signature, digest, allow-lists, replay guard -> Object
//	Receipt   what became of an object, signed by who took it; Ask asks for one
//
// Package mqtt implements Client. Package spool keeps objects on disk until they are
// delivered, and package delivery takes them to the receiver that signs for them.
//
// docs/wire-format.md specifies the format, with test vectors in docs/vectors.
//
// Everything that arrives is untrusted. Sizes are checked before memory is
// allocated, encodings must be canonical (one object has exactly one encoding,
// so its SHA-256 is its name), and every refusal wraps one sentinel of this
// package; Reason turns it into a metric label.
package transport

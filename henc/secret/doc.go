// Package secret holds everything that touches a secret key: generation of key
// pairs and evaluation keys, decryption, and seeded symmetric encryption. Only the
// key holder links it, and, by explicit choice, a device in symmetric mode. The
// evaluator never does.
//
// Secret buffers are wiped when they are no longer needed, on errors too; Key.Wipe
// ends a key. Decrypted values are as sensitive as the key to anybody who also has
// the ciphertext (Li and Micciancio, eprint 2020/1533; docs/sharing.md).
package secret

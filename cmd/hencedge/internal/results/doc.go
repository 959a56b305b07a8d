// Package results is the commands "results" and "keyholder": what evaluators publish is
// approved, followed, decrypted and verified.
package results

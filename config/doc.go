// Package config holds the YAML configuration of the three roles (Agent,
// Evaluator, KeyHolder) and the plain data that they share: streams, channels,
// windows, brokers and programs, and how the samples of a window lie in the
// slots of a ciphertext (Stream.Stride, Stream.LayoutHash).
//
// Loading is strict. Unknown and repeated keys, wrong types, missing fields,
// bad units, durations, sizes and ranges, and contradictions between fields are
// all errors; every error of a file is reported at once (Errors), each with
// file, line and column, what is wrong, what to do, and the line itself with a
// caret. Anchors, aliases, merge keys, tags and several documents in one file
// are refused: a configuration is what it says.
//
// Relative paths in a file are relative to the directory of that file. Secrets
// are never written into a file; they are referred to (Secret).
//
// The package imports nothing else of hencedge.
package config

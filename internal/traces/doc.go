// Package traces exports what became of windows as spans, by OTLP/JSON over HTTP: a small
// documented format (opentelemetry.io/docs/specs/otlp) that needs nothing but the standard library.
//
//	Tracer    takes spans, never blocks, and sends them in batches
//	Span      one step of one window at one role
//
// The roles share a trace without a word on the wire: its id is the first half of the SHA-256 by
// which the window's object is known anyway, and the id of its first span is the next quarter. For
// the same reason all roles choose the same windows if they have the same share. A result belongs
// to the trace of its first input, and has links to those of the others. A sum across the devices of
// a class has a trace of its own, by the digest of its windows, and links to theirs.
//
// A span holds times, names, numbers and sizes, all of which the broker sees too. It never holds a
// reading, a key or a result.
package traces

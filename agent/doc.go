// Package agent is the edge service: it reads sensors, collects samples into
// windows, normalises and packs them into slots, encrypts them, signs the
// ciphertext and sends it to the broker.
//
//	sensor -> row -> window -> slots -> ciphertext -> sealed object -> spool -> broker
//
// Package sensor reads, source makes windows, seal makes objects of them, and plan finds
// out beforehand whether all that can work. This package runs it: New, start and
// shutDown list the order in which parts begin and end (new.go, run.go), and
// pipeline.go has the way of one stream's windows.
//
// One goroutine per stream samples on monotonic ticks, one per stream encrypts
// and seals, and a courier sends (transport/delivery). Sampling is never delayed
// by the broker unless the queue's policy says so (config.QueueBlock). With a
// spool a window is on disk before it is sent, and what was read is what is in
// the spool: docs/delivery.md.
//
// What becomes of samples that could not be read or that lie outside their
// channel's range is config.Missing and config.Outside. Times:
//
//   - Ticks follow the monotonic clock. A tick that is late by a whole interval
//     or more (a slow sensor) is counted and left out; config.Gap says whether
//     missing samples take its place or the window ends.
//   - The first sample is taken one interval after the start, or 250 ms after it
//     where that is sooner; the others follow at the interval.
//   - Samples carry the wall time of their tick, replayed samples the time in their file. When
//     the wall clock moves against the monotonic one by an interval, or goes
//     backwards, the current window ends early: it was set, or the machine
//     slept. So times within a window never go backwards and mean one clock.
//   - Replayed samples may be out of order by config.Stream.Lateness; they are
//     put in order before windows are made, and later ones are counted.
//   - A window by count starts and ends at its first and last sample. A window
//     by time covers [k*every, (k+1)*every) of Unix time.
//   - A window that is cut short (stop, end of file, clock step, time) is sent
//     with the number of samples that it has, the remaining slots zero. An
//     empty window is not sent.
package agent

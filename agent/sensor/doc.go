// Package sensor reads the sensors of a machine: hwmon and thermal zones in /sys,
// processor, memory, load, network and disks in /proc, and the inputs of a
// configuration (package input).
//
//	Machine   finds and opens sensors, and lists what there is
//	Reader    reads all sensors of a stream as of one instant
//	Inputs    are the open inputs of a configuration
//	Meter     counts the energy that the board spends
//
// A sensor that hangs holds up nothing else, and one that goes away is looked for
// until it comes back.
package sensor

// Package input is what the agent's inputs have in common: what a sensor is,
// the newest value of something that is read in the background, back-off after
// failures, and how numbers are taken out of registers and text. Each input is
// a package below this one:
//
//	iio        Linux IIO devices in /sys
//	power      power rails of boards and GPUs in /sys
//	bus        registers on I2C and SPI buses
//	modbus     Modbus TCP and RTU
//	can        signals of CAN frames
//	serial     lines of text and NMEA 0183 from serial ports
//	exec       the output of commands
//	httppoll   the answers of web servers
//	mqttin     messages of another MQTT broker
//
// An input starts working at the first read of one of its sensors and stops at
// Close. It lives by the machine's monotonic clock; the time of a sample is
// given by the stream, which reads all its sensors at one instant.
package input

// Package engine computes on ciphertexts: it holds the evaluation keys and knows the
// devices. For each parameter set there is a lane of devices that take turns; what lies
// on a device that fails is computed again on another one.
//
//	engine.go      what the service calls
//	lane.go        the devices of one parameter set, and what takes over from one that fails
//	gather.go      jobs of one form run together on a device
//	compact.go     compact windows, from bytes to places in the slots
//	sum.go         sums of many windows, for programs across devices
//	device.go      one device, and the ciphertexts and keys on it
//	keys.go        evaluation keys, and how key sets are read
package engine

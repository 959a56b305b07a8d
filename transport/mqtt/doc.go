// Package mqtt is the MQTT client behind transport.Client. It connects over TCP, TLS or a
// WebSocket, and connects again whenever a connection ends. Everything that the broker
// sends is bounded before memory is allocated.
package mqtt

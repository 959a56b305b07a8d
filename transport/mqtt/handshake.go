package mqtt

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"syscall"

	"github.com/eclipse/paho.mqtt.golang/packets"
)

// explainTLS returns the error of a failed TLS handshake with host, with its probable cause.
func explainTLS(err error, host string) error {
	var record tls.RecordHeaderError
	var name x509.HostnameError
	switch {
	case errors.As(err, &record), errors.Is(err, io.EOF), errors.Is(err, syscall.ECONNRESET):
		return fmt.Errorf(
			"TLS handshake: %w: the port may be one without TLS (usual ports with TLS: 8883, and 443 for "+
				"wss://)",
			err)
	case errors.As(err, &name) && len(name.Certificate.DNSNames) == 0 && len(name.Certificate.IPAddresses) == 0:
		return fmt.Errorf("TLS handshake: %w: the broker's certificate has no subject alternative name (its common "+
			"name does not count): issue a new one with subjectAltName=DNS:%s (or IP:...)", err, host)
	}
	return fmt.Errorf("TLS handshake: %w", err)
}

// errTLS is what a TLS server answers to an MQTT packet: an alert record.
var errTLS = errors.New("the broker answers with TLS: write tls:// (or wss://) in the URL, with the port for TLS")

// explain returns the library's error of a failed attempt with its probable cause.
func (e endpoint) explain(err error) error {
	err = plain(err)
	if !e.secure && (errors.Is(err, io.EOF) || errors.Is(err, syscall.ECONNRESET)) {
		return fmt.Errorf("the broker ended the connection before it answered: %w: the port may be one for TLS "+
			"(tls:// in the URL)", err)
	}
	return err
}

// isAlert reports whether a packet's first byte and length are the start of a TLS alert
// record: type 21, version 3.x.
func isAlert(first byte, length int) bool { return first == 21 && length == 3 }

// plain returns the library's error in full sentences, without the prefix "network Error".
func plain(err error) error {
	switch {
	case errors.Is(err, packets.ErrorRefusedNotAuthorised), errors.Is(err, packets.ErrorRefusedBadUsernameOrPassword):
		return fmt.Errorf("the broker does not accept the user name, the password or the client certificate: %w", err)
	case errors.Is(err, packets.ErrorRefusedIDRejected):
		return fmt.Errorf("the broker does not accept the client id: %w", err)
	case errors.Is(err, packets.ErrorNetworkError):
		if both, ok := err.(interface{ Unwrap() []error }); ok && len(both.Unwrap()) == 2 {
			return both.Unwrap()[1]
		}
	}
	return err
}

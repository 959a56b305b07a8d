package transport

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"os/exec"
	"strings"
	"testing"

	"github.com/hencedge/hencedge/internal/testenv"
)

func TestCertificateRequest(t *testing.T) {
	key, err := SigningKeyFromSeed(bytes.Repeat([]byte{7}, 32))
	if err != nil {
		t.Fatal(err)
	}
	text, err := key.CertificateRequest("board1")
	if err != nil {
		t.Fatal(err)
	}
	name, pub, err := ParseCertificateRequest(text)
	if err != nil || name != "board1" || !pub.Equal(key.Public()) {
		t.Fatalf("%q, %x, %v", name, pub, err)
	}
	if _, err := key.CertificateRequest("a/b"); err == nil {
		t.Error("a request for a name that is no device")
	}
}

// An independent reader agrees.
func TestCertificateRequestOpenSSL(t *testing.T) {
	key, err := NewSigningKey()
	if err != nil {
		t.Fatal(err)
	}
	text, err := key.CertificateRequest("board1")
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(testenv.Program(t, "openssl", "openssl"), "req", "-verify", "-noout", "-subject")
	cmd.Stdin = bytes.NewReader(text)
	out, err := cmd.CombinedOutput()
	if err != nil || !strings.Contains(strings.ReplaceAll(string(out), " ", ""), "CN=board1") {
		t.Errorf("%v\n%s", err, out)
	}
}

func TestCertificateRequestRefused(t *testing.T) {
	key, err := NewSigningKey()
	if err != nil {
		t.Fatal(err)
	}
	good, err := key.CertificateRequest("board1")
	if err != nil {
		t.Fatal(err)
	}
	block, _ := pem.Decode(good)
	other, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	request := func(cn string, key any) []byte {
		der, err := x509.CreateCertificateRequest(rand.Reader,
			&x509.CertificateRequest{Subject: pkix.Name{CommonName: cn}}, key)
		if err != nil {
			t.Fatal(err)
		}
		return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE REQUEST", Bytes: der})
	}
	forged := bytes.Clone(block.Bytes)
	forged[len(forged)-1] ^= 1
	for what, text := range map[string][]byte{
		"nothing":        nil,
		"no PEM":         []byte("hello"),
		"another block":  pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: block.Bytes}),
		"two":            append(bytes.Clone(good), good...),
		"forged":         pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE REQUEST", Bytes: forged}),
		"truncated":      pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE REQUEST", Bytes: block.Bytes[:50]}),
		"another scheme": request("board1", other),
		"a topic":        request("board1/#", key.priv),
		"nameless":       request("", key.priv),
		"too large":      append(bytes.Repeat([]byte("x"), maxRequest), good...),
	} {
		if name, _, err := ParseCertificateRequest(text); !errors.Is(err, ErrRequest) {
			t.Errorf("%s: %q, %v", what, name, err)
		}
	}
}

func FuzzCertificateRequest(f *testing.F) {
	key, err := SigningKeyFromSeed(bytes.Repeat([]byte{1}, 32))
	if err != nil {
		f.Fatal(err)
	}
	good, err := key.CertificateRequest("board1")
	if err != nil {
		f.Fatal(err)
	}
	f.Add(good)
	f.Fuzz(func(t *testing.T, text []byte) {
		name, pub, err := ParseCertificateRequest(text)
		if err == nil && (CheckName(name) != nil || len(pub) != 32) {
			t.Errorf("%q, %d bytes", name, len(pub))
		}
	})
}

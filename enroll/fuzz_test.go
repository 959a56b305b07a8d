package enroll

import (
	"bytes"
	"errors"
	"path/filepath"
	"testing"
	"time"

	"github.com/hencedge/hencedge/transport"
)

func FuzzToken(f *testing.F) {
	t := &Token{Expires: time.Unix(1800000000, 0), Secret: Secret{1}, Broker: Broker{URL: "tls://b", Prefix: prefix}}
	text, err := t.Text()
	if err != nil {
		f.Fatal(err)
	}
	f.Add(text)
	f.Add(tokenPrefix)
	f.Fuzz(func(t *testing.T, text string) {
		token, err := ParseToken(text)
		if err != nil {
			if !errors.Is(err, ErrMalformed) {
				t.Fatalf("%v", err)
			}
			return
		}
		again, err := token.Text()
		if err != nil {
			t.Fatal(err)
		}
		if back, err := ParseToken(again); err != nil || *back != *token {
			t.Fatalf("%+v comes back as %+v, %v", token, back, err)
		}
	})
}

func FuzzRequest(f *testing.F) {
	secret, key := Secret{1}, newKey(f)
	r := &Request{Device: "pump17", PublicKey: key.Public(), ephemeral: newEphemeral().PublicKey().Bytes()}
	good, err := sealRequest(r, key, secret)
	if err != nil {
		f.Fatal(err)
	}
	var a wireAsk
	if err := decMode.Unmarshal(good, &a); err != nil {
		f.Fatal(err)
	}
	f.Add(good, a.Body)
	f.Fuzz(func(t *testing.T, b, body []byte) {
		if r, err := openRequest(b, secret); err == nil && transport.CheckName(r.Device) != nil {
			t.Fatalf("%+v", r)
		}
		// As somebody with the token makes it.
		sealed, err := sealAsk(kindRequest, body, key, secret)
		if err != nil {
			t.Fatal(err)
		}
		r, err := openRequest(sealed, secret)
		if err == nil && !r.PublicKey.Equal(key.Public()) {
			t.Fatalf("a request of a key that did not sign it: %+v", r)
		}
	})
}

func FuzzAnswer(f *testing.F) {
	secret, operator := Secret{1}, newKey(f)
	own := newEphemeral()
	r := &Request{Device: "pump17", PublicKey: operator.Public(), ephemeral: own.PublicKey().Bytes()}
	head, parts, err := sealWelcome(welcome(10), r, operator, secret)
	if err != nil {
		f.Fatal(err)
	}
	var signed wireSigned
	if err := decMode.Unmarshal(head, &signed); err != nil {
		f.Fatal(err)
	}
	f.Add(head, signed.Body, parts[0])
	f.Fuzz(func(t *testing.T, b, body, part []byte) {
		if _, err := openAnswer(b, PrintOf(operator.Public()), r.hash); err == nil && !bytes.Equal(b, head) &&
			len(b) > maxAnswer {
			t.Fatal("too long")
		}
		signature, err := operator.SignText(signedAnswer, body)
		if err != nil {
			t.Fatal(err)
		}
		sealed, err := encMode.Marshal(wireSigned{Body: body, Signer: operator.Public(), Signature: signature})
		if err != nil {
			t.Fatal(err)
		}
		a, err := openAnswer(sealed, PrintOf(operator.Public()), r.hash)
		if err != nil || !a.accepted {
			return
		}
		if a.parts() < 1 || a.parts() > maxParts {
			t.Fatalf("%d parts", a.parts())
		}
		if w, err := openWelcome([][]byte{part}, a, own, secret); err == nil && w.validate() != nil {
			t.Fatalf("%+v", w)
		}
	})
}

func FuzzWelcome(f *testing.F) {
	plain, err := encMode.Marshal(wireWelcome(*welcome(10)))
	if err != nil {
		f.Fatal(err)
	}
	f.Add(plain)
	f.Fuzz(func(t *testing.T, b []byte) {
		w, err := parseWelcome(b)
		if err != nil {
			return
		}
		for name := range w.Files {
			if filepath.Base(name) != name || name[0] == '.' {
				t.Fatalf("a file %q", name)
			}
		}
	})
}

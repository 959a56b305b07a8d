package benchmark

import (
	"github.com/hencedge/hencedge/henc"
	"github.com/hencedge/hencedge/henc/secret"
)

// encode turns N/2 complex slots into a plaintext: embedding and transform.
func (b *bed) encode() job {
	slots := int64(b.params.Slots()) * 16
	return job{
		op: "encode", method: "complex", limbs: len(b.limbs), bytes: slots + b.polyBytes(1, len(b.limbs)),
		footprint: slots,
		setup: func(sets int) (func(int) error, func() error, error) {
			msgs := make([][]complex128, sets)
			for i := range msgs {
				msgs[i] = b.message()
			}
			var out *henc.Plaintext
			run := func(i int) (err error) {
				out, err = b.ctx.Encoder().EncodeComplex(msgs[i], b.level, b.params.DefaultScale())
				return err
			}
			return run, func() error { return b.checkEncoding("encode", out, msgs[0]) }, nil
		},
	}
}

// decode is the way back.
func (b *bed) decode() job {
	poly := b.polyBytes(1, len(b.limbs))
	return job{
		op: "decode", method: "complex", limbs: len(b.limbs), bytes: poly + int64(b.params.Slots())*16, footprint: poly,
		setup: func(sets int) (func(int) error, func() error, error) {
			msg, pts, err := b.encoded(sets)
			if err != nil {
				return nil, nil, err
			}
			var out []complex128
			run := func(i int) (err error) {
				out, err = b.ctx.Encoder().DecodeComplex(pts[i])
				return err
			}
			return run, func() error { return checkSlots("decode", out, msg, b.tolerance()) }, nil
		},
	}
}

// coefficients are encoded messages, the input of both encryptions.
func (b *bed) coefficients(sets int) (msg []complex128, coeffs [][]float64, err error) {
	if err := b.secretKey(); err != nil {
		return nil, nil, err
	}
	msg = b.message()
	c, err := b.ctx.Encoder().EncodeCoeffs(msg, b.params.DefaultScale())
	if err != nil {
		return nil, nil, err
	}
	coeffs = make([][]float64, sets)
	for i := range coeffs {
		coeffs[i] = append([]float64(nil), c...)
	}
	return msg, coeffs, nil
}

type coeffEncryptor interface {
	Encrypt(coeffs []float64, level int, scale float64, seed *henc.Seed) (*henc.Ciphertext, error)
}

// encryption times Encrypt on encoded coefficients; made makes the encryptor.
func (b *bed) encryption(op, method string, bytes int64, made func() (coeffEncryptor, error)) job {
	packed := new(int)
	return job{
		op: op, method: method, limbs: len(b.limbs), bytes: bytes, footprint: int64(b.params.N()) * 8, packed: packed,
		setup: func(sets int) (func(int) error, func() error, error) {
			msg, coeffs, err := b.coefficients(sets)
			if err != nil {
				return nil, nil, err
			}
			enc, err := made()
			if err != nil {
				return nil, nil, err
			}
			var out *henc.Ciphertext
			run := func(i int) (err error) {
				b.free(out)
				out, err = enc.Encrypt(coeffs[i], b.level, b.params.DefaultScale(), b.seed())
				return err
			}
			check := func() error {
				wire, err := b.ctx.MarshalCiphertext(out)
				if err != nil {
					return err
				}
				*packed = len(wire)
				return b.decrypts(op, out, msg)
			}
			return run, check, nil
		},
	}
}

// encryptPublic is HENC: it reads the coefficients and the public key and
// writes two polynomials.
func (b *bed) encryptPublic() job {
	bytes := int64(b.params.N())*8 + b.polyBytes(4, len(b.limbs))
	return b.encryption("henc_pk", "three transforms", bytes, func() (coeffEncryptor, error) {
		return henc.NewEncryptor(b.ctx, b.pub)
	})
}

// encryptSeeded reads the coefficients and the secret key and writes two
// polynomials, one of them from the generator.
func (b *bed) encryptSeeded() job {
	bytes := int64(b.params.N())*8 + b.polyBytes(3, len(b.limbs))
	return b.encryption("henc_seeded", "one transform", bytes, func() (coeffEncryptor, error) {
		return secret.NewSeededEncryptor(b.ctx, b.key), nil
	})
}

// onCiphertexts is a case whose inputs are ciphertexts of one message. prepare,
// where given, turns a fresh ciphertext into the operation's input; want turns
// the message into the expected slots; extra is the traffic beside one input
// ciphertext, in bytes.
func (b *bed) onCiphertexts(op, method string, extra int64, prepare func(*henc.Ciphertext) (*henc.Ciphertext, error),
	f operation, want func([]complex128) []complex128) job {
	in := b.polyBytes(2, len(b.limbs))
	return job{
		op: op, method: method, limbs: len(b.limbs), bytes: in + extra, footprint: in,
		setup: func(sets int) (func(int) error, func() error, error) {
			if _, err := b.evaluator(); err != nil {
				return nil, nil, err
			}
			msg, cts, err := b.encrypted(sets + 1)
			if err != nil {
				return nil, nil, err
			}
			if prepare != nil {
				for i := range cts {
					if cts[i], err = prepare(cts[i]); err != nil {
						return nil, nil, err
					}
				}
			}
			var out *henc.Ciphertext
			run := func(i int) (err error) {
				b.free(out)
				out, err = f(b.eval, cts[i], cts[i+1])
				return err
			}
			check := func() error {
				if err := b.decrypts(op, out, want(msg)); err != nil || !b.onDevice() {
					return err
				}
				return b.sameCiphertext(op, out, f, cts[0], cts[1])
			}
			return run, check, nil
		},
	}
}

// mapped applies f to every slot.
func mapped(f func(complex128) complex128) func([]complex128) []complex128 {
	return func(msg []complex128) []complex128 {
		out := make([]complex128, len(msg))
		for i, v := range msg {
			out[i] = f(v)
		}
		return out
	}
}

// hadd adds two ciphertexts.
func (b *bed) hadd() job {
	return b.onCiphertexts("hadd", "limb by limb", b.polyBytes(4, len(b.limbs)), nil,
		func(ev *henc.Evaluator, x, y *henc.Ciphertext) (*henc.Ciphertext, error) { return ev.Add(x, y) },
		mapped(func(v complex128) complex128 { return 2 * v }))
}

// cmult multiplies by an encoded plaintext; it does not rescale.
func (b *bed) cmult() job {
	var msg []complex128
	var pt *henc.Plaintext
	return b.onCiphertexts("cmult", b.ring.Method().String(), b.polyBytes(3, len(b.limbs)),
		func(ct *henc.Ciphertext) (*henc.Ciphertext, error) {
			if pt == nil {
				m, pts, err := b.encoded(1)
				if err != nil {
					return nil, err
				}
				msg, pt = m, pts[0]
			}
			return ct, nil
		},
		func(ev *henc.Evaluator, x, _ *henc.Ciphertext) (*henc.Ciphertext, error) {
			if ev != b.eval { // the CPU's: the plaintext comes along
				own, err := b.plaintextOnCPU(pt)
				if err != nil {
					return nil, err
				}
				return ev.MulPlain(x, own)
			}
			return ev.MulPlain(x, pt)
		},
		func(v []complex128) []complex128 {
			out := make([]complex128, len(v))
			for i := range v {
				out[i] = v[i] * msg[i]
			}
			return out
		})
}

// keyBytes is the size of one switching key at the top level.
func (b *bed) keyBytes() int64 {
	return b.polyBytes(2*b.params.Dnum(b.level), len(b.limbs)+len(b.params.PLimbs()))
}

// hmult multiplies two ciphertexts and relinearises; it does not rescale.
func (b *bed) hmult() job {
	return b.onCiphertexts("hmult", b.ring.Method().String(), b.polyBytes(4, len(b.limbs))+b.keyBytes(), nil,
		func(ev *henc.Evaluator, x, y *henc.Ciphertext) (*henc.Ciphertext, error) { return ev.Mul(x, y) },
		mapped(func(v complex128) complex128 { return v * v }))
}

// hmultRescale is the product followed by a rescaling, with one division for both.
func (b *bed) hmultRescale() job {
	bytes := b.polyBytes(2, len(b.limbs)) + b.polyBytes(2, b.params.LimbsAt(b.level-1)) + b.keyBytes()
	return b.onCiphertexts("hmult_rescale", b.ring.Method().String(), bytes, nil,
		func(ev *henc.Evaluator, x, y *henc.Ciphertext) (*henc.Ciphertext, error) { return ev.MulRescale(x, y) },
		mapped(func(v complex128) complex128 { return v * v }))
}

// rescale drops one level of a product.
func (b *bed) rescale() job {
	return b.onCiphertexts("rescale", string(b.params.Mode()), b.polyBytes(2, b.params.LimbsAt(b.level-1)),
		func(ct *henc.Ciphertext) (*henc.Ciphertext, error) {
			return b.eval.MulConst(ct, 1, b.params.RescaleFactor(b.level))
		},
		func(ev *henc.Evaluator, x, _ *henc.Ciphertext) (*henc.Ciphertext, error) { return ev.Rescale(x) },
		mapped(func(v complex128) complex128 { return v }))
}

// hrotate moves every slot by one.
func (b *bed) hrotate() job {
	return b.onCiphertexts("hrotate", "by 1", b.polyBytes(2, len(b.limbs))+b.keyBytes(), nil,
		func(ev *henc.Evaluator, x, _ *henc.Ciphertext) (*henc.Ciphertext, error) { return ev.Rotate(x, 1) },
		func(v []complex128) []complex128 { return append(append([]complex128(nil), v[1:]...), v[0]) })
}

// decrypt is c0 + c1*s; decoding is a case of its own.
func (b *bed) decrypt() job {
	in := b.polyBytes(2, len(b.limbs))
	return job{
		op: "decrypt", method: b.ring.Method().String(), limbs: len(b.limbs), bytes: in + b.polyBytes(2, len(b.limbs)),
		footprint: in,
		setup: func(sets int) (func(int) error, func() error, error) {
			msg, cts, err := b.encrypted(sets)
			if err != nil {
				return nil, nil, err
			}
			d := secret.NewDecryptor(b.ctx, b.key)
			var out *henc.Plaintext
			run := func(i int) (err error) {
				if out != nil {
					b.ring.Free(out.Value)
				}
				out, err = d.Decrypt(cts[i])
				return err
			}
			check := func() error { return b.checkEncoding("decrypt", out, msg) }
			return run, check, nil
		},
	}
}

#!/usr/bin/env python3
"""Writes docs/vectors/ciphertexts.json: test vectors of the ciphertext format, made by
an implementation that shares nothing with the Go code. Standard library only.

    python3 interop/python/make_ciphertexts.py > docs/vectors/ciphertexts.json

Residues are pseudo-random: limb i of polynomial p is Uniform(seed, label, i, q_i) of
docs/cryptography.md ("Sampling"), with the seed and label that the vector states. See
docs/wire-ciphertext.md for the format.
"""
import hashlib
import json
import struct

from hencedge import cbor, params, sampling, scheme

LABEL_CIPHER_A = 1
VERSION = 2


def psi(q, log_n):
    """g^((q-1)/2N), g the smallest primitive root that is at least 3: docs/parameters.md."""
    factors, m, d = [], q - 1, 2
    while d * d <= m:
        if m % d == 0:
            factors.append(d)
            while m % d == 0:
                m //= d
        d += 1
    if m > 1:
        factors.append(m)
    g = 3
    while any(pow(g, (q - 1) // p, q) == 1 for p in factors):
        g += 1
    return pow(g, (q - 1) >> (log_n + 1), q)


def vector(name, level, scale, n2, seeded, c0_seed, c1_seed):
    s = params.SETS[name]
    n, q = s.n, s.primes(level)
    c0_label, c1_label = 0x76300000, LABEL_CIPHER_A if seeded else 0x76310000
    c0 = [sampling.uniform(c0_seed, c0_label, i, m, n) for i, m in enumerate(q)]
    c1 = [sampling.uniform(c1_seed, c1_label, i, m, n) for i, m in enumerate(q)]
    preamble = cbor.head(4, 9) + cbor.head(0, VERSION) + cbor.head(0, 1) + cbor.blob(s.hash)
    preamble += cbor.head(0, level) + cbor.number(scale) + cbor.head(0, n2) + cbor.head(0, 1)
    preamble += cbor.blob(c1_seed) if seeded else b"\xf6"
    polys = [b"".join(scheme.pack(x, m) for x, m in zip(p, q)) for p in ([c0] if seeded else [c0, c1])]
    body = preamble + cbor.head(4, len(polys)) + b"".join(cbor.blob(p) for p in polys)
    words = lambda p: hashlib.sha256(b"".join(struct.pack("<%dI" % n, *x) for x in p)).hexdigest()
    return {
        "params": name, "level": level, "scale": scale, "n2": n2, "seeded": seeded,
        "c0_seed": c0_seed.hex(), "c0_label": c0_label, "c1_seed": c1_seed.hex(), "c1_label": c1_label,
        "params_hash": s.hash.hex(),
        "preamble": (preamble + cbor.head(4, len(polys)) + cbor.head(2, len(polys[0]))).hex(),
        "c0_first_residues": c0[0][:8], "c0_first_bytes": polys[0][:32].hex(),
        "c0_sha256": words(c0), "c1_sha256": words(c1),
        "length": len(body), "sha256": hashlib.sha256(body).hexdigest(),
    }


def seed(text):
    return hashlib.sha256(text.encode()).digest()


def document():
    """The file as text."""
    a, b = seed("hencedge vector c0"), seed("hencedge vector c1")
    ciphertexts = [
        vector("edge12-add", 0, 2.0 ** 26, 16, False, a, b),
        vector("edge12-d1", 1, 2.0 ** 26, 16, True, a, b),
        vector("edge12-d1", 1, 2.0 ** 26, 16, False, a, b),
        vector("edge12-d1", 0, 67125256.14062805, 16, False, a, b),
        vector("edge12-d1", 1, 2.0 ** 26, 1, True, a, b),
        vector("edge13-d2p", 2, 2.0 ** 50, 16, True, a, b),
        vector("edge13-d2p", 1, 1.5 * 2.0 ** 49, 4, False, a, b),
        vector("edge13-d2p", 0, 1.0, 8, False, a, b),
    ]
    packing = []
    for q in (12289, 18137089, 67084289, 1073692673):
        x = [0, q - 1, q - 1, 0, 1, 2, q - 1, q - 1] + sampling.uniform(a, 0x76320000, 0, q, 16)[:8]
        packing.append({"q": q, "residues": x, "bytes": scheme.pack(x, q).hex()})
    return json.dumps({"packing": packing, "ciphertexts": ciphertexts}, indent=1) + "\n"


if __name__ == "__main__":
    print(document(), end="")

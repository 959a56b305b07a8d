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

SETS = {
    "edge12-add": dict(logN=12, logScale=26, ppl=1, depth=0, alpha=0,
                       Q=[1073692673, 1073668097], P=[]),
    "edge12-d1": dict(logN=12, logScale=26, ppl=1, depth=1, alpha=1,
                      Q=[1073668097, 67084289], P=[1073692673]),
    "edge13-d2p": dict(logN=13, logScale=50, ppl=2, depth=2, alpha=1,
                       Q=[268369921, 268271617, 18137089, 62078977, 28704769, 39223297], P=[1073692673]),
}
LABEL_CIPHER_A = 1
VERSION = 2


def chacha_block(key, counter, nonce):
    s = list(struct.unpack("<4I", b"expand 32-byte k") + struct.unpack("<8I", key) + (counter,) + nonce)
    w = s[:]

    def quarter(a, b, c, d):
        for x, y, z, r in ((a, b, d, 16), (c, d, b, 12), (a, b, d, 8), (c, d, b, 7)):
            w[x] = (w[x] + w[y]) & 0xFFFFFFFF
            v = w[z] ^ w[x]
            w[z] = ((v << r) | (v >> (32 - r))) & 0xFFFFFFFF

    for _ in range(10):
        for i in range(4):
            quarter(i, 4 + i, 8 + i, 12 + i)
        for i in range(4):
            quarter(i, 4 + (i + 1) % 4, 8 + (i + 2) % 4, 12 + (i + 3) % 4)
    return [(a + b) & 0xFFFFFFFF for a, b in zip(w, s)]


def uniform(seed, label, index, q, n):
    """n exact uniform residues: x*q div 2^32 for word j of attempt 0, 1, ... until x*q mod 2^32 is at least 2^32 mod q."""
    out, attempt = [None] * n, 0
    while None in out:
        for block in range(0, n, 16):
            if None in out[block:block + 16]:
                words = chacha_block(seed, block // 16, (label, index, attempt))
                for k in range(16):
                    high, low = divmod(words[k] * q, 2 ** 32)
                    if out[block + k] is None and low >= 2 ** 32 % q:
                        out[block + k] = high
        attempt += 1
    return out


def psi(q, log_n):
    """g^((q-1)/2N), g the smallest primitive root that is at least 3."""
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


def params_hash(s):
    b = b"hencedge/params/v1\0" + struct.pack(
        "<8I", s["logN"], s["logScale"], s["ppl"], s["depth"], s["alpha"], 0, len(s["Q"]), len(s["P"]))
    for q in s["Q"] + s["P"]:
        b += struct.pack("<2I", q, psi(q, s["logN"]))
    return hashlib.sha256(b).digest()


def pack(x, q):
    width, acc = (q * q - 1).bit_length(), 0
    for i in range(len(x) // 2 - 1, -1, -1):
        acc = acc << width | (x[2 * i] + q * x[2 * i + 1])
    return acc.to_bytes(len(x) // 2 * width // 8, "little")


def head(major, n):
    for bound, info, fmt in ((24, None, None), (1 << 8, 24, ">B"), (1 << 16, 25, ">H"), (1 << 32, 26, ">I")):
        if n < bound:
            if info is None:
                return bytes([major << 5 | n])
            return bytes([major << 5 | info]) + struct.pack(fmt, n)
    raise ValueError(n)


def number(x):
    """The shortest float that keeps the value."""
    for first, fmt in ((0xF9, ">e"), (0xFA, ">f"), (0xFB, ">d")):
        try:
            b = struct.pack(fmt, x)
        except OverflowError:
            continue
        if struct.unpack(fmt, b)[0] == x:
            return bytes([first]) + b
    raise ValueError(x)


def blob(b):
    return head(2, len(b)) + b


def vector(name, level, scale, n2, seeded, c0_seed, c1_seed):
    s = SETS[name]
    n, limbs = 1 << s["logN"], len(s["Q"]) - (s["depth"] - level) * s["ppl"]
    q = s["Q"][:limbs]
    c0_label, c1_label = 0x76300000, LABEL_CIPHER_A if seeded else 0x76310000
    c0 = [uniform(c0_seed, c0_label, i, m, n) for i, m in enumerate(q)]
    c1 = [uniform(c1_seed, c1_label, i, m, n) for i, m in enumerate(q)]
    preamble = head(4, 9) + head(0, VERSION) + head(0, 1) + blob(params_hash(s))
    preamble += head(0, level) + number(scale) + head(0, n2) + head(0, 1)
    preamble += blob(c1_seed) if seeded else b"\xf6"
    polys = [b"".join(pack(x, m) for x, m in zip(p, q)) for p in ([c0] if seeded else [c0, c1])]
    body = preamble + head(4, len(polys)) + b"".join(blob(p) for p in polys)
    words = lambda p: hashlib.sha256(b"".join(struct.pack("<%dI" % n, *x) for x in p)).hexdigest()
    return {
        "params": name, "level": level, "scale": scale, "n2": n2, "seeded": seeded,
        "c0_seed": c0_seed.hex(), "c0_label": c0_label, "c1_seed": c1_seed.hex(), "c1_label": c1_label,
        "params_hash": params_hash(s).hex(),
        "preamble": (preamble + head(4, len(polys)) + head(2, len(polys[0]))).hex(),
        "c0_first_residues": c0[0][:8], "c0_first_bytes": polys[0][:32].hex(),
        "c0_sha256": words(c0), "c1_sha256": words(c1),
        "length": len(body), "sha256": hashlib.sha256(body).hexdigest(),
    }


def seed(text):
    return hashlib.sha256(text.encode()).digest()


def main():
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
        x = [0, q - 1, q - 1, 0, 1, 2, q - 1, q - 1] + uniform(a, 0x76320000, 0, q, 16)[:8]
        packing.append({"q": q, "residues": x, "bytes": pack(x, q).hex()})
    print(json.dumps({"packing": packing, "ciphertexts": ciphertexts}, indent=1))


main()

"""ChaCha20 streams and the distributions of docs/cryptography.md; HKDF (RFC 5869)."""
import hashlib
import hmac
import struct


def words(seed, label, index, attempt, count):
    """Words 0 .. count-1 of a stream.

    All blocks are computed together: a Python integer holds one state word of every block,
    in lanes of 64 bits of which the lower 32 are used.
    """
    blocks = -(-count // 16)
    ones = int.from_bytes(b"\1\0\0\0\0\0\0\0" * blocks, "little")
    mask = ones * 0xFFFFFFFF
    counter = int.from_bytes(struct.pack(f"<{blocks}Q", *range(blocks)), "little")
    start = [ones * w for w in struct.unpack("<4I", b"expand 32-byte k") + struct.unpack("<8I", seed)]
    start += [counter] + [ones * w for w in (label, index, attempt)]
    s = start[:]

    def quarter(a, b, c, d):
        for x, y, z, r in ((a, b, d, 16), (c, d, b, 12), (a, b, d, 8), (c, d, b, 7)):
            s[x] = s[x] + s[y] & mask
            v = s[z] ^ s[x]
            s[z] = (v << r | v >> 32 - r) & mask

    for _ in range(10):
        for i in range(4):
            quarter(i, 4 + i, 8 + i, 12 + i)
        for i in range(4):
            quarter(i, 4 + (i + 1) % 4, 8 + (i + 2) % 4, 12 + (i + 3) % 4)
    lanes = [struct.unpack(f"<{blocks}Q", (a + b & mask).to_bytes(8 * blocks, "little")) for a, b in zip(s, start)]
    return [w for block in zip(*lanes) for w in block][:count]


def uniform(seed, label, index, q, n):
    """n exactly uniform residues."""
    out, attempt = [None] * n, 0
    least = 2 ** 32 % q
    while None in out:
        for j, x in enumerate(words(seed, label, index, attempt, n)):
            if out[j] is None and x * q % 2 ** 32 >= least:
                out[j] = x * q >> 32
        attempt += 1
    return out


def ternary(seed, label, n):
    w = words(seed, label, 0, 0, 2 * n)
    return [(3 * (w[2 * j] | w[2 * j + 1] << 32) >> 64) - 1 for j in range(n)]


def binomial(seed, label, n):
    w = [(x & (1 << 21) - 1).bit_count() for x in words(seed, label, 0, 0, 2 * n)]
    return [w[2 * j] - w[2 * j + 1] for j in range(n)]


def derive(seed, label, *numbers):
    """D(seed, label, words) of docs/wire-ciphertext.md. The label is text or bytes."""
    label = label if isinstance(label, bytes) else label.encode()
    return hkdf(seed, label + b"\0" + b"".join(struct.pack("<Q", x) for x in numbers))


def hkdf(secret, info):
    """32 bytes of HKDF-SHA256 without a salt."""
    key = hmac.new(bytes(32), secret, hashlib.sha256).digest()
    return hmac.new(key, info + b"\1", hashlib.sha256).digest()

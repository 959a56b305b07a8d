"""Ed25519 (RFC 8032), in affine formulas' extended form. Not constant in time: for tests only."""
import hashlib

P = 2 ** 255 - 19
ORDER = 2 ** 252 + 27742317777372353535851937790883648493
D = -121665 * pow(121666, -1, P) % P
ROOT = pow(2, (P - 1) // 4, P)  # of -1


def recover_x(y, sign):
    """x of a point with this y, or None."""
    x2 = (y * y - 1) * pow(D * y * y + 1, -1, P) % P
    x = pow(x2, (P + 3) // 8, P)
    if x * x % P != x2:
        x = x * ROOT % P
    if x * x % P != x2 or x == 0 and sign:
        return None
    return P - x if x & 1 != sign else x


def point(x, y):
    return x, y, 1, x * y % P


BASE = point(recover_x(4 * pow(5, -1, P) % P, 0), 4 * pow(5, -1, P) % P)
NEUTRAL = point(0, 1)


def add(a, b):
    x1, y1, z1, t1 = a
    x2, y2, z2, t2 = b
    m, n = (y1 - x1) * (y2 - x2) % P, (y1 + x1) * (y2 + x2) % P
    c, d = 2 * t1 * t2 * D % P, 2 * z1 * z2 % P
    e, f, g, h = n - m, d - c, d + c, n + m
    return e * f % P, g * h % P, f * g % P, e * h % P


def multiply(k, a):
    out = NEUTRAL
    while k:
        if k & 1:
            out = add(out, a)
        a, k = add(a, a), k >> 1
    return out


def encode(a):
    x, y, z, _ = a
    inverse = pow(z, -1, P)
    x, y = x * inverse % P, y * inverse % P
    return (y | (x & 1) << 255).to_bytes(32, "little")


def decode(b):
    y = int.from_bytes(b, "little")
    y, sign = y & (2 ** 255 - 1), y >> 255
    if y >= P:
        return None
    x = recover_x(y, sign)
    return None if x is None else point(x, y)


def digest(*parts):
    return int.from_bytes(hashlib.sha512(b"".join(parts)).digest(), "little")


def expand(seed):
    h = hashlib.sha512(seed).digest()
    return int.from_bytes(h[:32], "little") & (2 ** 254 - 8) | 2 ** 254, h[32:]


def public_key(seed):
    return encode(multiply(expand(seed)[0], BASE))


def sign(seed, message):
    a, prefix = expand(seed)
    public = encode(multiply(a, BASE))
    r = digest(prefix, message) % ORDER
    big_r = encode(multiply(r, BASE))
    s = (r + digest(big_r, public, message) * a) % ORDER
    return big_r + s.to_bytes(32, "little")


def verify(public, message, signature):
    s = int.from_bytes(signature[32:], "little")
    a = decode(public)
    if len(signature) != 64 or s >= ORDER or a is None:
        return False
    k = digest(signature[:32], public, message) % ORDER
    minus_a = (P - a[0], a[1], a[2], P - a[3])
    return encode(add(multiply(s, BASE), multiply(k, minus_a))) == signature[:32]

"""Ciphertexts and keys: docs/wire-ciphertext.md."""
import hashlib
import struct

from . import Refused, cbor, ring, sampling

VERSION = 2
CIPHERTEXT, PUBLIC_KEY, EVALUATION_KEYS, SECRET_KEY, SWITCHING_KEY = 1, 2, 3, 4, 5
LABEL_C1, LABEL_A, LABEL_S, LABEL_E = 1, 0x48410000, 0x48560010, 0x48570000
NAMES = ("ErrTruncated", "ErrMalformed", "ErrLength")


def width(q):
    return (q * q - 1).bit_length()


def packed_size(n, primes):
    return sum(n * width(q) // 16 for q in primes)


def pack(limb, q):
    w, acc = width(q), 0
    for i in range(len(limb) - 2, -1, -2):
        acc = acc << w | limb[i] + q * limb[i + 1]
    return acc.to_bytes(len(limb) // 2 * w // 8, "little")


def unpack(raw, q):
    w, out = width(q), []
    for start in range(0, len(raw), w):  # eight pairs fill w bytes
        acc = int.from_bytes(raw[start:start + w], "little")
        for _ in range(8):
            high, low = divmod(acc & (1 << w) - 1, q)
            if high >= q:
                raise Refused("ErrRange", f"a pair modulo {q} is not below its square")
            out += (low, high)
            acc >>= w
    return out


def unpack_limbs(raw, n, primes):
    limbs, at = [], 0
    for q in primes:
        size = n * width(q) // 16
        limbs.append(unpack(raw[at:at + size], q))
        at += size
    return limbs


def begin(data, kind, elements):
    """A reader after the version and kind; whatever follows another version is not looked at."""
    r = cbor.Reader(data, NAMES)
    n = r.expect(cbor.ARRAY, "an array")
    version = r.unsigned()
    if version != VERSION:
        raise Refused("ErrVersion", version)
    got = r.unsigned()
    if got != kind:
        raise Refused("ErrKind", got)
    if n != elements:
        r.refuse(f"an array of {n}")
    return r, r.bytes(32)


def belongs(got, params):
    if got != params.hash:
        raise Refused("ErrParams", got.hex())


class Ciphertext:
    def __init__(self, data, params):
        n = params.n
        if len(data) > 96 + 2 * packed_size(n, params.q):
            raise Refused("ErrTooLarge", len(data))
        r, hash_ = begin(data, CIPHERTEXT, 9)
        self.level, self.scale, self.n2, self.transform = r.unsigned(), r.float(), r.unsigned(), r.unsigned()
        self.seed = None if r.null() else r.bytes(32)
        count = r.expect(cbor.ARRAY, "an array")
        if self.level > 128:
            raise Refused("ErrLevel", self.level)
        if self.scale < 1:
            raise Refused("ErrScale", self.scale)
        if self.n2 not in (1, 2, 4, 8, 16) or self.transform > 1:
            raise Refused("ErrDomain", (self.n2, self.transform))
        if count != (2 if self.seed is None else 1):
            raise Refused("ErrDegree", count)
        belongs(hash_, params)
        if self.level > params.depth:
            raise Refused("ErrLevel", self.level)
        if self.scale > params.product(self.level) / 2:
            raise Refused("ErrScale", self.scale)
        self.params, self.primes = params, params.primes(self.level)
        raw = [r.bytes(packed_size(n, self.primes)) for _ in range(count)]
        r.end()
        self.c0 = unpack_limbs(raw[0], n, self.primes)
        if self.seed is None:
            self.c1 = unpack_limbs(raw[1], n, self.primes)
            if not all(any(limb) for limb in self.c1):
                raise Refused("ErrDegenerate", "c1 is zero modulo a prime")
        else:
            self.c1 = [sampling.uniform(self.seed, LABEL_C1, i, q, n) for i, q in enumerate(self.primes)]

    def decrypt(self, s):
        """The coefficients of the plaintext, as integers around 0. s are the secret's coefficients."""
        residues = []
        for q, c0, c1 in zip(self.primes, self.c0, self.c1):
            psi = self.params.psi[q]
            if self.transform == 1:
                product = ring.multiply(c1, ring.forward([x % q for x in s], q, psi, self.n2), q, psi, self.n2)
                residues.append(ring.inverse([(a + b) % q for a, b in zip(c0, product)], q, psi, self.n2))
            else:
                one = ring.forward(ring.coefficients(c1, self.n2), q, psi, 1)
                product = ring.inverse(ring.multiply(one, ring.forward([x % q for x in s], q, psi, 1), q, psi, 1), q, psi, 1)
                residues.append([(a + b) % q for a, b in zip(ring.coefficients(c0, self.n2), product)])
        return centred(residues, self.primes)


def centred(residues, primes):
    """The integers in (-Q/2, Q/2) with these residues."""
    product = 1
    for q in primes:
        product *= q
    factors = [product // q * pow(product // q, -1, q) for q in primes]
    out = []
    for column in zip(*residues):
        x = sum(r * f for r, f in zip(column, factors)) % product
        out.append(x - product if 2 * x > product else x)
    return out


class SecretKey:
    def __init__(self, data, params):
        r, hash_ = begin(data, SECRET_KEY, 6)
        belongs(hash_, params)
        self.params, self.epoch, self.root = params, r.unsigned(2 ** 32 - 1), r.bytes(32)
        packed = r.bytes(params.n // 4)
        r.end()
        self.s = [(b >> 2 * j & 3) - 1 for b in packed for j in range(4)]
        if 2 in self.s:
            raise Refused("ErrMalformed", "a coefficient is not -1, 0 or 1")

    @classmethod
    def from_seed(cls, seed, params, epoch):
        self = cls.__new__(cls)
        self.params, self.epoch = params, epoch
        self.root = sampling.derive(seed, "hencedge key root", *struct.unpack("<4Q", params.hash))
        self.s = sampling.ternary(sampling.derive(self.root, "hencedge secret key"), LABEL_S, params.n)
        return self

    def encode(self):
        packed = bytes(sum((self.s[i + j] + 1) << 2 * j for j in range(4)) for i in range(0, len(self.s), 4))
        return (cbor.head(4, 6) + preamble(SECRET_KEY, self.params) + cbor.head(0, self.epoch)
                + cbor.blob(self.root) + cbor.blob(packed))

    def pairs(self, name, element, under, target, digits):
        """The key of this name: its seed and the polynomials b of all digits, in ntt/1."""
        params = self.params
        return self.pairs_over(range(len(params.q + params.p)), params.alpha, name.encode(), element, under, target, digits)

    def pairs_over(self, at, alpha, name, element, under, target, digits):
        """pairs modulo the primes at these places of Q then P, with digits of alpha primes."""
        params, out = self.params, []
        noise = sampling.derive(self.root, b"hencedge noise of " + name, element)
        seed = sampling.derive(self.root, b"hencedge uniform half of " + name, element)
        primes, special = params.q + params.p, 1
        for i in at:
            special *= primes[i] if i >= len(params.q) else 1
        for d in range(digits):
            e = sampling.binomial(noise, LABEL_E + d, params.n)
            for i in at:
                q = primes[i]
                psi = params.psi[q]
                a = sampling.uniform(seed, LABEL_A + d, i, q, params.n)
                masked = ring.multiply(a, ring.forward([x % q for x in under], q, psi, 1), q, psi, 1)
                lift = 0
                if target is not None and i < len(params.q) and i // alpha == d:
                    lift = special % q
                known = [x % q for x in e] if not lift else [(x + lift * y) % q for x, y in zip(e, target)]
                out.append([(x - y) % q for x, y in zip(ring.forward(known, q, psi, 1), masked)])
        return seed, out

    def public_key(self):
        """The file public.key, and the key id."""
        seed, b = self.pairs("public key", 0, self.s, None, 1)
        id_ = key_id(self.params, b, seed)
        body = preamble(PUBLIC_KEY, self.params) + cbor.blob(id_) + cbor.head(0, self.epoch) + key(self.params, seed, b)
        return cbor.head(4, 6) + body, id_

    def secret_of(self, label, params):
        """A secret that follows from the root, in another ring."""
        return SecretKey.from_seed(sampling.derive(self.root, label), params, self.epoch)

    def switching_key(self, other, id_):
        """The file of the key from another secret, perhaps in a smaller ring, to this one (docs: compact windows)."""
        params = self.params
        low = list(range(len(params.primes(0))))
        digest = sampling.hkdf(bytes(x % 256 for x in other.s), b"hencedge compact digest")
        target = [0] * params.n
        target[::params.n // len(other.s)] = other.s
        at = low + [len(params.q)]
        seed, b = self.pairs_over(at, 1, b"compact key " + digest, 0, self.s, target, len(low))
        primes = [(params.q + params.p)[i] for i in at]
        return (cbor.head(4, 6) + preamble(SWITCHING_KEY, params) + cbor.blob(id_) + cbor.head(0, self.epoch)
                + key(params, seed, b, primes))

    def evaluation_keys(self, rotations, conjugation):
        """The file evaluation.key."""
        params = self.params
        out = preamble(EVALUATION_KEYS, params) + cbor.blob(self.public_key()[1]) + cbor.head(0, self.epoch)
        digits = -(-len(params.q) // params.alpha) if params.alpha else 0
        if not digits:
            return cbor.head(4, 7) + out + cbor.head(4, 0) + cbor.head(4, 0)
        square = centred([square_of(self.s, params.q[0], params.psi[params.q[0]])], params.q[:1])
        out += cbor.head(4, 1) + key(params, *self.pairs("relinearisation key", 0, self.s, square, digits))
        elements = {pow(5, k, 2 * params.n) for k in rotations} | ({2 * params.n - 1} if conjugation else set())
        out += cbor.head(4, len(elements))
        for g in sorted(elements):
            turned = ring.automorphism(self.s, pow(g, -1, 2 * params.n))
            out += cbor.head(4, 2) + cbor.head(0, g) + key(params, *self.pairs("galois key", g, turned, self.s, digits))
        return cbor.head(4, 7) + out


def square_of(s, q, psi):
    t = ring.forward([x % q for x in s], q, psi, 1)
    return ring.inverse(ring.multiply(t, t, q, psi, 1), q, psi, 1)


def preamble(kind, params):
    return cbor.head(0, VERSION) + cbor.head(0, kind) + cbor.blob(params.hash)


def key(params, seed, limbs, primes=None):
    primes = primes or params.q + params.p
    b = b"".join(pack(limb, primes[i % len(primes)]) for i, limb in enumerate(limbs))
    return cbor.head(4, 3) + cbor.blob(seed) + cbor.blob(b) + b"\xf6"


def key_id(params, b, seed, a=()):
    h = hashlib.sha256(b"hencedge key id v1" + params.hash)
    for limb in b:
        h.update(struct.pack(f"<{len(limb)}I", *limb))
    if seed is not None:
        h.update(seed)
    for limb in a:
        h.update(struct.pack(f"<{len(limb)}I", *limb))
    return h.digest()[:16]


class PublicKey:
    def __init__(self, data, params):
        r, hash_ = begin(data, PUBLIC_KEY, 6)
        belongs(hash_, params)
        self.params, self.id, self.epoch = params, r.bytes(16), r.unsigned(2 ** 32 - 1)
        (self.seed, self.b, self.a), = read_keys(r, params, 1)
        r.end()
        if key_id(params, self.b, self.seed, () if self.seed else self.a) != self.id:
            raise Refused("ErrMalformed", "the key id is not the key's")

    def noise(self, s):
        """The largest coefficient of b + a*s."""
        return noise_of(self.params, self.b, self.a, s, None, 0)


def read_keys(r, params, digits, at=None):
    """One key: seed, and for each digit the limbs of b and of a. at are the places of its primes in Q then P: all by default."""
    primes = params.q + params.p
    at = range(len(primes)) if at is None else at
    primes = [primes[i] for i in at]
    size = digits * packed_size(params.n, primes)
    r.array(3)
    seed = None if r.null() else r.bytes(32)
    b = r.bytes(size)
    a = None if r.null() else r.bytes(size)
    if (seed is None) == (a is None):
        r.refuse("a key has a seed, or the residues of a")
    b = unpack_limbs(b, params.n, primes * digits)
    if a is not None:
        a = unpack_limbs(a, params.n, primes * digits)
    else:
        a = [sampling.uniform(seed, LABEL_A + d, i, q, params.n) for d in range(digits) for i, q in zip(at, primes)]
    k = len(primes)
    return [(seed, b[d * k:d * k + k], a[d * k:d * k + k]) for d in range(digits)]


def noise_of(params, b, a, under, target, digit):
    """The largest coefficient of b + a*under - g_digit*target, over the primes one by one."""
    special, largest = 1, 0
    for p in params.p:
        special *= p
    for i, q in enumerate(params.q + params.p):
        psi = params.psi[q]
        x = ring.multiply(a[i], ring.forward([c % q for c in under], q, psi, 1), q, psi, 1)
        e = ring.inverse([(u + v) % q for u, v in zip(x, b[i])], q, psi, 1)
        if target is not None and i < len(params.q) and i // params.alpha == digit:
            e = [(u - special * t) % q for u, t in zip(e, target)]
        largest = max(largest, max(min(v, q - v) for v in e))
    return largest


class SwitchingKey:
    def __init__(self, data, params):
        r, hash_ = begin(data, SWITCHING_KEY, 6)
        belongs(hash_, params)
        low = list(range(len(params.primes(0))))
        self.params, self.id, self.epoch = params, r.bytes(16), r.unsigned(2 ** 32 - 1)
        self.digits = read_keys(r, params, len(low), low + [len(params.q)])
        r.end()


class EvaluationKeys:
    def __init__(self, data, params):
        r, hash_ = begin(data, EVALUATION_KEYS, 8 if params.upper else 7)
        belongs(hash_, params)
        self.params, self.id, self.epoch = params, r.bytes(16), r.unsigned(2 ** 32 - 1)
        digits = -(-len(params.q) // params.alpha) if params.alpha else 0
        self.relin, self.galois = None, {}
        count = r.expect(cbor.ARRAY, "an array")
        if count > min(digits, 1):
            r.refuse("more than one relinearisation key")
        if count:
            self.relin = read_keys(r, params, digits)
        last, count = 1, r.expect(cbor.ARRAY, "an array")
        if count > (1024 if digits else 0):
            r.refuse("too many Galois keys")
        for _ in range(count):
            r.array(2)
            g = r.unsigned()
            if g <= last or g % 2 == 0 or g >= 2 * params.n:
                r.refuse(f"Galois element {g} after {last}")
            self.galois[g], last = read_keys(r, params, digits), g
        self.sparse = None
        if params.upper:
            count = r.expect(cbor.ARRAY, "an array")
            if count not in (0, 2):
                r.refuse("one of the two keys of the sparse secret")
            if count:
                low = list(range(len(params.primes(0))))
                self.sparse = read_keys(r, params, len(low), low + [len(params.q)]), read_keys(r, params, digits)
        r.end()

    def noise(self, s):
        """The largest coefficient of what is left of any digit without its mask and message."""
        params, largest = self.params, 0
        if self.relin:
            square = centred([square_of(s, params.q[0], params.psi[params.q[0]])], params.q[:1])
            for d, (_, b, a) in enumerate(self.relin):
                largest = max(largest, noise_of(params, b, a, s, square, d))
        for g, digits in self.galois.items():
            under = ring.automorphism(s, pow(g, -1, 2 * params.n))
            for d, (_, b, a) in enumerate(digits):
                largest = max(largest, noise_of(params, b, a, under, s, d))
        return largest

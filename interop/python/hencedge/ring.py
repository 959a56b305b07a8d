"""Polynomials modulo X^N + 1 and a prime: the domains of docs/wire-ciphertext.md."""


def store(blocks):
    """Blocks of n2 coefficients as a limb: column after column."""
    return [block[col] for col in range(len(blocks[0])) for block in blocks]


def load(limb, n2):
    rows = len(limb) // n2
    return [limb[row::rows] for row in range(rows)]


def coefficients(limb, n2):
    """Transform 0: the coefficients in natural order."""
    return [c for block in load(limb, n2) for c in block]


def forward(poly, q, psi, n2):
    """The limb in transform 1: X^m - psi^e splits into X^(m/2) -+ psi^(e/2), down to n2 coefficients."""
    blocks = [(poly, len(poly))]
    n = len(poly)
    while len(blocks[0][0]) > n2:
        split = []
        for block, e in blocks:
            m, z = len(block) // 2, pow(psi, e // 2, q)
            low, high = block[:m], [z * c % q for c in block[m:]]
            split.append(([(a + b) % q for a, b in zip(low, high)], e // 2))
            split.append(([(a - b) % q for a, b in zip(low, high)], e // 2 + n))
        blocks = split
    return store([block for block, _ in blocks])


def exponents(n, n2):
    """e of w_b = psi^e for every block b."""
    out = [n]
    for _ in range((n // n2).bit_length() - 1):
        out = [x for e in out for x in (e // 2, e // 2 + n)]
    return out


def inverse(limb, q, psi, n2):
    """The coefficients of a limb in transform 1."""
    n = len(limb)
    blocks = load(limb, n2)
    es = exponents(n, n2)
    half = pow(2, -1, q)
    while len(blocks) > 1:
        joined = []
        for i in range(0, len(blocks), 2):
            z = pow(psi, -es[i], q) * half % q
            a, b = blocks[i], blocks[i + 1]
            joined.append([(x + y) * half % q for x, y in zip(a, b)] + [(x - y) * z % q for x, y in zip(a, b)])
        blocks, es = joined, [2 * e for e in es[::2]]
    return blocks[0]


def multiply(a, b, q, psi, n2):
    """The product of two limbs in transform 1, block by block modulo X^n2 - w_b."""
    n = len(a)
    if n2 == 1:
        return [x * y % q for x, y in zip(a, b)]
    out = []
    for x, y, e in zip(load(a, n2), load(b, n2), exponents(n, n2)):
        c = [0] * (2 * n2)
        for i, u in enumerate(x):
            for j, v in enumerate(y):
                c[i + j] += u * v
        w = pow(psi, e, q)
        out.append([(c[i] + w * c[i + n2]) % q for i in range(n2)])
    return store(out)


def automorphism(poly, g):
    """X -> X^g of coefficients."""
    n = len(poly)
    out = [0] * n
    for i, c in enumerate(poly):
        at = i * g % (2 * n)
        out[at % n] = c if at < n else -c
    return out

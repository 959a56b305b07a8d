"""Parameter sets, from docs/vectors/parameters.json."""
import decimal
import hashlib
import json
import math
import pathlib
import struct

VECTORS = pathlib.Path(__file__).resolve().parents[3] / "docs" / "vectors"


class Set:
    def __init__(self, entry):
        self.name, self.log_n, self.log_scale = entry["name"], entry["log_n"], entry["log_scale"]
        self.n = 1 << self.log_n
        self.per_level, self.depth, self.alpha = entry["primes_per_level"], entry["depth"], entry["alpha"]
        self.insecure, self.upper = entry["insecure"], entry.get("upper", [])
        self.mixed = "lower" in entry
        self.lower = entry.get("lower", [self.per_level] * self.depth)
        self.q, self.p = entry["q"], entry["p"]
        self.psi = dict(zip(entry["q"] + entry["p"], entry["psi_q"] + entry["psi_p"]))
        self.hash = self.digest()

    def digest(self):
        words = [self.log_n, self.log_scale, self.per_level, self.depth, self.alpha, self.insecure, len(self.q), len(self.p)]
        version = b"v3" if self.mixed else b"v2" if self.upper else b"v1"
        if self.upper or self.mixed:
            words += [len(self.upper)] + self.upper
        if self.mixed:
            words += self.lower
        b = b"hencedge/params/" + version + b"\0" + struct.pack("<%dI" % len(words), *words)
        for prime in self.q + self.p:
            b += struct.pack("<2I", prime, self.psi[prime])
        return hashlib.sha256(b).digest()

    def primes(self, level):
        return self.q[:len(self.q) - sum((self.lower + self.upper)[level:])]

    def product(self, level):
        return math.prod(self.primes(level))

    def scale(self, level):
        """The scale of a fresh ciphertext."""
        with decimal.localcontext() as context:
            context.prec = 80
            out = decimal.Decimal(2) ** self.log_scale
            for at in range(self.depth, level, -1):
                out = out * out / (self.product(at) // self.product(at - 1))
            return float(out)


def load():
    with open(VECTORS / "parameters.json", encoding="utf-8") as f:
        sets = [Set(entry) for entry in json.load(f)["sets"]]
    return {s.name: s for s in sets}


SETS = load()
BY_HASH = {s.hash: s for s in SETS.values()}

"""Compact windows, from docs/wire-ciphertext.md."""
import hashlib
import struct

from . import Refused, sampling

KIND, VERSION, HEAD = 0xC3, 1, 14
BITS = {12: 18, 16: 22}
SETS = {1: (12, 1073692673)}  # by number: log2(N), q
LABEL = 0x48430001
RATIO = 64


class Window:
    def __init__(self, data, number):
        if data[:1] and data[0] != KIND:
            raise Refused("ErrKind", f"begins with {data[0]:#04x}")
        if data[1:2] and data[1] != VERSION:
            raise Refused("ErrVersion", str(data[1]))
        if len(data) < HEAD:
            raise Refused("ErrTruncated", "in the head")
        _, _, set_, self.precision, count = struct.unpack("<4BH", data[:6])
        if set_ != number:
            raise Refused("ErrParams", f"set {set_}")
        log_n, self.q = SETS[number]
        self.n = 1 << log_n
        if self.precision not in BITS:
            raise Refused("ErrMalformed", f"precision {self.precision}")
        if not 1 <= count <= self.n:
            raise Refused("ErrLength", f"{count} readings")
        self.nonce, bits = data[6:HEAD], BITS[self.precision]
        size = HEAD + -(-count * bits // 8)
        if len(data) != size:
            raise Refused("ErrTruncated" if len(data) < size else "ErrMalformed", f"{len(data)} bytes, not {size}")
        packed = int.from_bytes(data[HEAD:], "little")
        if packed >> count * bits:
            raise Refused("ErrMalformed", "a bit after the last value")
        self.values = [packed >> j * bits & (1 << bits) - 1 for j in range(count)]

    def uniform(self, params_hash, device, stream, key_id, key_epoch, boot_epoch, sequence):
        """The coefficients of c1."""
        names = b"".join(bytes([len(x)]) + x for x in (device.encode(), stream.encode()))
        seed = hashlib.sha256(
            b"hencedge compact window v1\0" + params_hash + struct.pack("<BH", self.precision, len(self.values))
            + self.nonce + names + key_id + struct.pack("<IQQ", key_epoch, boot_epoch, sequence)).digest()
        return sampling.uniform(seed, LABEL, 0, self.q, self.n)

    def open(self, c1, s):
        """The readings, under the board's secret s."""
        count, n, out = len(self.values), self.n, []
        stride = n >> (count - 1).bit_length()
        for j, v in enumerate(self.values):
            k = j * stride
            product = sum(a * (s[k - i] if i <= k else -s[n + k - i]) for i, a in enumerate(c1))
            phase = (v * self.q / (1 << BITS[self.precision]) + product % self.q) % self.q
            out.append((phase - self.q if phase > self.q / 2 else phase) * RATIO / self.q)
        return out

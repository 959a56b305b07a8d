"""Core deterministic CBOR (RFC 8949, section 4.2.1), and nothing else."""
import struct

from . import Refused

UNSIGNED, NEGATIVE, BYTES, TEXT, ARRAY, MAP, TAG, SIMPLE = range(8)


class Reader:
    """Reads one item after the other. names are the reasons of a reader's refusals."""

    def __init__(self, data, names=("truncated", "malformed", "malformed")):
        self.data, self.at = data, 0
        self.truncated, self.malformed, self.length = names

    def refuse(self, why):
        raise Refused(self.malformed, f"{why} at byte {self.at}")

    def take(self, n):
        if n > len(self.data) - self.at:
            raise Refused(self.truncated, f"{n} bytes at byte {self.at} of {len(self.data)}")
        self.at += n
        return self.data[self.at - n:self.at]

    def head(self):
        """The next item's major type and argument; of a simple value or float, its low five bits."""
        first = self.take(1)[0]
        major, low = first >> 5, first & 31
        if major == SIMPLE or low < 24:
            return major, low
        if low > 27:
            self.refuse("an indefinite length or a reserved head")
        n = int.from_bytes(self.take(1 << (low - 24)), "big")
        if n < (24, 1 << 8, 1 << 16, 1 << 32)[low - 24]:
            self.refuse("a number that is longer than needed")
        return major, n

    def expect(self, major, what):
        got, n = self.head()
        if got != major:
            self.refuse(f"major type {got} where {what} belongs")
        return n

    def unsigned(self, most=2 ** 64 - 1):
        n = self.expect(UNSIGNED, "an unsigned number")
        if n > most:
            self.refuse(f"{n} is above {most}")
        return n

    def integer(self):
        """A signed number of 64 bits."""
        major, n = self.head()
        if major not in (UNSIGNED, NEGATIVE) or n >= 1 << 63:
            self.refuse("no integer of 64 bits")
        return n if major == UNSIGNED else -1 - n

    def float(self):
        major, low = self.head()
        if major != SIMPLE or low not in (25, 26, 27):
            self.refuse("no float")
        raw = self.take(1 << (low - 24))
        value = struct.unpack({2: ">e", 4: ">f", 8: ">d"}[len(raw)], raw)[0]
        if value != value or value in (float("inf"), float("-inf")):
            self.refuse("NaN or infinity")
        if number(value)[1:] != raw:
            self.refuse("a float that is longer than needed")
        return value

    def boolean(self):
        major, low = self.head()
        if major != SIMPLE or low not in (20, 21):
            self.refuse("no boolean")
        return low == 21

    def null(self):
        """Takes null if it comes next."""
        if self.data[self.at:self.at + 1] == b"\xf6":
            self.at += 1
            return True
        return False

    def bytes(self, size=None):
        n = self.expect(BYTES, "a byte string")
        if size is not None and n != size:
            raise Refused(self.length, f"a byte string of {n}, want {size}, at byte {self.at}")
        return self.take(n)

    def text(self):
        raw = self.take(self.expect(TEXT, "text"))
        try:
            return raw.decode("utf-8")
        except UnicodeDecodeError:
            self.refuse("text that is not UTF-8")

    def array(self, count=None):
        n = self.expect(ARRAY, "an array")
        if count is not None and n != count:
            self.refuse(f"an array of {n}, want {count}")
        return n

    def fields(self, readers, optional=()):
        """A map of the given integer keys, ascending; each value is read by its reader."""
        out, last = {}, -1
        for _ in range(self.expect(MAP, "a map")):
            key = self.unsigned()
            if key <= last or key not in readers:
                self.refuse(f"key {key} after {last}")
            out[key], last = readers[key](), key
        for key in readers:
            if key not in out and key not in optional:
                self.refuse(f"key {key} is missing")
        return out

    def named(self, readers, optional=()):
        """A map of the given text keys, in the order of their encodings; readers None: any keys, read by optional."""
        out, last = {}, b""
        for _ in range(self.expect(MAP, "a map")):
            start = self.at
            key = self.text()
            raw = self.data[start:self.at]
            if raw <= last or readers is not None and key not in readers:
                self.refuse(f"key {key!r}")
            out[key], last = (readers[key] if readers is not None else optional)(), raw
        for key in readers or ():
            if key not in out and key not in optional:
                self.refuse(f"key {key!r} is missing")
        return out

    def skip(self):
        """Reads an item of any kind and returns its bytes."""
        start = self.at
        major, n = self.head()
        if major in (BYTES, TEXT):
            self.take(n)
        elif major == SIMPLE and n > 23:
            self.at = start
            self.float()
        elif major == TAG:
            self.refuse("a tag")
        for _ in range(n * (major == MAP) * 2 + n * (major == ARRAY)):
            self.skip()
        return self.data[start:self.at]

    def end(self):
        if self.at != len(self.data):
            self.refuse(f"{len(self.data) - self.at} bytes after the end")


def head(major, n):
    for low, size in ((24, 1), (25, 2), (26, 4), (27, 8)):
        if n < 24:
            return bytes([major << 5 | n])
        if n < 1 << (8 * size):
            return bytes([major << 5 | low]) + n.to_bytes(size, "big")
    raise ValueError(n)


def blob(b):
    return head(BYTES, len(b)) + b


def text(s):
    return head(TEXT, len(s.encode())) + s.encode()


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

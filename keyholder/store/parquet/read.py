"""Prints the rows of a Parquet file with flat, required columns as NDJSON: an independent
reader for the test, written from parquet-format's README and parquet.thrift."""

import gzip
import json
import struct
import sys


class Compact:
    """Thrift's compact protocol: structures become dicts by field id."""

    def __init__(self, data, at=0):
        self.data, self.at = data, at

    def byte(self):
        self.at += 1
        return self.data[self.at - 1]

    def varint(self):
        n = shift = 0
        while True:
            b = self.byte()
            n |= (b & 127) << shift
            shift += 7
            if b < 128:
                return n

    def integer(self):
        n = self.varint()
        return (n >> 1) ^ -(n & 1)

    def value(self, kind):
        if kind in (1, 2):
            return kind == 1
        if kind == 3:
            return struct.unpack("b", bytes([self.byte()]))[0]
        if kind in (4, 5, 6):
            return self.integer()
        if kind == 8:
            n = self.varint()
            self.at += n
            return self.data[self.at - n:self.at]
        if kind == 9:
            head = self.byte()
            n = head >> 4 if head >> 4 < 15 else self.varint()
            return [self.value(head & 15) for _ in range(n)]
        if kind == 12:
            return self.structure()
        raise ValueError(f"type {kind}")

    def structure(self):
        out, last = {}, 0
        while True:
            head = self.byte()
            if head == 0:
                return out
            last = last + (head >> 4) if head >> 4 else self.integer()
            out[last] = self.value(head & 15)


def column(data, meta, rows):
    page = Compact(data, meta[9])
    head = page.structure()
    assert head[1] == 0 and head[5][1] == rows == meta[5] and head[5][2] == 0 and meta[4] == 2, head
    raw = gzip.decompress(data[page.at:page.at + head[3]])
    assert len(raw) == head[2] and page.at - meta[9] + head[3] == meta[7], (head, meta)
    if meta[1] == 2:
        return list(struct.unpack(f"<{rows}q", raw))
    if meta[1] == 5:
        return list(struct.unpack(f"<{rows}d", raw))
    out, at = [], 0
    while at < len(raw):
        n = struct.unpack_from("<I", raw, at)[0]
        out.append(raw[at + 4:at + 4 + n].decode())
        at += 4 + n
    return out


def main():
    data = open(sys.argv[1], "rb").read()
    assert data[:4] == data[-4:] == b"PAR1"
    size = struct.unpack("<I", data[-8:-4])[0]
    footer = Compact(data[-8 - size:-8])
    meta = footer.structure()
    assert footer.at == size
    schema = meta[2]
    assert schema[0][5] == len(schema) - 1
    total = 0
    for group in meta[4]:
        columns = {}
        for element, chunk in zip(schema[1:], group[1]):
            name = element[4].decode()
            assert chunk[3][3] == [element[4]] and element[1] == chunk[3][1] and element[3] == 0
            values = column(data, chunk[3], group[3])
            assert len(values) == group[3]
            kind = element.get(10, {})
            if 8 in kind:
                assert kind[8] == {1: True, 2: {3: {}}}
                name += "_ns"
            columns[name] = values
        for row in zip(*columns.values()):
            print(json.dumps(dict(zip(columns, row))))
        total += group[3]
    assert total == meta[3]


main()

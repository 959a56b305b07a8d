"""Messages: docs/wire-format.md."""
import base64
import hashlib
import json
import re
import struct

from . import Refused, cbor, ed25519

READING, RESULT, STATUS, RECEIPT, ASK, PROGRAM = 1, 2, 3, 4, 5, 6
OUTCOMES = {1: "taken", 2: "refused", 3: "partial", 4: "unknown", 5: "working"}
MAX_OBJECT, MAX_HEADER, MAX_CHUNKS, MAX_SHORT = 32 << 20, 16 << 10, 65536, 16 << 10
AAD = b"hencedge object v2"


def malformed(why):
    raise Refused("malformed", why)


def name(text, what):
    if not re.fullmatch(r"[A-Za-z0-9_.-]{1,64}", text) or text in (".", ".."):
        malformed(f"{what} {text!r}")
    return text


def public_key(text):
    """The 32 bytes of "ed25519:..."."""
    raw = base64.b64decode(text.removeprefix("ed25519:"), validate=True)
    if not text.startswith("ed25519:") or len(raw) != 32:
        raise ValueError(f"not a public key: {text!r}")
    return raw


def key_id(public):
    return hashlib.sha256(public).digest()[:8]


class Sealed:
    """A sealed object. Its header is read after its signature was verified, its body after its digest was compared."""

    def __init__(self, data):
        if len(data) > MAX_OBJECT:
            raise Refused("too_large", len(data))
        self.id = hashlib.sha256(data).digest()
        if data[:1] == b"\xd2":
            raise Refused("downgraded", "an object of format version 1")
        r = cbor.Reader(data)
        r.array(2)
        self.body = r.bytes()
        self.digest = hashlib.sha256(data[:r.at]).digest()
        if r.expect(cbor.TAG, "a tag") != 18:
            r.refuse("another tag than COSE_Sign1")
        r.array(4)
        self.protected = r.bytes()
        p = cbor.Reader(self.protected)
        if p.expect(cbor.MAP, "the protected header") < 1 or p.unsigned() != 1:
            p.refuse("a protected header that does not begin with an algorithm")
        self.algorithm = p.integer()
        if self.algorithm not in (-19, -8):
            raise Refused("downgraded", f"algorithm {self.algorithm}")
        self.key_id = self.protected[-8:]
        if self.protected != b"\xa2\x01" + cbor.head(cbor.NEGATIVE, -1 - self.algorithm) + b"\x04" + cbor.blob(self.key_id):
            malformed("the protected header has another form")
        if r.expect(cbor.MAP, "the unprotected header"):
            r.refuse("an unprotected header that is not empty")
        self.payload = r.bytes()
        self.signature = r.bytes(64)
        r.end()
        if len(self.payload) > 1 + MAX_HEADER + 34:
            raise Refused("too_large", f"a payload of {len(self.payload)} bytes")
        if len(self.payload) < 35 or self.payload[:1] != b"\x82" or self.payload[-34:-32] != b"\x58\x20":
            malformed("a payload that is not header and digest")

    def signed(self):
        """The Sig_structure."""
        return b"\x84" + cbor.text("Signature1") + cbor.blob(self.protected) + cbor.blob(AAD) + cbor.blob(self.payload)

    def open(self, trusted, topic=None, prefix="hencedge/v1"):
        """Verifies, then reads header and body. trusted is a dict: the public key of each sender."""
        keys = {k for k in trusted.values() if key_id(k) == self.key_id}
        if not keys:
            raise Refused("unknown_signer", self.key_id.hex())
        signers = {k for k in keys if ed25519.verify(k, self.signed(), self.signature)}
        if not signers:
            raise Refused("bad_signature", self.key_id.hex())
        if self.payload[-32:] != self.digest:
            raise Refused("bad_signature", "another body than the signed one")
        self.header_cbor = self.payload[1:-34]
        p = cbor.Reader(self.header_cbor)
        self.header = Header(p)
        p.end()
        if trusted.get(self.header.device) not in signers:
            raise Refused("unknown_signer", self.header.device)
        if topic is not None and self.header.kind != RECEIPT and topic != self.header.topic(prefix):
            raise Refused("wrong_topic", topic)
        return self


class Short:
    """A short object. known has the fields of the header that do not travel, as CBOR by their keys."""

    def __init__(self, data, known):
        if len(data) > MAX_SHORT:
            raise Refused("too_large", len(data))
        r = cbor.Reader(data)
        r.array(4)
        self.protected = r.bytes()
        self.key_id = self.protected[-8:]
        if self.protected not in (b"\xa2\x01" + a + b"\x04" + cbor.blob(self.key_id) for a in (b"\x32", b"\x27")):
            malformed("the protected header has another form")
        if r.expect(cbor.MAP, "the unprotected header"):
            r.refuse("an unprotected header that is not empty")
        self.payload = r.bytes()
        self.signature = r.bytes(64)
        r.end()
        p = cbor.Reader(self.payload)
        p.array(7)
        self.body = p.bytes()
        key_epoch, boot_epoch, sequence, start, duration, samples = (p.unsigned() for _ in range(6))
        p.end()
        travelled = {0: 2, 1: READING, 6: key_epoch, 7: boot_epoch, 8: sequence, 13: start, 14: start + duration, 15: samples}
        fields = known | {k: cbor.head(cbor.UNSIGNED, v) for k, v in travelled.items()}
        self.header_cbor = cbor.head(cbor.MAP, len(fields)) + b"".join(cbor.head(cbor.UNSIGNED, k) + fields[k] for k in sorted(fields))
        h = cbor.Reader(self.header_cbor)
        self.header = Header(h)
        h.end()

    def signed(self):
        """The Sig_structure."""
        aad = b"hencedge short v1" + self.header_cbor
        return b"\x84" + cbor.text("Signature1") + cbor.blob(self.protected) + cbor.blob(aad) + cbor.blob(self.payload)

    def open(self, public):
        if key_id(public) != self.key_id:
            raise Refused("unknown_signer", self.key_id.hex())
        if not ed25519.verify(public, self.signed(), self.signature):
            raise Refused("bad_signature", self.key_id.hex())
        return self


class Header:
    def __init__(self, r):
        start = r.at
        self.check_version(r.data[start:])
        f = r.fields({
            0: r.unsigned, 1: r.unsigned, 2: r.text, 3: r.text, 4: r.text, 5: lambda: r.bytes(16),
            6: lambda: r.unsigned(2 ** 32 - 1), 7: r.unsigned, 8: r.unsigned, 9: lambda: r.bytes(32), 10: lambda: r.bytes(32),
            11: lambda: r.unsigned(63), 12: r.float, 13: r.integer, 14: r.integer, 15: lambda: r.unsigned(131072),
            16: lambda: [r.bytes(32) for _ in range(r.expect(cbor.ARRAY, "inputs"))], 17: lambda: Post(r),
            18: lambda: [r.unsigned(131072) for _ in range(r.expect(cbor.ARRAY, "present"))],
            19: r.text, 20: lambda: Fleet(r), 21: lambda: r.unsigned(256),
            22: lambda: r.unsigned(65535),
        }, optional=(3, 4, 16, 17, 18, 19, 20, 21, 22))
        if r.at - start > MAX_HEADER:
            raise Refused("too_large", f"a header of {r.at - start} bytes")
        self.kind, self.device, self.stream, self.program = f[1], f[2], f.get(3), f.get(4)
        self.key_set, self.key_epoch, self.boot_epoch, self.sequence = f[5], f[6], f[7], f[8]
        self.params, self.layout, self.level, self.scale = f[9], f[10], f[11], f[12]
        self.start, self.end, self.samples = f[13], f[14], f[15]
        self.inputs, self.post, self.present = f.get(16), f.get(17), f.get(18)
        self.subject, self.fleet, self.packed, self.place = f.get(19), f.get(20), f.get(21), f.get(22)
        self.check()

    @staticmethod
    def check_version(data):
        """The version stands first, and decides whatever else is there."""
        r = cbor.Reader(data)
        if not r.expect(cbor.MAP, "a header") or r.unsigned() != 0:
            malformed("a header without a version")
        version = r.unsigned()
        if version != 2:
            raise Refused("downgraded" if version < 2 else "unsupported_version", f"format version {version}")

    def check(self):
        kind = self.kind
        if kind not in (READING, RESULT, STATUS, RECEIPT, ASK, PROGRAM):
            malformed(f"kind {kind}")
        name(self.device, "device")
        for what in (self.stream, self.program, self.subject):
            if what is not None:
                name(what, "name")
        if kind == READING and (self.stream is None or self.program is not None or self.inputs is not None):
            malformed("a reading names a stream, no program and no inputs")
        if kind in (RESULT, PROGRAM) and self.program is None:
            malformed("a result and a program name a program")
        if not 0 <= self.scale <= 2.0 ** 120 or kind in (READING, RESULT) and self.scale == 0:
            malformed(f"scale {self.scale}")
        if self.start > self.end:
            malformed("end before start")
        if self.inputs is not None and not 1 <= len(self.inputs) <= 256:
            malformed(f"{len(self.inputs)} inputs")
        if self.present is not None and (kind != RESULT or len(self.present) != len(self.inputs or ()) or not all(self.present) or not self.present):
            malformed("samples of the inputs")
        if self.subject is not None and kind != RESULT:
            malformed("the subject of what is no result")
        if self.post is not None and kind != RESULT:
            malformed("post-processing of what is no result")
        if self.fleet is not None:
            if kind != RESULT or self.subject is not None or self.present is not None:
                malformed("several devices in what is no result of several")
            self.fleet.check(self.inputs or [])
        if self.packed is not None and (kind != RESULT or self.program != "packed" or not self.packed or self.stream or self.subject
                                        or self.inputs or self.post or self.fleet or self.samples or any(self.layout)):
            malformed("the header of a pack")
        if self.place is not None and (kind != READING or not self.place):
            malformed("the place of what is no reading")

    def topic(self, prefix):
        return {READING: f"{prefix}/up/{self.device}/{self.stream}", RESULT: f"{prefix}/res/{self.program}",
                STATUS: f"{prefix}/st/{self.device}", ASK: f"{prefix}/ask/{self.device}", PROGRAM: f"{prefix}/prg/{self.device}/{self.program}"}[self.kind]


class Fleet:
    """What a result across the devices of a class was computed from."""

    def __init__(self, r):
        f = r.fields({0: lambda: r.unsigned(2 ** 32 - 1), 1: lambda: r.unsigned(2 ** 32 - 1), 2: r.unsigned, 3: lambda: r.bytes(32)})
        self.devices, self.windows, self.samples, self.digest = (f[i] for i in range(4))

    def check(self, inputs):
        n = self.windows
        if not 1 <= self.devices <= n <= 65536 or not n <= self.samples <= 131072 * n:
            malformed("devices, windows or samples")
        if len(inputs) != (n if n <= 256 else 0):
            malformed("the list of inputs")
        if inputs and (sorted(set(inputs)) != inputs or hashlib.sha256(b"".join(inputs)).digest() != self.digest):
            malformed("inputs out of order, or another digest")


class Post:
    def __init__(self, r):
        f = r.fields({0: r.float, 1: r.float, 2: r.boolean, 3: lambda: r.unsigned(65536), 4: lambda: r.unsigned(65536), 5: r.float})
        self.set(*(f[i] for i in range(6)))

    @classmethod
    def of(cls, *fields):
        post = cls.__new__(cls)
        post.set(*fields)
        return post

    def set(self, *fields):
        self.a, self.b, self.root, self.slot, self.count, self.bound = fields
        if self.a == 0 or self.count < 1 or self.slot + self.count > 65536 or self.bound < 0:
            malformed("post-processing")

    def values(self, slots):
        out = [self.a * z.real + self.b for z in slots[self.slot:self.slot + self.count]]
        return [max(v, 0) ** 0.5 for v in out] if self.root else out


class Packed:
    """One result of a pack: the header that it would have alone."""

    def __init__(self, pack, form, r):
        self.kind, self.device, self.stream, self.fleet, self.packed, self.place = RESULT, pack.device, None, None, None, None
        self.key_set, self.key_epoch, self.boot_epoch = pack.key_set, pack.key_epoch, pack.boot_epoch
        self.params, self.level, self.scale = pack.params, pack.level, pack.scale
        slot, self.subject, self.sequence = r.unsigned(65535), r.text() or None, r.unsigned()
        self.start = pack.start + r.unsigned()
        self.end = self.start + r.unsigned()
        self.samples, inputs = r.unsigned(131072), r.bytes()
        self.inputs = [inputs[i:i + 32] for i in range(0, len(inputs), 32)]
        self.present = [r.unsigned(131072) for _ in range(r.expect(cbor.ARRAY, "present"))] or None
        self.program, self.layout, a, b, root, bound = form
        self.post = Post.of(a, b, root, slot, 1, bound)
        if len(inputs) % 32 or not inputs or self.end >= 2 ** 63:
            malformed("inputs or times of a packed result")
        for what in (self.program, self.subject):
            if what is not None:
                name(what, "name")


def pack(header, body):
    """The results of a pack, and its ciphertext."""
    r = cbor.Reader(body)
    r.array(2)
    l, ciphertext = cbor.Reader(r.bytes()), r.bytes()
    r.end()
    l.array(2)
    forms = []
    for _ in range(l.expect(cbor.ARRAY, "forms")):
        l.array(6)
        forms.append((l.text(), l.bytes(32), l.float(), l.float(), l.boolean(), l.float()))
    results, order = [], []
    for _ in range(l.expect(cbor.ARRAY, "results")):
        l.array(9)
        form = l.unsigned(len(forms) - 1)
        order.append(form)
        results.append(Packed(header, forms[form], l))
    l.end()
    if len(results) != header.packed or list(dict.fromkeys(order)) != list(range(len(forms))) or len(set(forms)) != len(forms):
        malformed("the lists of a pack")
    if len({p.post.slot for p in results}) < len(results) or len({(p.program, p.sequence) for p in results}) < len(results):
        malformed("a slot or a number that occurs twice")
    if (header.start, header.end) != (min(p.start for p in results), max(p.end for p in results)):
        malformed("the times of a pack")
    return results, ciphertext


class Chunk:
    def __init__(self, data, limit=MAX_OBJECT):
        r = cbor.Reader(data)
        count = r.expect(cbor.ARRAY, "a chunk")
        version = r.unsigned()
        if version != 1:
            raise Refused("downgraded" if version < 1 else "unsupported_version", f"chunk format {version}")
        if count != 6:
            r.refuse(f"an array of {count}")
        self.id = r.bytes(32)
        self.index, self.total, self.size = r.unsigned(), r.unsigned(), r.unsigned()
        self.data = r.bytes()
        r.end()
        if self.size > limit:
            raise Refused("too_large", self.size)
        if not 1 <= self.total <= MAX_CHUNKS or self.index >= self.total or self.size < 1:
            malformed("index, total or size")
        length = -(-self.size // self.total)
        if self.total > 1 and (length < 256 or (self.total - 1) * length >= self.size):
            malformed(f"pieces of {length} bytes")
        want = min((self.index + 1) * length, self.size) - self.index * length
        if len(self.data) != want:
            raise Refused("truncated" if len(self.data) < want else "malformed", f"{len(self.data)} bytes, want {want}")


class Reassembly:
    """Chunks to objects, by topic and hash."""

    def __init__(self):
        self.open, self.done = {}, set()

    def add(self, topic, data):
        """The object that this chunk completes, or None."""
        c = Chunk(data)
        if (topic, c.id) in self.done:
            return None
        first, parts = self.open.setdefault((topic, c.id), (c, {}))
        if (first.total, first.size) != (c.total, c.size) or parts.setdefault(c.index, c.data) != c.data:
            raise Refused("conflict", c.id.hex())
        if len(parts) < c.total:
            return None
        del self.open[topic, c.id]
        whole = b"".join(parts[i] for i in range(c.total))
        if hashlib.sha256(whole).digest() != c.id:
            raise Refused("hash_mismatch", c.id.hex())
        self.done.add((topic, c.id))
        return whole


def split(data, message):
    """The chunks of an object in messages of at most so many bytes."""
    total = -(-len(data) // (message - 64))
    length = -(-len(data) // total)
    begin = cbor.head(4, 6) + cbor.head(0, 1) + cbor.blob(hashlib.sha256(data).digest())
    return [begin + cbor.head(0, i) + cbor.head(0, total) + cbor.head(0, len(data)) + cbor.blob(data[i * length:(i + 1) * length])
            for i in range(total)]


def plain(text, most):
    """Text that people read: of at most so many bytes, nothing that drives a terminal."""
    return len(text.encode()) <= most and text.isprintable()


def status(body):
    if len(body) > 64 << 10:
        raise Refused("too_large", len(body))
    check_format(body)
    r = cbor.Reader(body)
    f = r.fields({0: r.boolean, 1: r.text, 2: lambda: streams(r), 3: r.integer, 4: r.unsigned, 5: lambda: r.bytes(16),
                  6: lambda: r.unsigned(2 ** 32 - 1), 7: lambda: r.unsigned(2 ** 63 - 1)}, optional=(2, 5, 6, 7))
    r.end()
    if f.get(7) == 0:
        malformed("no end of a certificate, which belongs left out")
    if len(f[1]) > 64 or not all(" " <= c <= "~" for c in f[1]):
        malformed("software version")
    if (6 in f) > (5 in f) or f.get(6) == 0 or f.get(5) == bytes(16):
        malformed("key epoch without a key set, or zeros that belong left out")
    return {"online": f[0], "version": f[1], "streams": f.get(2, []), "since_ns": f[3],
            "key_id": f.get(5, bytes(16)).hex(), "key_epoch": f.get(6, 0),
            **({"certificate_end_ns": f[7]} if 7 in f else {})}


def check_format(body):
    """The format decides, whatever else is there."""
    r, version = cbor.Reader(body), None
    for _ in range(r.expect(cbor.MAP, "a status")):
        key, value = r.skip(), r.skip()
        if key == b"\x04":
            version = cbor.Reader(value).unsigned()
    if version is None or version < 2:
        raise Refused("downgraded", "status of format 1")
    if version > 2:
        raise Refused("unsupported_version", f"status of format {version}")


def streams(r):
    n = r.expect(cbor.ARRAY, "streams")
    if not 1 <= n <= 64:
        r.refuse(f"{n} streams")
    return [stream(r) for _ in range(n)]


def stream(r):
    f = r.fields({0: r.text, 1: r.text, 2: lambda: r.unsigned(120), 3: r.text, 4: lambda: r.unsigned(131072), 5: r.unsigned,
                  6: lambda: channels(r), 7: lambda: r.unsigned(65536), 8: lambda: [r.float() for _ in range(r.expect(cbor.ARRAY, "resolutions"))]},
                 optional=range(1, 9))
    name(f[0], "stream")
    if (6 in f) != (1 in f) or (6 in f) != (3 in f) or (6 in f) != (4 in f) or 6 not in f and len(f) > 1 or 0 in (f.get(2), f.get(4), f.get(5), f.get(7)):
        r.refuse("a description that is not whole")
    if 8 in f and (len(f[8]) != len(f.get(6, [])) or not all(x > 0 for x in f[8])):
        r.refuse("resolutions")
    return {"name": f[0], "params": f.get(1, ""), "log_scale": f.get(2, 0), "packing": f.get(3, ""), "samples": f.get(4, 0),
            "every_ns": f.get(5, 0), "channels": f.get(6, []), **({"places": f[7]} if 7 in f else {}),
            **({"resolutions": f[8]} if 8 in f else {})}


def channels(r):
    n = r.expect(cbor.ARRAY, "channels")
    if not 1 <= n <= 1024:
        r.refuse(f"{n} channels")
    out = []
    for _ in range(n):
        r.array(4)
        out.append([name(r.text(), "channel"), r.text(), r.float(), r.float()])
        if not plain(out[-1][1], 64):
            r.refuse("unit")
    return out


MODEL_COUNTS = ("splits", "trees", "outputs", "words", "bits")


def program(body):
    """A published program, as in programs.json."""
    if len(body) > 256 << 10:
        raise Refused("too_large", len(body))
    r = cbor.Reader(body)
    channel = {"name": r.text, "unit": r.text, "range": lambda: [r.float() for _ in range(r.array(2))], "resolution": r.float}
    stream_ = {"name": r.text, "samples": r.unsigned, "every_ns": r.unsigned, "level": r.unsigned, "log_scale": r.unsigned, "packing": r.text, "places": r.unsigned,
               "channels": lambda: [r.named(channel, ("resolution",)) for _ in range(r.expect(cbor.ARRAY, "channels"))]}
    given = ("every_ns", "level", "log_scale", "packing", "places")
    words = lambda: [r.text() for _ in range(r.expect(cbor.ARRAY, "words"))]
    model = {"file": r.text, "sha256": r.text, "source": r.text, "answer": r.text, "features": words, "classes": words, "link": r.text, "decided": r.boolean,
             **{key: r.unsigned for key in MODEL_COUNTS}, "divisor": r.float, "error": r.float, "bound": r.unsigned}
    variable = {"device": r.text, "channel": r.text, "stream": lambda: r.named(stream_, given)}
    out = r.named({"name": r.text, "expr": r.text, "params": r.text, "unit": r.text, "topic": r.text, "class": r.text, "resolution": r.float,
                   "model": lambda: r.named(model, ("source", "classes", "decided")),
                   "inputs": lambda: r.named(None, lambda: r.named(variable))}, ("unit", "topic", "class", "resolution", "model"))
    r.end()
    kind = {key: out[key] for key in ("class", "resolution", "model") if key in out}
    variables = []
    for name_, v in out["inputs"].items():
        s = dict({"log_scale": 0, "every_ns": 0}, **v["stream"], params=out["params"])
        index = [c["name"] for c in s["channels"]].index(v["channel"])
        variables.append({"name": name_, "device": v["device"], "stream": s["name"], "channel": index, "layout": layout_hash(s).hex()})
    return {"name": out["name"], "expr": out["expr"], **kind, "params": out["params"], "variables": sorted(variables, key=lambda v: v["name"])}


def items(body, what, format_):
    """The addressee and a reader of the items of a receipt or an ask."""
    if len(body) > 1 << 20:
        raise Refused("too_large", len(body))
    r = cbor.Reader(body)
    count = r.expect(cbor.ARRAY, what)
    version = r.unsigned()
    if version != format_:
        raise Refused("downgraded" if version < format_ else "unsupported_version", f"{what} of version {version}")
    if count != 3:
        r.refuse(f"an array of {count}")
    to = r.text()
    n = r.expect(cbor.ARRAY, "items")
    if not 1 <= n <= 64:
        r.refuse(f"{n} items")
    return to, n, r


def receipt(body):
    to, n, r = items(body, "receipt", 2)
    name(to, "addressee")
    out = []
    for _ in range(n):
        r.array(6)
        object_, outcome, reason, total, have, detail = r.bytes(32), r.unsigned(255), r.text(), r.unsigned(MAX_CHUNKS), r.bytes(), r.text()
        if outcome not in OUTCOMES or (reason != "") != (outcome == 2) or not re.fullmatch(r"[a-z_]{0,64}", reason):
            r.refuse(f"outcome {outcome}, reason {reason!r}")
        if detail and outcome != 2 or not plain(detail, 320):
            r.refuse("detail")
        if outcome == 3:
            if total < 2 or len(have) != -(-total // 8) or int.from_bytes(have, "little") >> total:
                r.refuse("a bitmap that does not fit")
        elif total or have:
            r.refuse("chunks of what is not partial")
        out.append({"object": object_.hex(), "outcome": OUTCOMES[outcome], "reason": reason, "total": total, "have": have.hex(),
                    "detail": detail})
    r.end()
    return {"to": to, "items": out}


def ask(body):
    to, n, r = items(body, "ask", 1)
    if to:
        name(to, "addressee")
    out = []
    for _ in range(n):
        r.array(4)
        object_, topic, total, size = r.bytes(32), r.text(), r.unsigned(MAX_CHUNKS), r.unsigned()
        if not topic or "+" in topic or "#" in topic or total < 1 or size < 1:
            r.refuse(f"{size} bytes in {total} chunks on {topic!r}")
        out.append({"object": object_.hex(), "topic": topic, "total": total, "size": size})
    r.end()
    return {"to": to, "items": out}


def string(x):
    raw = x if isinstance(x, bytes) else x.encode()
    return struct.pack(">Q", len(raw)) + raw


def layout_hash(stream):
    """stream as in layouts.json."""
    places = stream.get("places", 0)
    packing = stream.get("packing") or "real"
    counts, whole = packing == "histogram", packing in ("steps", "digits")
    version = 4 if whole else 3 if counts else 2 if places else 1
    b = string(f"hencedge layout v{version}") + string(stream["name"]) + string(stream["params"])
    b += struct.pack(">q", stream["log_scale"]) + string(packing)
    b += struct.pack(">2q", stream["samples"], stream["every_ns"]) + (struct.pack(">q", places) if (places or counts) and not whole else b"")
    b += struct.pack(">q", len(stream["channels"]))
    for c in stream["channels"]:
        b += string(c["name"]) + string(c["unit"]) + struct.pack(">2d", *(float(x) + 0.0 for x in c["range"]))
        b += struct.pack(">d", float(c["resolution"])) if counts or whole else b""
    return hashlib.sha256(b).digest()


def stride(samples):
    return 1 << (samples - 1).bit_length()


def model(m):
    """What a program's hash covers of the description of its model."""
    words = lambda x: struct.pack(">q", len(x)) + b"".join(string(s) for s in x)
    b = string(m["file"]) + string(m["sha256"]) + string(m.get("source", "")) + string(m["answer"])
    b += words(m["features"]) + words(m.get("classes", [])) + string(m["link"]) + struct.pack(">q", m.get("decided", False))
    return b + struct.pack(">5q", *(m[key] for key in MODEL_COUNTS)) + struct.pack(">2dq", m["divisor"], m["error"], m["bound"])


def program_hash(program, params):
    """program as in programs.json."""
    b = string("hencedge class program v1" if "class" in program else "hencedge program v1") + string(program["expr"])
    if "class" in program:
        b += string(program["class"])
    if "resolution" in program:
        b += string("resolution") + struct.pack(">d", program["resolution"])
    if "model" in program:
        b += string("model") + model(program["model"])
    b += params.hash
    for v in sorted(program["variables"], key=lambda v: v["name"].encode()):
        b += string(v["name"]) + string(v["device"]) + struct.pack(">q", v["channel"]) + bytes.fromhex(v["layout"])
    return hashlib.sha256(b).digest()


def manifest(raw, sealed, params_of, signer=None):
    """keyset.json, after its signature and its parameters were checked."""
    m = json.loads(raw)
    if m["version"] != 1 or set(m) != {"version", "params", "params_hash", "signer", "created", "epochs"}:
        malformed("keyset.json")
    params = params_of[m["params"]]
    if bytes.fromhex(m["params_hash"]) != params.hash:
        raise Refused("wrong_params", m["params"])
    s = Sealed(sealed)
    s.open({"keyholder": public_key(signer or m["signer"])})
    if s.header.kind != STATUS:
        raise Refused("wrong_kind", "keyset.cose")
    if s.body != raw or s.header.params != params.hash:
        raise Refused("body_mismatch", "keyset.cose is over another keyset.json")
    if [e["epoch"] for e in m["epochs"]] != sorted({e["epoch"] for e in m["epochs"]}):
        malformed("epochs are not ascending")
    return m, params

#!/usr/bin/env python3
"""Checks docs/vectors, or what the program has just made, with an implementation of its own.

    python3 interop/python/check.py            the vectors
    python3 interop/python/check.py DIR        the files of a run, see fresh.py

Standard library only, Python 3.10 or later.
"""
import hashlib
import json
import struct
import sys
import unittest
from types import SimpleNamespace

import fresh
import make_ciphertexts
from hencedge import Refused, cbor, compact, ed25519, params, ring, sampling, scheme, slots, wire


def vectors(name):
    with open(params.VECTORS / name, encoding="utf-8") as f:
        return json.load(f)


def unhex(text):
    return bytes.fromhex(text)


def sha(raw):
    return hashlib.sha256(raw).hexdigest()


def words(numbers):
    return sha(struct.pack(f"<{len(numbers)}I", *(x & 0xFFFFFFFF for x in numbers)))


class Parameters(unittest.TestCase):
    def test_sets(self):
        for v in vectors("parameters.json")["sets"]:
            s = params.SETS[v["name"]]
            with self.subTest(s.name):
                self.assertEqual(s.hash.hex(), v["hash"])
                self.assertEqual([s.scale(level) for level in range(s.depth + len(s.upper) + 1)], [float(x) for x in v["scale_of_level"]])
                for q, psi in s.psi.items():
                    self.assertEqual(q % (2 * s.n), 1)
                    self.assertEqual(pow(psi, s.n, q), q - 1)
                    self.assertEqual(psi, make_ciphertexts.psi(q, s.log_n))


class Ring(unittest.TestCase):
    def test_transforms(self):
        for v in vectors("ring.json")["transforms"]:
            n, q, psi = 1 << v["log_n"], v["q"], v["psi"]
            poly = sampling.uniform(unhex(v["seed"]), v["label"], 0, q, n)
            for d in v["domains"]:
                with self.subTest(q=q, n2=d["n2"], transform=d["transform"]):
                    rows = [poly[i:i + d["n2"]] for i in range(0, n, d["n2"])]
                    limb = ring.forward(poly, q, psi, d["n2"]) if d["transform"] else ring.store(rows)
                    self.assertEqual(limb[:8], d["first_residues"])
                    self.assertEqual(words(limb), d["sha256"])
                    back = ring.inverse(limb, q, psi, d["n2"]) if d["transform"] else ring.coefficients(limb, d["n2"])
                    self.assertEqual(back, poly)

    def test_transform_by_definition(self):
        """Column col, row b is coefficient col modulo X^n2 - w_b, with w_b from the formula."""
        v = vectors("ring.json")["transforms"][0]
        n, q, psi = 1 << v["log_n"], v["q"], v["psi"]
        poly = sampling.uniform(unhex(v["seed"]), v["label"], 0, q, n)
        for n2 in (1, 2, 4, 8, 16):
            n1 = n // n2
            limb = ring.forward(poly, q, psi, n2)
            for b in (0, 1, 2, n1 // 2 + 1, n1 - 1):
                brv = int(format(b, f"0{n1.bit_length() - 1}b")[::-1], 2)
                w = pow(psi, n2 * (2 * brv + 1), q)
                for col in range(n2):
                    want = sum(poly[k * n2 + col] * pow(w, k, q) for k in range(n1)) % q
                    self.assertEqual(limb[col * n1 + b], want)

    def test_samples(self):
        for v in vectors("ring.json")["samples"]:
            seed, label, n = unhex(v["seed"]), v["label"], v["count"]
            with self.subTest(v["distribution"], label=label):
                if v["distribution"] == "uniform":
                    x = sampling.uniform(seed, label, v["index"], v["q"], n)
                    self.assertEqual(x[:8], v["first_residues"])
                else:
                    x = {"ternary": sampling.ternary, "binomial": sampling.binomial}[v["distribution"]](seed, label, n)
                    self.assertEqual(x[:16], v["first"])
                self.assertEqual(words(x), v["sha256"])

    def test_encodings(self):
        for v in vectors("ring.json")["encodings"]:
            s, values = params.SETS[v["params"]], v["values"]
            with self.subTest(v["form"], params=s.name):
                z = [complex(*values[i:i + 2]) for i in range(0, len(values), 2)] if v["form"] == "packed" else values
                coeffs = slots.encode(z, s.n, v["scale"])
                self.assertEqual(coeffs[:8], v["first_coefficients"])
                self.assertEqual(sum(coeffs), v["sum_of_coefficients"])
                self.assertEqual(words(coeffs), v["sha256"])
                for got, want in zip(slots.decode(coeffs, v["scale"]), z):
                    self.assertAlmostEqual(got, want, delta=1e-5)


class Ciphertexts(unittest.TestCase):
    def test_made_again(self):
        with open(params.VECTORS / "ciphertexts.json", encoding="utf-8") as f:
            self.assertEqual(f.read(), make_ciphertexts.document(), "run make_ciphertexts.py")

    def test_packing(self):
        for v in vectors("ciphertexts.json")["packing"]:
            self.assertEqual(scheme.pack(v["residues"], v["q"]).hex(), v["bytes"])
            self.assertEqual(scheme.unpack(unhex(v["bytes"]), v["q"]), v["residues"])


class Keys(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.file = vectors("keys.json")
        cls.keys = [scheme.SecretKey(unhex(v["secret_key"]), params.SETS[v["params"]]) for v in cls.file["keys"]]

    def test_keys(self):
        for v, read in zip(self.file["keys"], self.keys):
            with self.subTest(v["params"]):
                key = scheme.SecretKey.from_seed(unhex(v["seed"]), params.SETS[v["params"]], v["epoch"])
                self.assertEqual((read.s, read.root, read.epoch), (key.s, key.root, key.epoch))
                self.assertEqual((key.root.hex(), key.s[:16], key.encode().hex()), (v["root"], v["first_coefficients"], v["secret_key"]))
                public, id_ = key.public_key()
                self.assertEqual(id_.hex(), v["key_id"])
                self.assertEqual(public[:128].hex(), v["public_key_begins"])
                self.assertEqual((len(public), sha(public)), (v["public_key_bytes"], v["public_key_sha256"]))
                parsed = scheme.PublicKey(public, key.params)
                self.assertEqual((parsed.id, parsed.epoch, parsed.seed.hex()), (id_, v["epoch"], v["public_seed"]))
                self.assertLessEqual(parsed.noise(key.s), 21)
                evaluation = key.evaluation_keys(v["rotations"], v["conjugation"])
                self.assertEqual(evaluation[:128].hex(), v["evaluation_keys_begin"])
                self.assertEqual((len(evaluation), sha(evaluation)), (v["evaluation_keys_bytes"], v["evaluation_keys_sha256"]))
                self.assertLessEqual(scheme.EvaluationKeys(evaluation, key.params).noise(key.s), 21)

    def test_end_to_end(self):
        for v in self.file["ciphertexts"]:
            key, raw = self.keys[v["key"]], unhex(v["ciphertext"])
            with self.subTest(n2=v["n2"], seeded=v["seeded"], form=v["form"]):
                self.assertEqual(sha(raw), v["sha256"])
                ct = scheme.Ciphertext(raw, key.params)
                self.assertEqual((ct.level, ct.scale, ct.n2, ct.seed is not None), (v["level"], v["scale"], v["n2"], v["seeded"]))
                z = slots.decode(ct.decrypt(key.s), ct.scale)
                got = slots.packed(z) if v["form"] == "packed" else [x.real for x in z]
                for x, want in zip(got, v["decrypted"]):
                    self.assertAlmostEqual(x, want, delta=2e-9)
                wanted = v["values"] + [0] * (len(got) - len(v["values"]))
                largest = max(abs(x - w) for x, w in zip(got, wanted))
                self.assertAlmostEqual(largest, v["largest_error"], delta=2e-9)

    def test_refused(self):
        for v in self.file["refused"]:
            key = self.file["ciphertexts"][v["of"]]["key"] if v["what"] == "ciphertext" else v["of"]
            raw = unhex(self.file["ciphertexts"][v["of"]]["ciphertext"] if v["what"] == "ciphertext" else self.file["keys"][key]["secret_key"])
            for e in v["edits"]:
                raw = raw[:e["at"]] + unhex(e["insert"]) + raw[e["at"] + e["delete"]:]
            with self.subTest(v["name"], what=v["what"]):
                with self.assertRaises(Refused) as caught:
                    {"ciphertext": scheme.Ciphertext, "secret_key": scheme.SecretKey}[v["what"]](raw, self.keys[key].params)
                self.assertEqual(caught.exception.reason, v["error"])


class Compact(unittest.TestCase):
    def test_windows(self):
        for v in vectors("compact.json")["windows"]:
            with self.subTest(sequence=v["sequence"]):
                set_ = self.set(v["params"], v["log_n"], 24, [v["q"]], [], 0)
                self.assertEqual(set_.hash.hex(), v["params_hash"])
                s = scheme.SecretKey.from_seed(unhex(v["key_seed"]), set_, 0).s
                self.assertEqual(s[:16], v["first_coefficients"])
                w = compact.Window(unhex(v["window"]), 1)
                self.assertEqual((w.precision, w.q, w.n), (v["precision"], v["q"], 1 << v["log_n"]))
                c1 = w.uniform(set_.hash, v["device"], v["stream"], unhex(v["key_id"]), v["key_epoch"], v["boot_epoch"], v["sequence"])
                self.assertEqual(c1[:8], v["c1_first_coefficients"])
                opened = w.open(c1, s)
                self.assertEqual(len(opened), len(v["readings"]))
                for got, same, reading in zip(opened, v["decrypted"], v["readings"]):
                    self.assertAlmostEqual(got, same, delta=1e-12)
                    self.assertLessEqual(abs(got - reading), v["bound"])
                self.assertLess(v["bound"], 2.0 ** -v["precision"])

    @staticmethod
    def set(name, log_n, log_scale, q, p, alpha):
        return params.Set({"name": name, "log_n": log_n, "log_scale": log_scale, "primes_per_level": 1, "depth": 0, "alpha": alpha,
                           "insecure": False, "q": q, "p": p, "psi_q": [make_ciphertexts.psi(x, log_n) for x in q],
                           "psi_p": [make_ciphertexts.psi(x, log_n) for x in p]})

    def test_devices(self):
        log_n, q = compact.SETS[1]
        boards = self.set("compact12", log_n, 24, [q], [], 0)
        for v in vectors("compact.json")["devices"]:
            big, small = params.SETS[v["params"]], v["switching"]
            small = self.set("small", small["log_n"], small["log_scale"], small["q"], small["p"], 1)
            self.assertEqual((small.hash.hex(), small.q, small.p), (v["switching"]["params_hash"], big.primes(0), big.p[:1]))
            key = scheme.SecretKey.from_seed(unhex(v["key_seed"]), big, v["epoch"])
            board = key.secret_of("hencedge compact board " + v["device"], boards)
            common = key.secret_of("hencedge compact common secret", small)
            self.assertEqual((board.root.hex(), board.public_key()[1].hex(), sha(board.encode())),
                             (v["board_root"], v["board"], v["board_key_sha256"]))
            for file, made, set_ in ((v["device_key"], common.switching_key(board, unhex(v["key_id"])), small),
                                     (v["join_key"], key.switching_key(common, unhex(v["key_id"])), big)):
                self.assertEqual((len(made), made[:128].hex(), sha(made)), (file["bytes"], file["begins"], file["sha256"]))
                read = scheme.SwitchingKey(made, set_)
                self.assertEqual((read.id.hex(), read.epoch), (v["key_id"], v["epoch"]))
                for changed, reason in ((made[:-1], "ErrTruncated"), (made + b"\0", "ErrMalformed"), (made[:2] + b"\x04" + made[3:], "ErrKind")):
                    with self.assertRaises(Refused) as caught:
                        scheme.SwitchingKey(changed, set_)
                    self.assertEqual(caught.exception.reason, reason)

    def test_refused(self):
        file = vectors("compact.json")
        for v in file["refused"]:
            raw = unhex(file["windows"][v["of"]]["window"])
            for e in v["edits"]:
                raw = raw[:e["at"]] + unhex(e["insert"]) + raw[e["at"] + e["delete"]:]
            with self.subTest(v["name"]):
                with self.assertRaises(Refused) as caught:
                    compact.Window(raw, 1)
                self.assertEqual(caught.exception.reason, v["error"])


class Short(unittest.TestCase):
    @staticmethod
    def known(h):
        out = {2: cbor.text(h["device"]), 3: cbor.text(h["stream"]), 5: cbor.blob(unhex(h["key_id"])), 9: cbor.blob(unhex(h["params"])),
               10: cbor.blob(unhex(h["layout"])), 11: cbor.head(0, h["level"]), 12: cbor.number(float(h["scale"]))}
        return out | ({22: cbor.head(0, h["place"])} if "place" in h else {})

    def test_short(self):
        file = vectors("short.json")
        for v in file["short"]:
            h = v["header"]
            with self.subTest(v["name"]):
                s = wire.Short(unhex(v["sealed"]), self.known(h)).open(unhex(file["public"]))
                self.assertEqual((s.body.hex(), s.signed().hex()), (v["body"], v["sig_structure"]))
                self.assertEqual((s.header.sequence, s.header.key_epoch, s.header.boot_epoch, s.header.start, s.header.end, s.header.samples),
                                 (h["sequence"], h["key_epoch"], h["boot_epoch"], h["start_ns"], h["end_ns"], h["samples"]))

    def test_refused(self):
        file = vectors("short.json")
        for v in file["refused"]:
            with self.subTest(v["name"]):
                with self.assertRaises(Refused) as caught:
                    wire.Short(unhex(v["bytes"]), self.known(file["short"][0]["header"])).open(unhex(file["public"]))
                self.assertEqual(caught.exception.reason, v["reason"])


class Messages(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.file = vectors("messages.json")
        cls.public = unhex(cls.file["key"]["public"])
        cls.trusted = {"board-7": cls.public, "cloud-1": cls.public}

    def test_key(self):
        k = self.file["key"]
        self.assertEqual(ed25519.public_key(unhex(k["seed"])).hex(), k["public"])
        self.assertEqual(wire.public_key(k["public_text"]), self.public)
        self.assertEqual(wire.key_id(self.public).hex(), k["cose_key_id"])

    def test_sealed(self):
        bodies = {"status": wire.status, "status-placed": wire.status, "status-certificate": wire.status, "receipt": wire.receipt, "ask": wire.ask}
        for v in self.file["sealed"]:
            with self.subTest(v["name"]):
                s = wire.Sealed(unhex(v["sealed"])).open(self.trusted)
                self.assertEqual((s.id.hex(), s.header_cbor.hex(), s.body.hex()), (v["object_id"], v["header_cbor"], v["body"]))
                self.assertEqual((s.signed().hex(), s.algorithm), (v["sig_structure"], v["algorithm"]))
                self.assertEqual(ed25519.sign(unhex(self.file["key"]["seed"]), s.signed()), s.signature)
                self.compare(s.header, v["header"])
                if s.header.packed:
                    results, ciphertext = wire.pack(s.header, s.body)
                    self.assertEqual((len(results), ciphertext), (len(v["content"]), s.body[-len(ciphertext):]))
                    for got, want in zip(results, v["content"]):
                        self.compare(got, want)
                elif "content" in v:
                    self.assertEqual(bodies[v["name"]](s.body), v["content"])

    def compare(self, h, want):
        got = {"kind": h.kind, "device": h.device, "key_id": h.key_set.hex(), "key_epoch": h.key_epoch, "boot_epoch": h.boot_epoch,
               "sequence": h.sequence, "params": h.params.hex(), "layout": h.layout.hex(), "level": h.level, "scale": h.scale,
               "start_ns": h.start, "end_ns": h.end, "samples": h.samples}
        if h.stream:
            got["stream"] = h.stream
        if h.program:
            got["program"] = h.program
        if h.inputs:
            got["inputs"] = [i.hex() for i in h.inputs]
        if h.present:
            got["present"] = h.present
        if h.subject:
            got["subject"] = h.subject
        if h.fleet:
            n = h.fleet
            got["fleet"] = {"devices": n.devices, "windows": n.windows, "samples": n.samples, "digest": n.digest.hex()}
        if h.packed:
            got["packed"] = h.packed
        if h.place:
            got["place"] = h.place
        if h.post:
            p = h.post
            got["post"] = {"A": p.a, "B": p.b, "Sqrt": p.root, "Slot": p.slot, "Count": p.count, "Bound": p.bound}
        self.assertEqual(got, want)

    def test_chunks(self):
        for v in self.file["chunks"]:
            whole, chunks = unhex(v["object"]), [unhex(c) for c in v["chunks"]]
            self.assertEqual(wire.split(whole, v["chunk_size"]), chunks)
            r = wire.Reassembly()
            for c in reversed(chunks[1:] + chunks[1:]):
                self.assertIsNone(r.add("t", c))
            self.assertEqual(r.add("t", chunks[0]), whole)
            self.assertIsNone(r.add("t", chunks[0]))

    def test_refused(self):
        readers = {"sealed": lambda raw: wire.Sealed(raw).open(self.trusted), "chunk": wire.Chunk,
                   "status": wire.status, "status-placed": wire.status, "status-certificate": wire.status, "receipt": wire.receipt, "ask": wire.ask, "pack": lambda raw: wire.pack(pack.header, raw)}
        pack = wire.Sealed(unhex(self.file["sealed"][-1]["sealed"])).open(self.trusted)
        for v in self.file["refused"]:
            with self.subTest(v["name"], what=v["what"]):
                with self.assertRaises(Refused) as caught:
                    readers[v["what"]](unhex(v["bytes"]))
                self.assertEqual(caught.exception.reason, v["reason"])


class Hashes(unittest.TestCase):
    def test_layouts(self):
        for v in vectors("layouts.json")["layouts"]:
            self.assertEqual(wire.layout_hash(v).hex(), v["hash"])

    def test_programs(self):
        for v in vectors("programs.json")["programs"]:
            p = SimpleNamespace(hash=unhex(v["params_hash"])) if "params_hash" in v else params.SETS[v["params"]]
            self.assertEqual(wire.program_hash(v, p).hex(), v["hash"])
            published = wire.program(unhex(v["published"]))
            self.assertEqual(published, {k: v[k] for k in published})

    def test_manifest(self):
        v = vectors("keyset.json")
        m, p = wire.manifest(v["keyset_json"].encode(), unhex(v["keyset_cose"]), params.SETS)
        self.assertEqual((p.name, [e["epoch"] for e in m["epochs"]]), ("edge12-d1", [1, 2]))
        with self.assertRaises(Refused):
            wire.manifest(v["keyset_json"].replace('"epoch": 2', '"epoch": 3').encode(), unhex(v["keyset_cose"]), params.SETS)


class Cbor(unittest.TestCase):
    def test_floats(self):
        for x, raw in ((0.0, "f90000"), (-0.0, "f98000"), (1.5, "f93e00"), (2.0 ** -24, "f90001"), (65504.0, "f97bff"), (65505.0, "fa477fe100"),
                       (2.0 ** 26, "fa4c800000"), (0.1, "fb3fb999999999999a")):
            self.assertEqual(cbor.number(x).hex(), raw)
            self.assertEqual(cbor.Reader(unhex(raw)).float(), x)


if __name__ == "__main__":
    if len(sys.argv) > 1:
        fresh.check(sys.argv[1])
    else:
        unittest.main()

"""Reads what the program has just made: key sets, messages from the broker, printed results.

The directory holds description.json (who is who, streams, programs), messages.ndjson
(topic and payload of every message, in order), the recorded rows that the devices
replayed, the results as `hencedge results watch --json` printed them, and the key set's
directories. Everything is verified and decrypted here; values must be those of the rows,
and results those that the program printed.
"""
import csv
import hashlib
import json
import pathlib
import statistics

from hencedge import Refused, params, scheme, slots, wire

# What a program computes of its variables' samples.
PROGRAMS = {
    "mean(x)": lambda x: [statistics.fmean(x)],
    "std(y)": lambda y: [statistics.pstdev(y)],
    "x - y": lambda x, y: [a - b for a, b in zip(x, y)],
    "mean(x*y)": lambda x, y: [statistics.fmean(a * b for a, b in zip(x, y))],
}


def require(condition, what):
    if not condition:
        raise SystemExit(f"fresh: {what}")


class Run:
    def __init__(self, directory):
        self.dir = pathlib.Path(directory)
        self.about = json.loads((self.dir / "description.json").read_text())
        self.trusted = {name: wire.public_key(text) for name, text in self.about["trusted"].items()}
        self.streams = {(s["device"], s["name"]): s for s in self.about["streams"]}
        self.programs = {p["name"]: p for p in self.about["programs"]}
        self.read_keys()
        self.read_messages()

    # Keys

    def read_keys(self):
        root = self.dir / self.about["keyset"]
        manifest = json.loads((root / "keyset.json").read_text())
        self.params = params.SETS[manifest["params"]]
        self.trusted["keyholder"] = wire.public_key(manifest["signer"])
        self.secrets = {}
        for epoch in manifest["epochs"]:
            secret = scheme.SecretKey((root / f"epoch-{epoch['epoch']:04d}" / "secret.key").read_bytes(), self.params)
            require(secret.epoch == epoch["epoch"], "the secret key is of another epoch")
            self.secrets[bytes.fromhex(epoch["key_id"]), epoch["epoch"]] = secret

    def check_keys(self):
        root = self.dir / self.about["keyset"]
        for (id_, epoch), secret in self.secrets.items():
            remade = secret.public_key()
            require(remade == ((root / f"epoch-{epoch:04d}" / "public.key").read_bytes(), id_), "the root does not give the public key and its id")
        for name in self.about["exports"]:
            self.check_export(self.dir / name, json.loads((root / "keyset.json").read_text())["signer"])

    def check_export(self, root, signer):
        m, p = wire.manifest((root / "keyset.json").read_bytes(), (root / "keyset.cose").read_bytes(), params.SETS, signer)
        require(p is self.params, f"{root}: parameters")
        for epoch in m["epochs"]:
            secret = self.secrets[bytes.fromhex(epoch["key_id"]), epoch["epoch"]]
            for name, digest in epoch["files"].items():
                path = root / (f"epoch-{epoch['epoch']:04d}/{name}" if name == "evaluation.key" else name)
                raw = path.read_bytes()
                require(hashlib.sha256(raw).hexdigest() == digest, f"{path} is not what was signed")
                key = {"public.key": scheme.PublicKey, "evaluation.key": scheme.EvaluationKeys}[name](raw, p)
                require(key.id.hex() == epoch["key_id"] and key.epoch == epoch["epoch"], f"{path}: key id or epoch")
                require(key.noise(secret.s) <= 21, f"{path} does not belong to the secret key")
                if name == "evaluation.key":
                    want = {pow(5, k, 2 * p.n) for k in epoch["rotations"]} | ({2 * p.n - 1} if epoch["conjugation"] else set())
                    require(set(key.galois) == want and (key.relin is not None) == epoch["relinearise"], f"{path}: other keys than the manifest says")
            if (root / "secret.key").exists():
                require(scheme.SecretKey((root / "secret.key").read_bytes(), p).s == secret.s, "exported secret key")

    # Messages

    def read_messages(self):
        self.readings, self.results, self.births, self.receipts, self.published = {}, {}, {}, {}, set()
        chunks, objects = wire.Reassembly(), []
        for line in (self.dir / self.about["messages"]).read_text().splitlines():
            m = json.loads(line)
            whole = chunks.add(m["topic"], bytes.fromhex(m["payload"]))
            if whole is not None:
                objects.append((m["topic"], wire.Sealed(whole).open(self.trusted, m["topic"])))
        for topic, s in objects:
            h = s.header
            if h.kind == wire.READING:
                self.readings[s.id] = s
            elif h.kind == wire.RESULT:
                self.results[s.id] = s
            elif h.kind == wire.STATUS:
                self.births.setdefault(h.device, wire.status(s.body))
            elif h.kind == wire.RECEIPT:
                r = wire.receipt(s.body)
                require(topic == f"hencedge/v1/rcp/{r['to']}", f"a receipt for {r['to']} on {topic}")
                require(h.start == h.end > 0 and h.scale == 0 and not any(h.layout + h.params + h.key_set), "a receipt's unused fields")
                for it in r["items"]:
                    self.receipts[h.device, r["to"], it["object"]] = it["outcome"]
            elif h.kind == wire.PROGRAM:
                published = wire.program(s.body)
                require(published["name"] == h.program and h.layout == wire.program_hash(published, self.params), f"{h.program}: published under another hash")
                self.published.add((h.program, h.layout))
            else:
                wire.ask(s.body)

    def decrypt(self, s):
        h = s.header
        require(h.params == self.params.hash, "parameter hash")
        secret = self.secrets[h.key_set, h.key_epoch]
        ct = scheme.Ciphertext(s.body, self.params)
        require((ct.level, ct.scale) == (h.level, h.scale), "the body's level or scale is not the header's")
        return ct, slots.decode(ct.decrypt(secret.s), ct.scale)

    def taken(self, signer, s):
        require(self.receipts.get((signer, s.header.device, s.id.hex())) == "taken",
                f"{signer} did not take sequence {s.header.sequence} of {s.header.device}")

    # Checks

    def windows(self, stream):
        """start, end and samples of each window that the rows make, by docs/wire-format.md."""
        rows = [(int(r["t"]) * 10 ** 6, [float(r[c]) for c in stream["columns"]])
                for r in csv.DictReader((self.dir / self.about["rows"]).open())]
        if not stream["every_ns"]:
            groups = [rows[i:i + stream["samples"]] for i in range(0, len(rows), stream["samples"])]
            return [(g[0][0], g[-1][0], [v for _, v in g]) for g in groups]
        groups = {}
        for at, values in rows:
            groups.setdefault(at // stream["every_ns"], []).append(values)
        return [(k * stream["every_ns"], (k + 1) * stream["every_ns"], g) for k, g in sorted(groups.items())]

    def check_readings(self):
        for (device, name), stream in self.streams.items():
            found = sorted((s for s in self.readings.values() if (s.header.device, s.header.stream) == (device, name)),
                           key=lambda s: (s.header.boot_epoch, s.header.sequence))
            windows = self.windows(stream)
            require(len(found) == len(windows), f"{device}/{name}: {len(found)} windows, want {len(windows)}")
            for s, (start, end, samples) in zip(found, windows):
                h = s.header
                require(h.layout == wire.layout_hash(stream), f"{device}/{name}: layout hash")
                require((h.start, h.end, h.samples) == (start, end, len(samples)),
                        f"{device}/{name}: {(h.start, h.end, h.samples)}, want {(start, end, len(samples))}")
                ct, z = self.decrypt(s)
                require(ct.transform == 1, f"{device}/{name}: transform {ct.transform}")
                require((ct.seed is not None) == stream["seeded"] and ct.level == stream["level"], f"{device}/{name}: seed or level")
                require(ct.scale == (2.0 ** stream["log_scale"] if stream["log_scale"] else self.params.scale(ct.level)), f"{device}/{name}: scale {ct.scale}")
                stride, noise = wire.stride(stream["samples"]), 2.0 ** 18 / ct.scale
                for k, channel in enumerate(stream["channels"]):
                    low, high = channel["range"]
                    for i in range(stride):
                        want = (samples[i][k] - (low / 2 + high / 2)) / (high / 2 - low / 2) if i < len(samples) else 0
                        require(abs(z[k * stride + i] - want) < noise, f"{device}/{name}: slot {k * stride + i} is {z[k * stride + i]}, want {want}")
                self.taken("cloud", s)

    def check_results(self):
        printed = [json.loads(line) for line in (self.dir / self.about["results"]).read_text().splitlines()]
        require({p["id"] for p in printed} == {s.id.hex() for s in self.results.values()}, "other results than were printed")
        for p in printed:
            s = self.results[bytes.fromhex(p["id"])]
            h, program = s.header, self.programs[p["program"]]
            self.check_inputs(h, program)
            _, z = self.decrypt(s)
            got = h.post.values(z)
            # The key holder prints a tighter bound where a root is well above zero.
            right = p["bound"] <= h.post.bound if h.post.root else p["bound"] == h.post.bound
            require(len(got) == len(p["values"]) and right, f"{h.program}: values or bound")
            for a, b in zip(got, p["values"]):
                require(abs(a - b) <= 1e-7 * max(1, abs(b)), f"{h.program}: {a} here, {b} was printed")
            for a, b in zip(got, self.expected(h, program)):
                require(abs(a - b) <= p["bound"], f"{h.program}: {a}, want {b} within {p['bound']}")
            self.taken("keyholder", s)
        return len(printed)

    def check_inputs(self, h, program):
        layouts = {k: wire.layout_hash(s).hex() for k, s in self.streams.items()}
        variables = [dict(v, layout=layouts[v["device"], v["stream"]]) for v in program["variables"]]
        require(h.layout == wire.program_hash(dict(program, variables=variables), self.params), f"{h.program}: program hash")
        require((h.program, h.layout) in self.published, f"{h.program} was not published")
        inputs = [self.readings[i].header for i in h.inputs]
        want = (min(i.start for i in inputs), max(i.end for i in inputs), min(i.samples for i in inputs))
        require((h.start, h.end, h.samples) == want, f"{h.program}: start, end or samples")
        full = [self.streams[i.device, i.stream]["samples"] for i in inputs]
        present = [i.samples for i in inputs]
        require(h.present == (None if present == full else present), f"{h.program}: samples of its inputs")

    def expected(self, h, program):
        values = {}
        for v in program["variables"]:
            stream = self.streams[v["device"], v["stream"]]
            start = next(self.readings[i].header.start for i in h.inputs
                         if (self.readings[i].header.device, self.readings[i].header.stream) == (v["device"], v["stream"]))
            samples = next(rows for at, _, rows in self.windows(stream) if at == start)
            values[v["name"]] = [row[v["channel"]] for row in samples]
        return PROGRAMS[program["expr"]](**values)

    def check_births(self):
        for device in {d for d, _ in self.streams}:
            require(device in self.births, f"no birth message of {device}")
            described = {s["name"]: s for s in self.births[device]["streams"]}
            require(set(described) == {n for d, n in self.streams if d == device}, f"{device}: streams")
            for name, s in described.items():
                s["channels"] = [{"name": c[0], "unit": c[1], "range": c[2:]} for c in s["channels"]]
                require(wire.layout_hash(s) == wire.layout_hash(self.streams[device, name]), f"{device}: the layout in its birth message")


def check(directory):
    try:
        run = Run(directory)
        run.check_readings()
        run.check_births()
        results = run.check_results()
        run.check_keys()
    except Refused as e:
        raise SystemExit(f"fresh: refused: {e}") from e
    print(f"{len(run.readings)} windows, {results} results, {len(run.receipts)} receipts: good")

#!/usr/bin/env python3
"""What a model's division over GPUs and hosts costs and gains, computed from measured operators and links.

usage: scaling.py [--check | --write] [--root REPOSITORY]

Without an option the tables are printed; --write puts them into docs/scaling.md between its marks; --check, which is a
test, fails where that page differs, or where the model misses a measured figure by more than the page says.

The times of one GPU and of sums over two and four come from docs/results; what nobody has measured here is in ASSUMED and
marked so in the page.
"""

import argparse
import dataclasses
import json
import math
import os
import re
import sys

OPERATORS = "2026-11-22-cuda-operators-h200.json"
SUMS = "2026-11-23-all-reduce-h200.json"
RANKS = "2026-11-23-ranks-h200.json"
REPLICAS = "2026-11-23-replicas-h200.json"
FOUR = "2026-11-26-four-gpus-h200.json"

ELEMENT = 2  # bytes of bfloat16
MAX_ERROR = 0.15  # of what is predicted without a fit

# Times in us, rates in bytes a us (MB/s / 1e6).
ASSUMED = {
    # Between hosts: one 400 Gb/s adapter a GPU, at 90%; a message's way through two adapters and a switch.
    "host_link_us": 12.0,
    "host_link_rate": 45_000.0,
    # What the host needs between two steps of a lane of stages: to read tokens, plan and launch.
    "lane_us": 60.0,
}


@dataclasses.dataclass(frozen=True)
class Shape:
    """A decoder; `gated` has three matrices in its feed-forward."""
    name: str
    hidden: int
    layers: int
    heads: int
    kv_heads: int
    inner: int
    vocabulary: int
    gated: bool = False

    @property
    def head_size(self):
        return self.hidden // self.heads

    def matrices(self):
        """[(inputs, outputs)] of one layer, as they are computed."""
        width = (self.heads + 2 * self.kv_heads) * self.head_size
        return [(self.hidden, width), (self.hidden, self.hidden),
                (self.hidden, self.inner * (2 if self.gated else 1)), (self.inner, self.hidden)]

    def weight_bytes(self):
        layers = self.layers * sum(a * b for a, b in self.matrices())
        return ELEMENT * (layers + 2 * self.vocabulary * self.hidden)

    def cache_bytes(self, tokens):
        return 2 * ELEMENT * self.layers * self.kv_heads * self.head_size * tokens


GPT2_7B = Shape("GPT-2 shape, 6.65 B", 4096, 32, 32, 32, 16384, 50257)
LLAMA_8B = Shape("8 B, grouped heads", 4096, 32, 32, 8, 14336, 128256, gated=True)
LLAMA_70B = Shape("70 B, grouped heads", 8192, 80, 64, 8, 28672, 128256, gated=True)


def received_of(kind, size, ranks):
    """What a rank receives, where one of two receives `size`: N of them (N - 1) sizes in one shot, 2 (N - 1) / N in two."""
    return size * (ranks - 1) if kind == "one-shot" else size * 2 * (ranks - 1) / ranks


def line_through(points):
    """(intercept, slope) of the least squares line."""
    n = len(points)
    x = sum(p[0] for p in points) / n
    y = sum(p[1] for p in points) / n
    slope = sum((p[0] - x) * (p[1] - y) for p in points) / sum((p[0] - x) ** 2 for p in points)
    return y - slope * x, slope


class Measured:
    """What docs/results says of one GPU, of two and of four."""

    def __init__(self, root):
        self.results = os.path.join(root, "docs/results")
        lines = {line["name"]: min(line["us_today"]) for line in self.read(OPERATORS)["lines"] if "us_today" in line}
        # A product of few rows is the read of its weights behind a start.
        few = []
        for name, us in lines.items():
            found = re.fullmatch(r"matmul (?:bias|norm) (?:b?float16): 1 x (\d+) x (\d+)", name)
            if found:
                few.append((ELEMENT * int(found[1]) * int(found[2]), us))
        self.start_us, self.us_a_byte = line_through(few)
        # A product of many rows is its multiplications.
        large = "matmul bias gelu bfloat16: 4096 x 768 x 3072"
        self.us_a_flop = lines[large] / (2.0 * 4096 * 768 * 3072)
        # Attention of a decode step is the read of its cache.
        cache = []
        for name, us in lines.items():
            found = re.fullmatch(r"attention decode bfloat16: B(\d+) H32/8 context (\d+) D128", name)
            if found:
                cache.append((int(found[1]) * int(found[2]) * 8 * 128 * 2 * ELEMENT, us))
        self.attention_us, self.us_a_cache_byte = line_through(cache)
        self.norm_us = lines["layer norm + residual bfloat16: 32 x 768"]
        self.choice_us = lines["top candidates: 1 x 50257, 8, normalised"]
        self.sums = {}
        for row in self.read(SUMS)["runs"][0]:
            kind = row["name"].split()[0]
            if row["name"].endswith("bfloat16"):
                self.sums.setdefault(kind, []).append((row["bytes"], row["us"]))
        self.four = {row["name"].split()[0]: row["us"] for row in self.read(FOUR)["all_reduce"]["4"]["lines"]
                     if row["name"].endswith("bfloat16") and row["bytes"] == 8192}

    def read(self, name):
        with open(os.path.join(self.results, name), encoding="utf-8") as file:
            return json.load(file)

    def us_a_rank(self, kind, size=8192):
        """us that a sum of `size` bytes waits longer for every GPU past two, by that of four."""
        return (self.four[kind] - self.sum_of_two(kind, received_of(kind, size, 4))) / 2

    def sum_of_two(self, kind, size):
        """us of an all-reduce of two GPUs, between the two measured sizes next to it."""
        points = sorted(self.sums[kind])
        if size <= points[0][0]:
            return points[0][1]
        for (small, before), (large, after) in zip(points, points[1:]):
            if size <= large:
                return before + (after - before) * (size - small) / (large - small)
        return points[-1][1] * size / points[-1][0]


class Model:
    """The time of one decode step of `rows` sequences with `context` tokens in the cache of each."""

    def __init__(self, measured, sums="NCCL"):
        self.m = measured
        self.sums = sums

    def product(self, rows, inputs, outputs):
        read = inputs * outputs * ELEMENT * self.m.us_a_byte
        return self.m.start_us + max(read, 2.0 * rows * inputs * outputs * self.m.us_a_flop)

    def all_reduce(self, size, ranks):
        """Of GPUs of one host. Past two ranks each one sends as much again, and waits for each."""
        if ranks == 1:
            return 0.0
        kinds = ("one-shot", "two-shot", "NCCL") if self.sums == "peers" else ("NCCL",)
        best = math.inf
        for kind in kinds:
            if kind == "one-shot" and size > (1 << 20 if ranks == 2 else 768 * 1024 / (ranks - 1)):
                continue
            received = received_of(kind, size, ranks)
            best = min(best, self.m.sum_of_two(kind, received) + self.m.us_a_rank(kind) * (ranks - 2))
        return best

    def layer(self, shape, rows, context, ranks):
        m = self.m
        (_, qkv), _, (_, up), (down, _) = shape.matrices()
        time = self.product(rows, shape.hidden, qkv // ranks) + self.product(rows, shape.hidden // ranks, shape.hidden)
        time += self.product(rows, shape.hidden, up // ranks) + self.product(rows, down // ranks, shape.hidden)
        kv_bytes = rows * context * 2 * ELEMENT * max(1, shape.kv_heads // ranks) * shape.head_size
        time += m.attention_us + kv_bytes * m.us_a_cache_byte + 2 * m.norm_us
        return time + 2 * self.all_reduce(rows * shape.hidden * ELEMENT, ranks)

    def head(self, shape, rows, ranks):
        chosen = self.m.choice_us + (self.all_reduce(128 * rows, ranks) if ranks > 1 else 0)
        return self.product(rows, shape.hidden, shape.vocabulary // ranks) + chosen

    def step(self, shape, rows, context, ranks=1):
        gather = self.all_reduce(rows * shape.hidden * ELEMENT, ranks)
        return shape.layers * self.layer(shape, rows, context, ranks) + self.head(shape, rows, ranks) + gather

    def stages(self, shape, rows, context, ranks, stages, between_hosts):
        """(us of a token of one sequence, tokens a us) of `stages` with a lane of `rows` each, by playing 64 steps of
        every lane: a stage computes one lane's step at a time, a lane's next step begins when its last is read."""
        base, extra = divmod(shape.layers, stages)
        times = []
        for stage in range(stages):
            layers = base + (1 if stage < extra else 0)
            times.append(layers * self.layer(shape, rows, context, ranks))
        times[-1] += self.head(shape, rows, ranks)
        size = rows * shape.hidden * ELEMENT / ranks
        if between_hosts:
            send = ASSUMED["host_link_us"] + size / ASSUMED["host_link_rate"]
        else:
            send = self.m.sum_of_two("one-shot", size)
        free = [0.0] * stages  # when a stage may compute again
        ready = [0.0] * stages  # when a lane's next step may begin
        steps = 64
        for _ in range(steps):
            for lane in range(stages):
                now = ready[lane]
                for stage in range(stages):
                    now = max(now, free[stage]) + times[stage]
                    free[stage] = now
                    now += send if stage + 1 < stages else 0.0
                ready[lane] = now + ASSUMED["lane_us"]
        alone = sum(times) + send * (stages - 1) + ASSUMED["lane_us"]
        return alone, rows * stages * steps / max(ready)


def checks(measured):
    """[(what, predicted, measured)]: no constant of the model comes from the right column."""
    nccl, peers = Model(measured), Model(measured, "peers")
    alone = {(row["way"], row["tokens"]): row["ms_per_token"] for row in measured.read(RANKS)["rows"]
             if row["dtype"] == "bfloat16" and row["batch"] == 1}

    def context(tokens):
        return 16 + tokens // 2  # the prompt and, in the middle, half of the tokens

    what = f"{GPT2_7B.name}, one request"
    rows = [(f"{what}, 1 GPU: ms a token", nccl.step(GPT2_7B, 1, context(256), 1) / 1000, alone["1", 256]),
            (f"{what}, 2 GPUs by width, sums by NCCL: ms a token", nccl.step(GPT2_7B, 1, context(256), 2) / 1000,
             alone["2nccl", 256]),
            (f"{what}, 2 GPUs by width, own sums: ms a token", peers.step(GPT2_7B, 1, context(256), 2) / 1000,
             alone["2", 256]),
            (f"{what}, 2 GPUs by layers: ms a token",
             peers.stages(GPT2_7B, 1, context(128), 1, 2, False)[0] / 1000, alone["L2", 128])]
    answered = {run["replicas"]: max(probe["answered_per_s"] for probe in run["probes"] if probe["holds"])
                for run in measured.read(REPLICAS)["runs"]}
    rows.append(("two replicas: times the requests of one", 2.0, answered[2] / answered[1]))
    four = measured.read(FOUR)
    ways = {row["way"]: row["ms_per_token"] for row in four["models"][0]["rows"]}
    what = f"{LLAMA_8B.name}, one request"
    one, own = peers.step(LLAMA_8B, 1, context(128), 1), peers.step(LLAMA_8B, 1, context(128), 4)
    layers = peers.stages(LLAMA_8B, 1, context(128), 1, 4, False)[0]
    rows += [(f"{what}, 1 GPU: ms a token", one / 1000, ways["1"]),
             (f"{what}, 4 GPUs by width, own sums: times as fast as 1", one / own, ways["1"] / ways["4"]),
             (f"{what}, 4 GPUs by layers: ms a token", layers / 1000, ways["L4"])]
    holds = {run["replicas"]: run["holds_per_s"] for run in four["replicas"]}
    rows.append(("four replicas: times the requests of two", 2.0, holds[4] / holds[2]))
    return rows


def gib(size):
    return f"{size / 2**30:,.1f}"


def check_table(measured):
    lines = ["| figure | predicted | measured | error |", "| --- | ---: | ---: | ---: |"]
    for what, predicted, actual in checks(measured):
        lines.append(f"| {what} | {predicted:.2f} | {actual:.2f} | {100 * (predicted / actual - 1):+.0f}% |")
    return lines


def divisions(shape, total):
    """[(words, ranks, stages, replicas, hosts between stages)] of `total` GPUs, 8 a host at the most."""
    in_host = min(total, 8)
    hosts = total // in_host
    rows = []
    if total == 1:
        return [("one GPU", 1, 1, 1, False)]
    if hosts == 1:
        rows.append((f"by width: {total}", total, 1, 1, False))
        rows.append((f"by layers: {total}", 1, total, 1, False))
        rows.append((f"by data: {total} replicas", 1, 1, total, False))
        if total >= 4:
            rows.append((f"{total // 2} by width, 2 replicas", total // 2, 1, 2, False))
    else:
        rows.append((f"by width in a host: 8, by layers over hosts: {hosts}", 8, hosts, 1, True))
        rows.append((f"by width in a host: 8, {hosts} replicas", 8, 1, hosts, False))
        rows.append((f"by data: {total} replicas", 1, 1, total, False))
    return [row for row in rows if row[2] <= shape.layers]


def scaling_table(measured, shape, context=1024, memory_gib=131):
    """`memory_gib`: of one GPU, that weights and cache may take."""
    lines = ["| GPUs | division | GiB of weights a GPU | one request, ms a token: NCCL; own sums | requests at once | "
             "ms a token | tokens/s in all |", "| ---: | --- | ---: | ---: | ---: | ---: | ---: |"]
    nccl, peers = Model(measured), Model(measured, "peers")
    for total in (1, 2, 4, 8, 64):
        for words, ranks, stages, replicas, between in divisions(shape, total):
            weights = shape.weight_bytes() / ranks / stages
            room = memory_gib * 2**30 - weights
            if room < shape.cache_bytes(context) / ranks / stages:
                lines.append(f"| {total} | {words} | {gib(weights)} | does not fit | | | |")
                continue
            # As many requests as 32 a GPU, if the cache has room.
            per_replica = min(32 * total // replicas, int(room / (shape.cache_bytes(context) / ranks / stages)))
            if stages == 1:
                alone = [m.step(shape, 1, context, ranks) for m in (nccl, peers)]
                many = peers.step(shape, per_replica, context, ranks)
                rate = replicas * per_replica / many
            else:
                alone = [m.stages(shape, 1, context, ranks, stages, between)[0] for m in (nccl, peers)]
                rows = per_replica // stages
                per_replica = rows * stages
                _, one = peers.stages(shape, rows, context, ranks, stages, between)
                rate = replicas * one
                many = per_replica / one
            lines.append(f"| {total} | {words} | {gib(weights)} | {alone[0] / 1000:.2f}; {alone[1] / 1000:.2f} | "
                         f"{replicas * per_replica:,} | {many / 1000:.2f} | {rate * 1e6:,.0f} |")
    return lines


def constants_table(measured):
    rows = [
        ("start of a product of few rows", f"{measured.start_us:.2f} us", "a line through products of 1 row"),
        ("weights read", f"{1 / measured.us_a_byte / 1e6:.2f} TB/s", "the same line"),
        ("products of many rows", f"{1 / measured.us_a_flop / 1e6:.0f} TFLOP/s", "4096 x 768 x 3072"),
        ("attention of a step, a layer", f"{measured.attention_us:.2f} us, {1 / measured.us_a_cache_byte / 1e6:.2f} TB/s",
         "a line through decode steps of 32/8 heads"),
        ("norm", f"{measured.norm_us:.2f} us", "32 x 768"),
        ("choice of a token", f"{measured.choice_us:.1f} us", "1 x 50257"),
        ("sum of two GPUs, 8 KiB: NCCL; one-shot",
         f"{measured.sum_of_two('NCCL', 8192):.2f}; {measured.sum_of_two('one-shot', 8192):.2f} us", "all sizes are used"),
        ("a sum's wait for each GPU past two: NCCL; one-shot",
         f"{measured.us_a_rank('NCCL'):.2f}; {measured.us_a_rank('one-shot'):.2f} us", "8 KiB over four GPUs"),
        ("between hosts", f"{ASSUMED['host_link_us']:.0f} us and {ASSUMED['host_link_rate'] / 1000:.0f} GB/s a GPU",
         "**assumed**: 400 Gb/s adapters"),
        ("host between two steps of a lane", f"{ASSUMED['lane_us']:.0f} us", "**assumed**"),
    ]
    return ["| constant | value | from |", "| --- | ---: | --- |"] + [f"| {a} | {b} | {c} |" for a, b, c in rows]


def tables(measured):
    return {
        "constants": constants_table(measured),
        "checks": check_table(measured),
        "gpt2": scaling_table(measured, GPT2_7B),
        "8b": scaling_table(measured, LLAMA_8B),
        "70b": scaling_table(measured, LLAMA_70B),
    }


def fill(text, found):
    for name, lines in found.items():
        begin, end = f"<!-- {name}: bench/scaling/scaling.py --write -->\n", f"<!-- end {name} -->"
        if text.count(begin) != 1 or text.count(end) != 1:
            raise ValueError(f"the page has no marks of the table '{name}'")
        head, rest = text.split(begin)
        text = head + begin + "\n".join(lines) + "\n" + end + rest.split(end)[1]
    return text


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    group = parser.add_mutually_exclusive_group()
    group.add_argument("--check", action="store_true", help="fail where docs/scaling.md or a prediction is off")
    group.add_argument("--write", action="store_true", help="write the tables into docs/scaling.md")
    parser.add_argument("--root", default=os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))))
    arguments = parser.parse_args()
    measured = Measured(arguments.root)
    found = tables(measured)
    page = os.path.join(arguments.root, "docs/scaling.md")
    if not (arguments.check or arguments.write):
        for name, lines in found.items():
            print(f"{name}\n" + "\n".join(lines) + "\n")
        return 0
    with open(page, encoding="utf-8") as file:
        before = file.read()
    after = fill(before, found)
    if arguments.write:
        with open(page, "w", encoding="utf-8") as file:
            file.write(after)
        return 0
    status = 0
    if after != before:
        print("docs/scaling.md differs from what bench/scaling/scaling.py computes: run it with --write")
        status = 1
    for what, predicted, actual in checks(measured):
        if abs(predicted / actual - 1) > MAX_ERROR:
            print(f"{what}: predicted {predicted:.2f}, measured {actual:.2f}")
            status = 1
    return status


if __name__ == "__main__":
    sys.exit(main())

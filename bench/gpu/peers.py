#!/usr/bin/env python3
"""Beamline beside its peers on one GPU: the rows of the speed targets, measured in one run.

usage: peers.py --bin FOLDER --models FOLDER --out FILE.json [--lines BENCH.json ...] [--only REGEX] [--repeat N]
       peers.py --draw FILE.json
       peers.py --join FILE.json ... --out FILE.json

--lines: what cuda_op_bench and cuda_library_bench have measured. Operators are set beside PyTorch (SDPA by cuDNN and
flash, torch.compile) and Triton in CUDA graphs; whole models, through the engine, beside transformers: eager, in a CUDA
graph, and torch.compile. `ratio` is how many times as fast as the best peer, `ceiling_share` the part of the time that
the work takes at this GPU's measured copy and product rates. Every peer is measured `repeat` times; `peer_spread` is
by how much the results differ. A page goes to FILE.md and, where matplotlib is, a plot to FILE.png; --draw makes both
of FILE.json. --join makes one file of runs that had a GPU each of one machine: of each other rows, and the ceilings of the first.
"""

import argparse
import json
import os
import random
import re
import statistics
import subprocess

import peer_operators
import shapes
import timing
import torch


class Table:
    def __init__(self, options, ceiling):
        self.options, self.ceiling, self.rows = options, ceiling, []
        self.document = {"device": torch.cuda.get_device_name(), "torch": torch.__version__, "ceilings": ceiling,
                         "repeat": options.repeat, "rows": self.rows}

    def add(self, work, unit, ours, peers, floor):
        """Seconds; `peers`: {name: [seconds of each repetition]}."""
        scale = {"us": 1e6, "ms": 1e3}[unit]
        medians = {name: statistics.median(values) for name, values in peers.items()}
        best = min(medians, key=medians.get) if medians else None
        row = {"work": work, "unit": unit, "ours": ours * scale, "peer": medians[best] * scale if best else None,
               "peer_name": best, "ratio": medians[best] / ours if best else None, "ceiling_share": floor / ours,
               "peer_spread": max(peers[best]) / min(peers[best]) - 1 if best else None,
               "peers": {name: value * scale for name, value in medians.items()}}
        self.rows.append(row)
        beside = f"{row['peer']:10.2f} {unit}  {row['ratio']:5.2f}x  {best}" if best else "no peer runs here"
        print(f"{work:<62} {row['ours']:10.2f} {unit} {row['ceiling_share']:5.0%} of ceiling  {beside}", flush=True)
        with open(self.options.out, "w", encoding="utf-8") as file:
            json.dump(self.document, file, indent=1)


def operators(options, table):
    lines = {}
    for path in options.lines:
        with open(path, encoding="utf-8") as file:
            for line in json.load(file)["lines"]:
                lines.setdefault(line["name"], []).append(line["us"] * 1e-6)
    for row in peer_operators.rows(options.only):
        if row.line not in lines:
            continue
        peers = {}
        for _ in range(options.repeat):
            for name, seconds in row.peer_seconds().items():
                peers.setdefault(name, []).append(seconds)
        table.add(row.line, "us", statistics.median(lines[row.line]), peers, row.floor_seconds(table.ceiling))
        torch.cuda.empty_cache()


def stack_weights(config):
    """Numbers in the matrices of an encoder's and of a decoder's layers, and of the head."""
    if config.model_type == "marian":
        square, inner = config.d_model**2, 2 * config.d_model * config.encoder_ffn_dim
        return (config.encoder_layers * (4 * square + inner), config.decoder_layers * (6 * square + inner),
                config.d_model * config.vocab_size)
    width, layers = config.hidden_size, config.num_hidden_layers
    inner = getattr(config, "intermediate_size", 4 * width)
    matrices = layers * (4 * width**2 + 2 * width * inner)
    return (0, matrices, width * config.vocab_size) if config.model_type == "gpt2" else (matrices, 0, 0)


class Models(timing.Timing):
    """The rows of timing.py with torch.compile among the peers."""

    def __init__(self, options, table):
        super().__init__(options)
        self.table, self.floors = table, {}

    def seconds_at_least(self, name, dtype, encoded, steps, rows):
        """Products of `encoded` tokens, then `steps` decoding steps of `rows` rows each, at the ceilings."""
        encoder, decoder, head = stack_weights(self.model(name, dtype).config)
        width = getattr(torch, dtype).itemsize
        rate = self.table.ceiling["product_flops"]

        def pass_seconds(numbers, tokens):
            return max(2 * numbers * tokens / rate, numbers * width / self.table.ceiling["copy_bytes"])

        first = encoder or decoder
        return pass_seconds(first, encoded) + steps * pass_seconds(decoder + head, rows)

    def add(self, work, dtype, peers, own, tokens):
        self.table.add(f"{work} {dtype}", "ms", own["seconds"], {name: [value] for name, value in peers.items()},
                       self.floor)

    def encode(self, batch, length, rounds):
        name, dtype = "bert-base", self.options.half
        inputs = [self.ids(name, length) for _ in range(batch)]
        model, ids = self.model(name, dtype), torch.tensor(inputs, device=self.options.device)
        work = lambda: model(input_ids=ids)
        peers = {"eager": self.peer_seconds(work, rounds),
                 "eager in a CUDA graph": self.peer_seconds(self.graph(work), rounds)}
        try:
            compiled = peer_operators.compiled(model)
            peers["torch.compile"] = self.peer_seconds(self.graph(lambda: compiled(input_ids=ids)), rounds)
        except RuntimeError as error:
            print(f"{name}: torch.compile refuses: {str(error).splitlines()[0]}", flush=True)
        own = self.beamline.bench(name, "embed", inputs, dtype, batch=batch, warmup=3, rounds=rounds,
                                  max_batch_tokens=max(4096, batch * length))
        self.floor = self.seconds_at_least(name, dtype, batch * length, 0, 0)
        self.add(f"BERT-base B{batch} T{length}", dtype, peers, own, batch * length)

    def encode_ragged(self, count, batch, rounds):
        # The same draws as timing.py's, whose lengths decide the work.
        lengths = random.Random()
        lengths.setstate(self.random.getstate())
        tokens = sum(min(500, max(4, round(58 * 2.718281828 ** lengths.gauss(0, 0.75)))) for _ in range(count))
        self.floor = self.seconds_at_least("bert-base", self.options.half, tokens, 0, 0)
        super().encode_ragged(count, batch, rounds)

    def translate(self, name, batch, tokens, beams, dtype, rounds):
        self.floor = self.seconds_at_least(name, dtype, batch * tokens, tokens, batch * beams)
        super().translate(name, batch, tokens, beams, dtype, rounds)

    def write(self, batch, prompt, tokens, rounds):
        self.floor = self.seconds_at_least("gpt2-124m", "bfloat16", batch * prompt, tokens, batch)
        super().write(batch, prompt, tokens, rounds)

    def write_ragged(self, count, batch, rounds):
        # The same draws as timing.py's: of each request its prompt's length and ids, then its answer's length.
        draws = random.Random()
        draws.setstate(self.random.getstate())
        last, prompts, answers = shapes.vocab_size(self.options.models, "gpt2-124m") - 2, 0, []
        for _ in range(count):
            prompt = draws.randint(32, 512)
            for _ in range(prompt):
                draws.randint(shapes.FIRST_ID, last)
            prompts += prompt
            answers.append(draws.randint(16, 256))
        self.floor = self.seconds_at_least("gpt2-124m", "bfloat16", prompts, max(answers), sum(answers) / max(answers))
        super().write_ragged(count, batch, rounds)


def models(options, table):
    work = Models(options, table)
    wanted = [(Models.encode, (batch, length, rounds))
              for batch, length, rounds in ((1, 32, 20), (1, 128, 20), (100, 32, 20), (500, 32, 10), (256, 128, 10), (32, 512, 10))]
    wanted += [(Models.encode_ragged, (512, 64, 5)), (Models.write, (1, 32, 128, 2)), (Models.write, (32, 32, 128, 2)),
               (Models.write_ragged, (256, 64, 1))]
    wanted += [(Models.translate, (name, batch, tokens, beams, dtype, 2))
               for name, batch, tokens, beams, dtype in (
                   ("transformer-base", 1, 32, 4, "float16"), ("transformer-base", 1, 32, 4, "float32"),
                   ("transformer-base", 1, 128, 4, "float16"), ("transformer-base", 64, 32, 4, "float16"),
                   ("transformer-base", 256, 32, 4, "float16"), ("transformer-base", 1, 32, 1, "float16"),
                   ("transformer-base", 256, 32, 1, "float16"), ("transformer-big", 1, 32, 4, "float16"))]
    for method, arguments in wanted:
        row = f"{method.__name__} {arguments}"
        if not re.search(options.only, row):
            continue
        try:
            method(work, *arguments)
        except (RuntimeError, subprocess.TimeoutExpired) as error:  # the other rows are wanted all the same
            print(f"{row} FAILED: {error}", flush=True)


def write_page(document, path):
    ceilings = document["ceilings"]
    lines = ["# Beamline beside its peers on one GPU", "",
             f"{document['device']}, PyTorch {document['torch']}; `scripts/gpu_peers.sh`. Operators are measured {document['repeat']} times, inside CUDA",
             "graphs; whole models, ours through the engine, are the median of several rounds. The ceiling is the time of the row's bytes or operations at the",
             f"rates measured in the same run: a copy {ceilings['copy_bytes'] * 1e-12:.2f} TB/s, a bfloat16 product "
             f"{ceilings['product_flops'] * 1e-12:.0f} TFLOP/s. \"Times as fast\": as the best peer.", "",
             "| work | ours | best peer | | times as fast | of the ceiling | other peers |",
             "| --- | ---: | ---: | --- | ---: | ---: | --- |"]
    for row in document["rows"]:
        unit, best = row["unit"], row["peer_name"]
        others = ", ".join(f"{name} {value:.4g}" for name, value in row["peers"].items() if name != best)
        beside = f"{row['peer']:.4g} {unit} | {best} | {row['ratio']:.2f}" if best else "| |"
        lines.append(f"| {row['work']} | {row['ours']:.4g} {unit} | {beside} | {row['ceiling_share']:.0%} | {others} |")
    lines += ["", f"![times as fast as the best peer]({os.path.basename(path).removesuffix('.md')}.png)"]
    with open(path, "w", encoding="utf-8") as file:
        file.write("\n".join(lines) + "\n")


def plot(document, path):
    try:
        import matplotlib
    except ImportError:
        return
    matplotlib.use("Agg")
    from matplotlib import pyplot

    rows = [row for row in document["rows"] if row["ratio"]]
    ratios = [row["ratio"] for row in rows]
    figure, axes = pyplot.subplots(figsize=(12, 0.28 * len(rows) + 1.2))
    axes.barh([row["work"] for row in rows], [ratio - 1 for ratio in ratios], left=1,
              color=["tab:green" if ratio >= 1 else "tab:red" for ratio in ratios])
    for i, (row, ratio) in enumerate(zip(rows, ratios)):
        axes.text(ratio, i, f" {ratio:.2f}x {row['peer_name']} ", va="center", fontsize=7,
                  ha="left" if ratio >= 1 else "right")
    axes.axvline(1, color="black", linewidth=0.8)
    axes.set_xscale("log")
    axes.set_xlim(min(ratios) / 4, max(ratios) * 4)  # room for the peers' names
    axes.xaxis.set_major_formatter("{x:g}x")
    axes.set_xlabel(f"times as fast as the best peer, {document['device']}, PyTorch {document['torch']}")
    axes.invert_yaxis()
    axes.margins(y=0.01)
    axes.tick_params(labelsize=7)
    figure.savefig(path, dpi=120, bbox_inches="tight")


def show(document, path):
    write_page(document, path.removesuffix(".json") + ".md")
    plot(document, path.removesuffix(".json") + ".png")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--draw")
    parser.add_argument("--join", nargs="+")
    parser.add_argument("--bin")
    parser.add_argument("--models")
    parser.add_argument("--out")
    parser.add_argument("--lines", action="append", default=[])
    parser.add_argument("--only", default="")
    parser.add_argument("--repeat", type=int, default=2)
    options = parser.parse_args()
    if options.draw:
        with open(options.draw, encoding="utf-8") as file:
            show(json.load(file), options.draw)
        return
    if options.join:
        documents = []
        for path in options.join:
            with open(path, encoding="utf-8") as file:
                documents.append(json.load(file))
        document = dict(documents[0], rows=sum((one["rows"] for one in documents), []))
        with open(options.out, "w", encoding="utf-8") as file:
            json.dump(document, file, indent=1)
        show(document, options.out)
        return
    options.device, options.half, options.max_tokens = "cuda", "float16", 1 << 20
    table = Table(options, peer_operators.ceilings())
    print(f"ceilings: copy {table.ceiling['copy_bytes'] * 1e-12:.2f} TB/s, bfloat16 product "
          f"{table.ceiling['product_flops'] * 1e-12:.0f} TFLOP/s", flush=True)
    operators(options, table)
    models(options, table)
    show(table.document, options.out)
    print(f"peers: {len(table.rows)} rows")


if __name__ == "__main__":
    main()

#!/usr/bin/env python3
"""The five ladders that say how far fused inference has come, measured on one GPU in one run.

usage: ladders.py --bin FOLDER --models FOLDER --out FILE.json [--lines BENCH.json] [--only REGEX] [--device cuda|cpu] [--quick]
       ladders.py --draw FILE.json

products     (65536 x 16384) by (16384 x 8192) in float16, forwards and backwards, with the epilogue fused and as steps
softmax      4,096 rows of 256 to 131,072 columns in float16, beside PyTorch and Triton
gpt2         all logits of 12 texts of 1,024 tokens, GPT-2 124M in bfloat16: PyTorch's ways of attention, a vocabulary padded
             to 50,304, torch.compile; ours scores the texts through the engine
bert         BERT-base, 32 tokens, 1 and 100 to 500 texts, float16
translation  Transformer-base, beam 4, 1 and 256 texts, 32, 64 and 128 tokens, float32 and float16

--lines: what cuda_library_bench has measured: softmax stands beside it, and products take turns with PyTorch's anew. The last two have FasterTransformer's own
tables, of a V100 and a T4, beside them (its README, versions 1.0, 2.0 and 2.1). --quick is for dry runs.
"""

import argparse
import json
import os
import re
import subprocess

import peer_operators
import timing
import torch
from compare_torch_operators import products_in_turns
from torch.nn.attention import SDPBackend, sdpa_kernel

PRODUCT = (65536, 16384, 8192)
# FasterTransformer, milliseconds: BERT by batch on a V100 in float16 (README of version 1.0, TensorFlow's XLA first).
FASTER_BERT = {100: (13.96, 9.57), 200: (26.47, 18.37), 300: (38.4, 27.41), 400: (49.65, 35.63), 500: (62.2, 44.57)}
# Decoding on a V100 by (batch, tokens, type), TensorFlow first (README of version 2.0); the last in version 2.1, which has
# no TensorFlow beside it.
FASTER_DECODING = {(1, 32, "float32"): (440.46, 58.70), (1, 64, "float32"): (888.19, 122.50), (1, 128, "float32"): (1821.76, 293.21),
                   (256, 32, "float32"): (1221.30, 493.85), (1, 32, "float16"): (531.70, 46.18), (1, 64, "float16"): (1065.76, 93.84),
                   (256, 32, "float16"): (1101.36, 290.44), (1, 128, "float16"): (None, 105.07)}


class Ladders(timing.Timing):
    """The rows of timing.py that ladders have, and those of operators, as {"ladder", "work", "unit", "ours", "peers", ...}."""

    def __init__(self, options):
        super().__init__(options)
        name = torch.cuda.get_device_name() if options.device == "cuda" else "cpu"
        self.document = {"device": name, "torch": torch.__version__, "rows": []}
        self.ladder, self.extra = None, {}

    def row(self, work, unit, ours, peers, **extra):
        """Seconds; `peers`: {name: seconds}."""
        scale = {"us": 1e6, "ms": 1e3}[unit]
        best = min(peers, key=peers.get) if peers else None
        row = {"ladder": self.ladder, "work": work, "unit": unit, "ours": ours * scale, "peer_name": best,
               "peers": {name: value * scale for name, value in peers.items()}, "ratio": peers[best] / ours if best else None, **extra}
        self.document["rows"].append(row)
        beside = f"{row['ratio']:.2f}x {best}" if best else ""
        print(f"{self.ladder}: {work:<48} {row['ours']:10.2f} {unit} {beside}", flush=True)
        with open(self.options.out, "w", encoding="utf-8") as file:
            json.dump(self.document, file, indent=1)

    def add(self, work, dtype, peers, own, tokens):
        """Of timing.py's rows."""
        self.row(f"{work} {dtype}", "ms", own["seconds"], peers, tokens=tokens, **self.extra)

    def lines(self, pattern):
        if not self.options.lines:
            return []
        with open(self.options.lines, encoding="utf-8") as file:
            found = [(re.fullmatch(pattern, line["name"]), line) for line in json.load(file)["lines"]]
        return [(match, line) for match, line in found if match]

    # --- Operators ---

    def products(self):
        m, k, n = PRODUCT
        names = [match[1] for match, _ in self.lines(rf"product float16 (\w+) {m} x {k} x {n}")]
        if not names:
            return
        own_us, peer_us = products_in_turns(os.path.join(self.options.bin, "cuda_library_bench"), names, m, k, n)
        for name in names:
            peers = {"PyTorch, the plain product alone": peer_us["none"] * 1e-6}
            if name in peer_us and name != "none":
                peers["PyTorch"] = peer_us[name] * 1e-6
            self.row(name, "ms", own_us[name] * 1e-6, peers, tflops=2 * m * k * n / own_us[name] * 1e-6)

    def softmax(self):
        for match, line in self.lines(r"softmax float16 4096 x (\d+)"):
            width = int(match[1])
            copy = next(other for _, other in self.lines(rf"copy float16 4096 x {width}"))
            self.row(f"{width} columns", "us", line["us"] * 1e-6, peer_operators.softmax(4096, width).peer_seconds(),
                     gbs=line["gbs"], copy_gbs=copy["gbs"], width=width)

    # --- Models ---

    def gpt2(self):
        batch, length = (2, 16) if self.options.quick else (12, 1024)
        name, dtype = "gpt2-124m", "float32" if self.options.quick else "bfloat16"
        inputs = [self.ids(name, length) for _ in range(batch)]
        ids = torch.tensor(inputs, device=self.options.device)
        model, peers, memory = self.model(name, dtype), {}, {}

        def measure(rung, work, backend):
            try:
                with sdpa_kernel(backend):
                    if self.options.device == "cuda":
                        torch.cuda.empty_cache()
                        torch.cuda.reset_peak_memory_stats()
                    peers[rung] = self.peer_seconds(work, 5)
                    if self.options.device == "cuda":
                        memory[rung] = torch.cuda.max_memory_allocated() >> 20
            except RuntimeError as error:
                print(f"gpt2: {rung} refuses: {str(error).splitlines()[0]}", flush=True)

        ways = {"math": SDPBackend.MATH, "memory-efficient": SDPBackend.EFFICIENT_ATTENTION, "flash": SDPBackend.FLASH_ATTENTION,
                "cuDNN": SDPBackend.CUDNN_ATTENTION}
        for way, backend in ways.items():
            measure(way, lambda: model(input_ids=ids, use_cache=False).logits, backend)
        model.resize_token_embeddings(-(-model.config.vocab_size // 128) * 128, mean_resizing=False)
        measure("flash, padded vocabulary", lambda: model(input_ids=ids, use_cache=False).logits, SDPBackend.FLASH_ATTENTION)
        if self.options.device == "cuda":
            compiled = peer_operators.compiled(model)
            measure("padded vocabulary, torch.compile", lambda: compiled(input_ids=ids, use_cache=False).logits, list(ways.values()))
        self.models.clear()
        own = self.beamline.bench(name, "score", inputs, dtype, batch=batch, warmup=3, rounds=7, max_batch_tokens=max(4096, batch * length))
        self.row(f"{batch} x {length} tokens", "ms", own["seconds"], peers, memory_mib=memory)

    def bert(self):
        batches = (1, 2) if self.options.quick else (1, *FASTER_BERT)
        for batch in batches:
            old = FASTER_BERT.get(batch)
            self.extra = {"faster_transformer": {"TensorFlow": old[0], "FasterTransformer": old[1], "gpu": "V100"}} if old else {}
            self.encode(batch, 8 if self.options.quick else 32, 20)

    def translation(self):
        for dtype in ("float16", "float32") if self.options.device == "cuda" else ("float32",):
            for batch in (1, 2) if self.options.quick else (1, 256):
                for tokens in (32, 64, 128):
                    old = FASTER_DECODING.get((batch, tokens, dtype))
                    self.extra = {"batch": batch, "tokens": tokens, "dtype": dtype}
                    if old:
                        self.extra["faster_transformer"] = {"TensorFlow": old[0], "FasterTransformer": old[1], "gpu": "V100"}
                    self.translate("transformer-base", batch, tokens, 4, dtype, 1)

    def translate(self, name, batch, tokens, beams, dtype, rounds):
        self.extra.pop("tokens", None)  # add() has them
        super().translate(name, batch, tokens, beams, dtype, rounds)


def figure(value):
    return "-" if value is None else f"{value:.4g}"


def table(head, rows):
    lines = ["| " + " | ".join(head) + " |", "| --- |" + " ---: |" * (len(head) - 1)]
    return lines + ["| " + " | ".join(map(str, row)) + " |" for row in rows]


def peer_table(rows, names, more=(), cells=lambda row: ()):
    """Ours, the named peers, how many times as fast as the best of them, and what `cells` adds under the heads `more`."""
    unit = rows[0]["unit"]
    body = [(row["work"], figure(row["ours"]), *(figure(row["peers"].get(name)) for name in names),
             "-" if row["ratio"] is None else f"{row['ratio']:.2f}", *cells(row)) for row in rows]
    return table(("work", f"Beamline, {unit}", *names, "times as fast as the best", *more), body)


def old_cells(row):
    old = row.get("faster_transformer")
    return (figure(old["TensorFlow"]), figure(old["FasterTransformer"])) if old else ("-", "-")


def gpt2_table(rows):
    body = [("Beamline, scored through the engine", figure(row["ours"]), "-", "1.00") for row in rows]
    for row in rows:
        body += [(f"PyTorch, {name}", figure(value), row["memory_mib"].get(name, "-"), f"{value / row['ours']:.2f}")
                 for name, value in row["peers"].items()]
    return table(("way", "ms", "memory, MiB", "of Beamline's time"), body)


def parts(rows):
    """(title, words, lines) of each ladder that was measured."""
    of = lambda ladder: [row for row in rows if row["ladder"] == ladder]
    m, k, n = PRODUCT
    yield "products", "Products and their epilogues", f"({m} x {k}) by ({k} x {n}) in float16; the backward ones with the gradient of the bias.", lambda: \
        peer_table(of("products"), ("PyTorch, the plain product alone", "PyTorch"), ("TFLOP/s",), lambda row: (f"{row['tflops']:.0f}",))
    yield "softmax", "Softmax", "4,096 rows in float16.", lambda: \
        peer_table(of("softmax"), ("PyTorch", "Triton"), ("GB/s", "of a copy of that size"),
                   lambda row: (f"{row['gbs']:.0f}", f"{row['gbs'] / row['copy_gbs']:.0%}"))
    yield "gpt2", "GPT-2 124M, all logits of 12 x 1,024 tokens", ("bfloat16. PyTorch's memory is the most that it allocated, weights included. Beamline also gathers each token's "
                                                               "log probability."), lambda: gpt2_table(of("gpt2"))
    yield "bert", "BERT-base, 32 tokens", "float16; the last two columns are FasterTransformer's own figures, V100.", lambda: \
        peer_table(of("bert"), ("eager", "eager in a CUDA graph"), ("TensorFlow XLA, V100", "FasterTransformer, V100"), old_cells)
    yield "translation", "Translation, beam 4", "6 + 6 layers of 8 heads of 64, 30,000 words; as many tokens out as in.", lambda: \
        peer_table(of("translation"), ("eager",), ("TensorFlow, V100", "FasterTransformer, V100"), old_cells)


def write_page(document, path):
    lines = ["# Ladders of fused inference", "",
             f"{document['device']}, PyTorch {document['torch']}; `bench/gpu/gpu_ladders.sh`. Medians, ours and the peers' in the same run; models through the whole",
             "engine, PyTorch (transformers) without reading results back. The tables of FasterTransformer are those that its authors",
             "published, of the GPUs of their day: they say what the same work took, not what that program would take here."]
    present = {row["ladder"] for row in document["rows"]}
    for ladder, title, words, make in parts(document["rows"]):
        if ladder in present:
            lines += ["", f"## {title}", "", words, "", *make()]
    lines += ["", f"![the ladders]({os.path.basename(path).removesuffix('.md')}.png)"]
    with open(path, "w", encoding="utf-8") as file:
        file.write("\n".join(lines) + "\n")


MOST_OF_A_LINE = 10  # the longest bar to the shortest, on a linear axis
TITLES = {"products": "products of (65536 x 16384) by (16384 x 8192), float16", "gpt2": "GPT-2 124M, all logits of 12 x 1,024 tokens, bfloat16",
          "bert": "BERT-base, 32 tokens, float16", "translation": "translation, 6 + 6 layers"}


def draw_bars(axes, rows, title):
    names = sorted({name for row in rows for name in row["peers"]})
    series = [("Beamline", [row["ours"] for row in rows])] + [(name, [row["peers"].get(name) for row in rows]) for name in names]
    thick = 0.8 / len(series)
    for i, (name, values) in enumerate(series):
        places = [at + i * thick for at, value in enumerate(values) if value is not None]
        bars = axes.barh(places, [value for value in values if value is not None], thick, label=name)
        axes.bar_label(bars, fmt="%.3g", padding=2, fontsize=6)
    axes.set_yticks([at + 0.4 - thick / 2 for at in range(len(rows))],
                    [row["work"].replace("transformer-base ", "").replace("BERT-base ", "") for row in rows], fontsize=7)
    axes.invert_yaxis()
    shown = [value for _, values in series for value in values if value is not None]
    if max(shown) > MOST_OF_A_LINE * min(shown):  # bars of a logarithm begin somewhere: a tenth of the shortest
        axes.set_xscale("log")
        axes.xaxis.set_major_formatter("{x:g}")
        axes.xaxis.set_minor_formatter("")
        axes.set_xlim(min(shown) / 10, max(shown) * 3)
    else:
        axes.set_xlim(0, max(shown) * 1.1)
    axes.set_xlabel(f"{rows[0]['unit']}, shorter is faster")
    axes.set_title(TITLES[title], fontsize=9)
    axes.legend(fontsize=6, loc="upper center", bbox_to_anchor=(0.5, -0.12), ncols=4, frameon=False)


def draw_softmax(axes, rows):
    widths = [row["width"] for row in rows]
    axes.plot(widths, [row["copy_gbs"] for row in rows], "k--", label="a copy")
    axes.plot(widths, [row["gbs"] for row in rows], "o-", label="Beamline")
    for name in sorted({name for row in rows for name in row["peers"]}):
        points = [(row["width"], row["gbs"] * row["ours"] / row["peers"][name]) for row in rows if name in row["peers"]]
        axes.plot(*zip(*points), "o-", label=name)
    axes.set_xscale("log", base=2)
    axes.set_xlabel("columns")
    axes.set_ylabel("GB/s")
    axes.set_ylim(0)
    axes.set_title("softmax of 4,096 rows, float16: longer is faster", fontsize=9)
    axes.legend(fontsize=6)


def plot(document, path):
    try:
        import matplotlib
    except ImportError:
        return
    matplotlib.use("Agg")
    from matplotlib import pyplot

    ladders = {}
    for row in document["rows"]:
        ladders.setdefault(row["ladder"], []).append(row)
    picture, axes = pyplot.subplots(3, 2, figsize=(13, 15))
    for place, (ladder, rows) in zip(axes.flat, ladders.items()):
        if ladder == "softmax":
            draw_softmax(place, rows)
        else:
            draw_bars(place, rows, ladder)
    for place in axes.flat[len(ladders):]:
        place.set_visible(False)
    picture.suptitle(f"{document['device']}, PyTorch {document['torch']}")
    picture.tight_layout()
    picture.savefig(path, dpi=110)


def show(document, path):
    write_page(document, path.removesuffix(".json") + ".md")
    plot(document, path.removesuffix(".json") + ".png")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--draw")
    parser.add_argument("--bin")
    parser.add_argument("--models")
    parser.add_argument("--out")
    parser.add_argument("--lines")
    parser.add_argument("--only", default="")
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--quick", action="store_true")
    options = parser.parse_args()
    if options.draw:
        with open(options.draw, encoding="utf-8") as file:
            show(json.load(file), options.draw)
        return
    import transformers

    transformers.logging.set_verbosity_error()
    transformers.logging.disable_progress_bar()
    options.half = "float16" if options.device == "cuda" else "float32"
    options.max_tokens = 8 if options.quick else 1 << 20
    ladders, failed = Ladders(options), 0
    for name in ("products", "softmax", "gpt2", "bert", "translation"):
        if not re.search(options.only, name):
            continue
        ladders.ladder, ladders.extra = name, {}
        try:
            with torch.no_grad():
                getattr(ladders, name)()
        except (RuntimeError, subprocess.TimeoutExpired) as error:  # the other ladders are wanted all the same
            print(f"{name} FAILED: {error}", flush=True)
            failed += 1
    show(ladders.document, options.out)
    print(f"ladders: {len(ladders.document['rows'])} rows, {failed} failed")


if __name__ == "__main__":
    main()

#!/usr/bin/env python3
"""Writes the figures of README.md and docs/benchmarks.md from the result files of docs/results.

usage: document_tables.py [--check] [--root FOLDER]

Between `<!-- NAME: bench/document_tables.py -->` and `<!-- end -->` stands what the function of that name below makes of the
files. --check, which is a test, changes nothing and fails where documents and files disagree.
"""

import argparse
import json
import os
import re
import sys
import textwrap

CPU_PEERS = ("2026-11-20-peers-generation-cpu", "2026-11-20-peers-embed-cpu")
SCHEDULER = "2026-11-21-scheduler-cpu"
RPC = "2026-11-26-rpc-cpu"
GPU_PEERS, GPU_PEERS_SECOND = "2026-11-26-peers-h200", "2026-11-26-peers-second-h200"
GPU_PEERS_NEWEST = "2026-11-27-peers-h200"
GPU_MODELS = "2026-11-21-cuda-models-h200"

TRANSLATION = "transformer-base beam 4, 32 tokens, B256 float16"
# What a row says, and the rows of the result that it shows.
GPU_ROWS = (
    ("6+6 layer translator, 32 tokens, beam 4, float16: one request", ("transformer-base beam 4, 32 tokens, B1 float16",)),
    ("256 requests of them ({second} in a second run, with a slower host)", (TRANSLATION,)),
    ("256 requests, greedy", ("transformer-base greedy, 32 tokens, B256 float16",)),
    ("GPT-2 124M, 128 tokens, bfloat16: one request; 32",
     ("GPT-2 124M, 32 tokens in, 128 out, B1 bfloat16", "GPT-2 124M, 32 tokens in, 128 out, B32 bfloat16")),
    ("BERT-base, float16: one text of 32; of 128 tokens", ("BERT-base B1 T32 float16", "BERT-base B1 T128 float16")),
    ("256 texts of 128 tokens; 32 of 512", ("BERT-base B256 T128 float16", "BERT-base B32 T512 float16")),
    ("512 texts of unequal length, 41,526 tokens",
     ("BERT-base, 512 ragged inputs (41526 tokens) in one go float16",)),
)
# Attention, products ...: what a row of the results is called, and what is shown of it.
OPERATOR_GROUPS = (
    ("attention over prompts", r"^attention prefill"),
    ("attention in decoding", r"^attention decode"),
    ("products", r"^matmul.*(32768|14336|8192)"),
    ("product with a vocabulary of odd size", r"^matmul.*50257"),
    ("layer norm with residual", r"^layer norm"),
    ("best candidates of a vocabulary", r"^top candidates"),
)
PEERS = {"eager": "transformers, eager", "torch.compile": "torch.compile",
         "eager, sorted batches of 64": "transformers, sorted batches of 64"}


class Results:
    """The result files of a repository, by name."""

    def __init__(self, root):
        self.folder = os.path.join(root, "docs/results")

    def __call__(self, name):
        with open(os.path.join(self.folder, name + ".json"), encoding="utf-8") as file:
            return json.load(file)


def table(head, rows):
    lines = ["| " + " | ".join(name for name, _ in head) + " |", "| " + " | ".join(rule for _, rule in head) + " |"]
    return "\n".join(lines + ["| " + " | ".join(row) + " |" for row in rows])


def numbers(head, rows, num_texts):
    """A table whose first columns are texts."""
    return table([(name, "---" if i < num_texts else "---:") for i, name in enumerate(head)], rows)


def wrapped(text):
    return textwrap.fill(text, 120, break_long_words=False, break_on_hyphens=False)


def cpu_ratios(cell):
    """Beamline to the better PyTorch and to CTranslate2, by sequences."""
    if "ratios" in cell:  # of a file whose figures are rounded
        return cell["ratios"]["PyTorch"], cell["ratios"]["CTranslate2"]
    rate = {name: figures["sequences_per_s"] for name, figures in cell["engines"].items()}
    torch = max(value for name, value in rate.items() if name.startswith("torch"))
    return rate["beamline"] / torch, rate["beamline"] / rate["ctranslate2"]


def cpu_peers(results):
    rows = []
    for cell in (cell for name in CPU_PEERS for cell in results(name)["cells"]):
        rate = {name: figures["tokens_per_s"] for name, figures in cell["engines"].items()}
        torch = max(value for name, value in rate.items() if name.startswith("torch"))
        figures = [f"{value:.0f}" for value in (torch, rate["ctranslate2"], rate["beamline"])]
        rows.append([cell["task"], str(cell["batch"])] + figures + [f"{ratio:.2f}x" for ratio in cpu_ratios(cell)])
    head = ("task", "batch", "PyTorch", "CTranslate2", "Beamline", "to PyTorch", "to CTranslate2")
    return numbers(head, rows, 1)


def continuous(results):
    result = results(SCHEDULER)
    rows = []
    for model, part in result["continuous"].items():
        for name, text in (("none", "continuous"), ("static:8", "static batches of 8"), ("serial", "one at a time")):
            best = part[name]["best"]
            rows.append([model, text, f"{best['rate']:.1f}", f"{best['output_tokens_per_s']:.0f}",
                         *(f"{best['time_to_first_token'][key]:.1f}" for key in ("p50_ms", "p99_ms")),
                         f"{part['none']['best']['rate'] / best['rate']:.1f}x" if name != "none" else ""])
    head = ("model", "batching", "requests/s", "tokens/s", "first token p50 (ms)", "p99 (ms)", "continuous carries")
    return numbers(head, rows, 2)


def prefix_cache(results):
    result = results(SCHEDULER)["prefix"]
    rows = []
    for load, text in (("single", "one client"), ("loaded", "Poisson arrivals, half of what the server can without the cache")):
        off, on = (result[cache][load]["time_to_first_token"]["p50_ms"] for cache in ("off", "on"))
        rows.append([text, f"{off:.2f}", f"{on:.2f}", f"{off / on:.1f}x"])
    return numbers(("load", "without (ms)", "with the cache (ms)", "as soon"), rows, 1)


def beams(results):
    rows = []
    for name, run in results(SCHEDULER)["beams"].items():
        greedy, beam = (run[kind]["requests_per_s"] for kind in ("greedy", "beam 4"))
        rows.append([name, f"{greedy:.0f}", f"{beam:.0f}", f"{greedy / beam:.1f}x"])
    return numbers(("requests", "greedy/s", "beam 4/s", "beam 4 costs"), rows, 1)


def calls(results):
    result = results(RPC)
    unary, stream = result["unary"], result["stream"]
    one = "one at a time: "
    rows = [[one + "engine in process; the server", f"{unary['engine']['p50_us']:.0f}; {unary['beamline']['p50_us']:.0f} us"],
            [one + "added by gRPC and the server", f"{result['added_unary_us']:.0f} us"],
            [one + "added to a streamed token", f"{result['added_token_us']:.1f} us"],
            [one + "a bare gRPC server", f"{unary['echo']['p50_us']:.0f} us"]]
    for run in result["throughput"]:
        of = {"none": "embeddings without layers", "one": "embeddings"}[run["layers"]] if run["call"] == "encode" else "streams"
        connections = "1 connection" if run["connections"] == 1 else f"{run['connections']} connections"
        rows.append([f"64 {of} at once, {connections}: the server; a bare one",
                     f"{run['beamline']['calls_per_s']:,.0f}/s; {run['echo']['calls_per_s']:,.0f}/s ({run['ratio']:.2f}x)"])
    rows.append(["the load tester at 10,000 requests/s: its processor time", f"{result['load_tester']['cpu_us_a_request']:.0f} us a request"])
    return numbers(("call", "p50 or rate"), rows, 1)


def spread(values, digits):
    low, high = f"{min(values):.{digits}f}", f"{max(values):.{digits}f}"
    return low if low == high else f"{low} to {high}"


def milliseconds(values):
    def short(value):
        return f"{value:.2f}" if value < 1 else f"{value:.1f}" if value < 100 else f"{value:.0f}"
    return "; ".join(short(value) for value in values) + " ms"


def gpu_peers(results):
    rows = {row["work"]: row for row in results(GPU_PEERS)["rows"]}
    second = {row["work"]: row for row in results(GPU_PEERS_SECOND)["rows"]}[TRANSLATION]
    lines = []
    for text, works in GPU_ROWS:
        shown = [rows[work] for work in works]
        (peer,) = {row["peer_name"] for row in shown}
        lines.append([text.format(second=milliseconds([second["ours"]])), milliseconds(row["ours"] for row in shown),
                      milliseconds(row["peer"] for row in shown), PEERS[peer]])
    return table([("work", "---"), ("Beamline", "---:"), ("best of its peers", "---:"), ("", "---")], lines)


def gpu_operators(results):
    found = results(GPU_PEERS)["rows"]
    rows = []
    for text, pattern in OPERATOR_GROUPS:
        group = [row for row in found if re.search(pattern, row["work"])]
        peers = sorted({row["peer_name"] for row in group})
        rows.append([text, str(len(group)), spread([row["ratio"] for row in group], 2), ", ".join(peers)])
    return table([("operator", "---"), ("cases", "---:"), ("times as fast", "---:"), ("as the best of", "---")], rows)


def gpu_mixed(results):
    (mixed,) = [row for row in results(GPU_MODELS)["timing"] if row["work"].startswith("GPT-2 124M, 256 requests")]
    return wrapped(f"256 GPT-2 requests of mixed lengths at once write {mixed['beamline_tokens_per_s']:,.0f} tokens/s in bfloat16 "
                   f"([models](results/{GPU_MODELS}.md)).")


def measured(results):
    """The compact table of README.md."""
    cells = {(cell["task"], cell["batch"]): cell for name in CPU_PEERS for cell in results(name)["cells"]}
    rows = []
    for task, text in (("translate-beam4", "translate 64 sentences, beam 4"), ("write-greedy", "continue 64 texts, greedy"),
                       ("embed", "embed 64 texts")):
        rate = {name: figures["tokens_per_s"] for name, figures in cells[task, 64]["engines"].items()}
        rows.append([text, f"{rate['beamline']:,.0f} tokens/s", f"{rate['ctranslate2']:,.0f} tokens/s", "CTranslate2"])
    on_gpu = {row["work"]: row for row in results(GPU_PEERS_NEWEST)["rows"]}
    for work, text in (("BERT-base B1 T128 float16", "H200: embed a text of 128 tokens, BERT-base, float16"),
                       ("BERT-base B500 T32 float16", "H200: embed 500 texts of 32 tokens")):
        row = on_gpu[work]
        rows.append([text, milliseconds([row["ours"]]), milliseconds([row["peer"]]), PEERS[row["peer_name"]]])
    return table([("work", "---"), ("Beamline", "---:"), ("peer", "---:"), ("", "---")], rows)


PARTS = {"README.md": (measured,),
         "docs/benchmarks.md": (cpu_peers, continuous, prefix_cache, beams, calls, gpu_peers, gpu_operators, gpu_mixed)}


def filled(document, text, results):
    """The document's text with its parts made anew."""
    for part in PARTS[document]:
        begin = f"<!-- {part.__name__}: bench/document_tables.py -->\n"
        pattern = re.escape(begin) + r".*?(?=<!-- end -->)"
        text, count = re.subn(pattern, lambda _, part=part, begin=begin: begin + part(results) + "\n", text, flags=re.S)
        if count != 1:
            raise SystemExit(f"{document} has {count} parts '{part.__name__}'; accepted: 1, between {begin.strip()} and <!-- end -->")
    return text


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true", help="change nothing, fail where documents and files disagree")
    parser.add_argument("--root", default=os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
    options = parser.parse_args()
    agree = True
    for document in PARTS:
        path = os.path.join(options.root, document)
        with open(path, encoding="utf-8") as file:
            before = file.read()
        after = filled(document, before, Results(options.root))
        agree = agree and before == after
        if not options.check:
            with open(path, "w", encoding="utf-8") as file:
                file.write(after)
            continue
        for number, (old, new) in enumerate(zip(before.split("\n"), after.split("\n")), 1):
            if old != new:
                print(f"{document}:{number}: is  {old}\n    docs/results says: {new}")
    if options.check and not agree:
        sys.exit("documents and docs/results disagree; bench/document_tables.py writes what the results say")


if __name__ == "__main__":
    main()

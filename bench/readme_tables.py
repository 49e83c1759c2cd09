#!/usr/bin/env python3
"""Writes the figures of README.md, section "Measured", from the result files of docs/results.

usage: readme_tables.py [--check] [--root FOLDER]

Between `<!-- NAME: bench/readme_tables.py -->` and `<!-- end -->` stands what the function of that name below makes of the
files. --check, which is a test, changes nothing and fails where README and files disagree.
"""

import argparse
import json
import os
import re
import sys
import textwrap

CPU_PEERS = ("2026-11-20-peers-generation-cpu", "2026-11-20-peers-embed-cpu")
SCHEDULER = "2026-11-21-scheduler-cpu"
GPU_PEERS, GPU_PEERS_SECOND = "2026-11-22-peers-h200", "2026-11-22-peers-first-h200"
GPU_MODELS = "2026-11-21-cuda-models-h200"

TRANSLATION = "transformer-base beam 4, 32 tokens, B256 float16"
# What a row says, and the rows of the result that it shows.
GPU_ROWS = (
    ("6+6 layer translator, 32 tokens, beam 4, float16: one request", ("transformer-base beam 4, 32 tokens, B1 float16",)),
    ("256 requests of them ({second} on the machine with the faster host)", (TRANSLATION,)),
    ("256 requests, greedy", ("transformer-base greedy, 32 tokens, B256 float16",)),
    ("GPT-2 124M, 128 tokens, bfloat16: one request; 32",
     ("GPT-2 124M, 32 tokens in, 128 out, B1 bfloat16", "GPT-2 124M, 32 tokens in, 128 out, B32 bfloat16")),
    ("BERT-base, float16: one text of 32; of 128 tokens", ("BERT-base B1 T32 float16", "BERT-base B1 T128 float16")),
    ("256 texts of 128 tokens; 32 of 512", ("BERT-base B256 T128 float16", "BERT-base B32 T512 float16")),
    ("512 texts of unequal length, 41,526 tokens",
     ("BERT-base, 512 ragged inputs (41526 tokens) in one go float16",)),
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


def wrapped(text):
    return textwrap.fill(text, 128, break_long_words=False, break_on_hyphens=False)


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
    return table([(name, "---" if name == "task" else "---:") for name in head], rows)


def scheduler(results):
    result = results(SCHEDULER)
    gain = {model: part["none"]["best"]["rate"] / part["static:8"]["best"]["rate"]
            for model, part in result["continuous"].items()}
    prefix = [result["prefix"]["off"][load]["time_to_first_token"]["p50_ms"] /
              result["prefix"]["on"][load]["time_to_first_token"]["p50_ms"] for load in ("single", "loaded")]

    def beam_costs(clients):
        runs = [result["beams"][f"{model}, {clients} at a time"] for model in gain]
        return spread([run["greedy"]["requests_per_s"] / run["beam 4"]["requests_per_s"] for run in runs], 1)

    return wrapped(
        f"Under a Poisson load of mixed lengths, on 2 cores of an Intel Xeon, continuous batching carries "
        f"{gain['write-en']:.1f} times (texts) and {gain['translate-en-de']:.1f} times (translations) the requests that static "
        f"batches of 8 carry with a first token within {result['bound_ms']:.0f} ms for 99 in 100; a cached prompt of 300 tokens "
        f"answers {spread(prefix, 1)} times as soon; beam 4 costs {beam_costs(1)} times greedy for one client, "
        f"{beam_costs(8)} times for eight ([scheduler](docs/results/{SCHEDULER}.md)).")


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
    rows = {row["work"]: row["ratio"] for row in results(GPU_PEERS)["rows"]}

    def of(pattern):
        found = [ratio for work, ratio in rows.items() if re.search(pattern, work)]
        return f"{min(found):.2f} to {max(found):.2f}"

    (mixed,) = [row for row in results(GPU_MODELS)["timing"] if row["work"].startswith("GPT-2 124M, 256 requests")]
    return wrapped(
        f"Operators there, times as fast as the best peer: attention over prompts {of('^attention prefill')} (cuDNN, "
        f"FlashAttention), in decoding {of('^attention decode')}, products {of('^matmul.*(32768|14336|8192)')} (PyTorch, "
        f"torch.compile), norms with residual {of('^layer norm')} (torch.compile), best candidates of a vocabulary "
        f"{of('^top candidates')}. 256 GPT-2 requests of mixed lengths at once write {mixed['beamline_tokens_per_s']:,.0f} "
        f"tokens/s ([models](docs/results/{GPU_MODELS}.md)).")


PARTS = {part.__name__: part for part in (cpu_peers, scheduler, gpu_peers, gpu_operators)}


def filled(readme, results):
    """README's text with its parts made anew."""
    for name, part in PARTS.items():
        begin = f"<!-- {name}: bench/readme_tables.py -->\n"
        pattern = re.escape(begin) + r".*?(?=<!-- end -->)"
        readme, count = re.subn(pattern, lambda _: begin + part(results) + "\n", readme, flags=re.S)
        if count != 1:
            raise SystemExit(f"README.md has {count} parts '{name}'; accepted: 1, between {begin.strip()} and <!-- end -->")
    return readme


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true", help="change nothing, fail where README and files disagree")
    parser.add_argument("--root", default=os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
    options = parser.parse_args()
    path = os.path.join(options.root, "README.md")
    with open(path, encoding="utf-8") as file:
        before = file.read()
    after = filled(before, Results(options.root))
    if not options.check:
        with open(path, "w", encoding="utf-8") as file:
            file.write(after)
        return
    differing = [number for number, (old, new) in enumerate(zip(before.split("\n"), after.split("\n")), 1) if old != new]
    for number in differing:
        print(f"README.md:{number}: is  {before.split(chr(10))[number - 1]}\n    docs/results says: "
              f"{after.split(chr(10))[number - 1]}")
    if before != after:
        sys.exit("README.md and docs/results disagree; bench/readme_tables.py writes what the results say")


if __name__ == "__main__":
    main()

#!/usr/bin/env python3
"""Draws what several GPUs gain: replicas, and one request by width and by layers, beside the ideal.

usage: several_gpus_plot.py RESULT.json OUT.png

RESULT.json has "replicas" [{"replicas", "holds_per_s", "fails_per_s"}] and "models" [{"shape", "dtype", "rows": [{"way",
"ms_per_token", "speedup"}]}] (a way that a model lacks is left out), as docs/results/2026-11-26-four-gpus-h200.json. Needs matplotlib.
"""

import json
import sys

import matplotlib

matplotlib.use("Agg")
from matplotlib import pyplot  # noqa: E402


def main():
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    with open(sys.argv[1], encoding="utf-8") as file:
        result = json.load(file)
    figure, (left, right) = pyplot.subplots(1, 2, figsize=(11, 4.2))
    counts = [row["replicas"] for row in result["replicas"]]
    rates = [row["holds_per_s"] or row["fails_per_s"] for row in result["replicas"]]
    labels = [f"{rate:,}" if row["holds_per_s"] else f"below {rate:,}" for row, rate in zip(result["replicas"], rates)]
    bars = left.bar([str(count) for count in counts], rates, color="#2f6db3", width=0.6)
    left.bar_label(bars, labels)
    left.set_xlabel("replicas, a GPU each")
    left.set_ylabel("requests a second within p99 250 ms")
    left.set_ylim(0, max(rates) * 1.15)
    ways = {"2": "2 by width", "4": "4 by width", "L4": "4 by layers"}
    for place, model in enumerate(result["models"]):
        speedups = {row["way"]: row["speedup"] for row in model["rows"]}
        offsets = [i + (place - (len(result["models"]) - 1) / 2) * 0.21 for i, way in enumerate(ways) if way in speedups]
        bars = right.bar(offsets, [speedups[way] for way in ways if way in speedups], width=0.2,
                         label=f"{model['shape']}, {model['dtype']}")
        right.bar_label(bars, fmt="%.2f", fontsize=8)
    right.axhline(1, color="gray", linewidth=0.8)
    right.set_xticks(range(len(ways)), ways.values())
    right.set_ylabel("times as fast as one GPU, one request")
    right.set_ylim(0, 4)
    right.legend(fontsize=8)
    for axes in (left, right):
        axes.spines[["top", "right"]].set_visible(False)
    figure.tight_layout()
    figure.savefig(sys.argv[2], dpi=110)


if __name__ == "__main__":
    main()

#!/usr/bin/env python3
"""What the setting `deterministic` costs on one GPU, and whether it keeps what it promises.

usage: deterministic.py --bin FOLDER --models FOLDER --out FILE [--rounds 5] [--turns 2] [--seconds 240]

FOLDERs: of beamline-bench; of the checkpoints of make_checkpoints.py (bert-base, gpt2-124m, transformer-base). Each work
is timed without and with the setting in turn; a time is the median of its rounds, and of the turns the smaller one
counts. Requests of several lengths come together. `changed` counts those whose tokens, or embeddings to the last digit
printed, are others than those of the same request alone. After --seconds no further work is begun.

FILE receives {"machine", "command", "rows": [{"model", "task", "dtype", "batch", "ms", "deterministic_ms", "cost",
"changed", "deterministic_changed"}]}; cost is the time with over the time without, minus 1.
"""

import argparse
import json
import subprocess
import sys
import time

from beamline import Beamline

WORKS = (("gpt2-124m", "write-greedy", "bfloat16", (1, 32, 256)), ("bert-base", "embed", "bfloat16", (1, 32, 256)),
         ("transformer-base", "translate-beam4", "float16", (1, 32)))
TOKENS, WARM_UP = 64, 3


def describe_machine():
    try:
        done = subprocess.run(["nvidia-smi", "--query-gpu=name,driver_version", "--format=csv,noheader"],
                              stdout=subprocess.PIPE, text=True, check=False)
        return done.stdout.splitlines()
    except OSError:
        return ["no GPU: a dry run"]


def inputs_of(task, batch):
    """Of 20 to 130 tokens."""
    rows = []
    for request in range(batch):
        length = 20 + 37 * request % 111 if batch > 1 else 64
        ids = [100 + (7 * i + 31 * request) % 390 for i in range(length)]
        rows.append(ids if task == "embed" else {"ids": ids, "max_new_tokens": TOKENS})
    return rows


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bin", required=True)
    parser.add_argument("--models", required=True)
    parser.add_argument("--out", required=True)
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--turns", type=int, default=2)
    parser.add_argument("--seconds", type=float, default=240)
    options = parser.parse_args()
    beamline = Beamline(options.bin, options.models, options.device)
    begin = time.monotonic()
    result = {"machine": describe_machine(), "command": " ".join(sys.argv), "tokens": TOKENS, "rows": []}

    def run(model, task, dtype, inputs, batch, deterministic, rounds):
        flags = {"deterministic": True} if deterministic else {}
        if task != "embed":
            flags["ignore_eos"] = True
        return beamline.bench(model, task, inputs, dtype, batch=batch, rounds=rounds, warmup=WARM_UP if rounds > 1 else 0,
                              warm_up="false", outputs=True, **flags)

    for model, task, dtype, batches in WORKS:
        for batch in batches:
            if time.monotonic() - begin > options.seconds:
                break
            inputs = inputs_of(task, batch)
            best, outputs = {}, {}
            for _ in range(options.turns):
                for deterministic in (False, True):
                    line = run(model, task, dtype, inputs, batch, deterministic, options.rounds)
                    best[deterministic] = min(best.get(deterministic, line["seconds"]), line["seconds"])
                    outputs[deterministic] = line["outputs"]
            row = {"model": model, "task": task, "dtype": dtype, "batch": batch, "ms": 1000 * best[False],
                   "deterministic_ms": 1000 * best[True], "cost": best[True] / best[False] - 1}
            if 1 < batch <= 32:
                for deterministic in (False, True):
                    alone = run(model, task, dtype, inputs, 1, deterministic, 1)["outputs"]
                    changed = sum(a != b for a, b in zip(alone, outputs[deterministic], strict=True))
                    row["deterministic_changed" if deterministic else "changed"] = changed
            result["rows"].append(row)
            print(json.dumps(row), flush=True)
            with open(options.out, "w", encoding="utf-8") as file:
                json.dump(result, file, indent=1)
                file.write("\n")
    return 0 if all(row.get("deterministic_changed", 0) == 0 for row in result["rows"]) else 1


if __name__ == "__main__":
    sys.exit(main())

"""Beamline next to PyTorch (transformers) and CTranslate2 on the demo models, CPU, float32.

usage: main.py [--beamline BINARY] [--rounds N] [--threads N] [--out PREFIX] [--lock FILE] [--tasks REGEX]

Every engine keeps its own process with one model. In each round every engine runs the same inputs, in an order that
rotates from round to round; a figure is the median over the rounds. Token ids go in and come out, so
no tokenizer is timed. Tokens are generated ids up to and with the end token (the best hypothesis of a
beam), or the input ids of an embedding. Outputs are compared with tests/golden.

--beamline names the in-process benchmark, beamline-bench, which is called once a round:
    beamline-bench --models DIR --model NAME --task TASK --batch N --max-new-tokens N --threads N
                   --input FILE [--outputs]
TASK is translate-greedy, translate-beam4, write-greedy or embed. FILE holds one JSON array of token ids
a line. The inputs run once untimed, then once timed: N requests are submitted together, and the next N
when all of these are answered. It prints one JSON line:
    {"model","task","batch","tokens_per_s","sequences_per_s","seconds"}
and with --outputs also "outputs": the generated ids (or the embedding) of each input.
"""

import argparse
import contextlib
import datetime
import fcntl
import importlib.metadata
import json
import os
import platform
import re
import statistics
import subprocess
import sys
import tempfile
import time

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
MODELS = os.path.join(ROOT, "models")
PEERS = ["torch-eager", "torch-sdpa", "ctranslate2"]
# (task, model, golden file, field of the expected output, max_new_tokens)
TASKS = [
    ("translate-greedy", "translate-en-de", "translate.jsonl", "greedy_ids", 199),
    ("translate-beam4", "translate-en-de", "translate.jsonl", "beam4", 199),
    ("write-greedy", "write-en", "write.jsonl", "greedy_ids", 48),
    ("embed", "embed-en", "embed.jsonl", "embedding", 0),
]
INPUTS_PER_BATCH = {1: 12, 8: 32, 64: 64}  # inputs of one round


class Peer:
    """worker.py with a JSON line in and a JSON line out."""

    def __init__(self, engine, model, threads):
        worker = os.path.join(os.path.dirname(os.path.abspath(__file__)), "worker.py")
        environment = dict(os.environ, OMP_NUM_THREADS=str(threads), TOKENIZERS_PARALLELISM="false")
        self.process = subprocess.Popen(
            [sys.executable, worker, engine, MODELS, model, str(threads)],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE,
            text=True, env=environment,
        )

    def run(self, request):
        print(json.dumps(request), file=self.process.stdin, flush=True)
        line = self.process.stdout.readline()
        if not line:
            raise RuntimeError("the worker ended: " + " ".join(self.process.args))
        return json.loads(line)

    def close(self):
        self.process.stdin.close()
        self.process.wait(timeout=30)


class Beamline:
    """beamline-bench, one process a round."""

    def __init__(self, binary, threads):
        self.binary, self.threads = binary, threads

    def run(self, request):
        with tempfile.NamedTemporaryFile("w", suffix=".jsonl") as inputs:
            inputs.writelines(json.dumps(ids) + "\n" for ids in request["inputs"])
            inputs.flush()
            command = [self.binary, "--models", MODELS, "--model", request["model"], "--task", request["task"],
                       "--batch", str(request["batch"]), "--max-new-tokens", str(request["max_new_tokens"]),
                       "--threads", str(self.threads), "--input", inputs.name, "--outputs"]
            done = subprocess.run(command, stdout=subprocess.PIPE, text=True, timeout=600, check=True)
        return json.loads(done.stdout.splitlines()[-1])

    def close(self):
        pass


def busy_share(seconds=0.25):
    """The share of CPU time that all processes used during `seconds`."""

    def sample():
        with open("/proc/stat", encoding="ascii") as file:
            fields = [int(field) for field in file.readline().split()[1:9]]
        return sum(fields), fields[3] + fields[4]

    before = sample()
    time.sleep(seconds)
    after = sample()
    return 1 - (after[1] - before[1]) / max(1, after[0] - before[0])


@contextlib.contextmanager
def quiet_machine(lock):
    """Holds a lock file that builds on the same machine take too, once nothing else is running."""
    with open(lock or os.devnull, "w") as file:
        if lock:
            fcntl.flock(file, fcntl.LOCK_EX)
        deadline = time.monotonic() + 20
        while busy_share() > 0.05 and time.monotonic() < deadline:
            time.sleep(0.25)
        yield


def load_rows(golden, field, count):
    with open(os.path.join(ROOT, "tests", "golden", golden), encoding="utf-8") as file:
        rows = [json.loads(line) for line in file]
    rows = [row for row in rows if row["text"].strip()]
    return [rows[index % len(rows)] for index in range(count)]


def expected(row, field):
    return row["beam4"][0]["ids"] if field == "beam4" else row[field]


def agrees(output, wanted, task):
    if task == "embed":
        return len(output) == len(wanted) and max(abs(a - b) for a, b in zip(output, wanted)) < 1e-4
    return output == wanted


def measure(engines, task, batch, rounds, lock):
    name, model, golden, field, limit = task
    rows = load_rows(golden, field, INPUTS_PER_BATCH[batch])
    request = {"model": model, "task": name, "batch": batch, "max_new_tokens": limit,
               "inputs": [row["input_ids"] for row in rows]}
    warm_up = dict(request, inputs=request["inputs"][:batch])
    cell = {engine: {"seconds": []} for engine in engines}
    with quiet_machine(lock):
        for engine in engines.values():
            engine.run(warm_up)
    order = list(engines)
    for _ in range(rounds):
        for engine in order:
            with quiet_machine(lock):
                answer = engines[engine].run(request)
            if name == "embed":
                tokens = sum(len(ids) for ids in request["inputs"])
            else:
                tokens = sum(len(ids) for ids in answer["outputs"])
            cell[engine]["seconds"].append(answer["seconds"])
            cell[engine]["tokens"] = tokens
            cell[engine]["agree"] = sum(
                agrees(output, expected(row, field), name) for output, row in zip(answer["outputs"], rows))
        order = order[1:] + order[:1]
    for figures in cell.values():
        seconds = statistics.median(figures["seconds"])
        figures.update(tokens_per_s=figures["tokens"] / seconds, sequences_per_s=len(rows) / seconds,
                       fastest_s=min(figures["seconds"]), slowest_s=max(figures["seconds"]), median_s=seconds)
    return {"task": name, "model": model, "batch": batch, "inputs": len(rows), "max_new_tokens": limit,
            "engines": cell}


def measure_task(task, options):
    engines = {name: Peer(name, task[1], options.threads) for name in PEERS}
    if options.beamline:
        engines["beamline"] = Beamline(options.beamline, options.threads)
    try:
        for batch in INPUTS_PER_BATCH:
            cell = measure(engines, task, batch, options.rounds, options.lock)
            print(table({"cells": [cell]}).splitlines()[-1], file=sys.stderr, flush=True)
            yield cell
    finally:
        for engine in engines.values():
            engine.close()


def cpu_name():
    with open("/proc/cpuinfo", encoding="utf-8") as file:
        names = [line.split(":", 1)[1].strip() for line in file if line.startswith("model name")]
    flags = subprocess.run(["grep", "-o", "-m1", "-w", "avx512f"], stdin=open("/proc/cpuinfo"), text=True,
                           stdout=subprocess.PIPE, check=False).stdout.strip()
    return f"{names[0] if names else platform.machine()}{', AVX-512' if flags else ''}"


def environment(options):
    commit = subprocess.run(["git", "-C", ROOT, "rev-parse", "--short", "HEAD"], text=True,
                            stdout=subprocess.PIPE, check=False).stdout.strip()
    packages = ["torch", "transformers", "ctranslate2"]
    return {"date": datetime.date.today().isoformat(), "cpu": cpu_name(), "cpus": os.cpu_count(),
            "threads": options.threads, "rounds": options.rounds, "commit": commit,
            "system": platform.freedesktop_os_release()["PRETTY_NAME"], "python": platform.python_version(),
            "versions": {name: importlib.metadata.version(name) for name in packages},
            "command": "bench/peers/main.py " + " ".join(sys.argv[1:])}


def table(result):
    engines = list(result["cells"][0]["engines"])
    has_beamline = "beamline" in engines
    head = ["task", "batch"] + [f"{engine} tok/s" for engine in engines] + [f"{engine} seq/s" for engine in engines]
    if has_beamline:
        head += ["/ PyTorch", "/ CTranslate2"]
    lines = ["| " + " | ".join(head) + " |", "| " + " | ".join(["---"] + ["---:"] * (len(head) - 1)) + " |"]
    for cell in result["cells"]:
        figures = cell["engines"]
        row = [cell["task"], str(cell["batch"])]
        row += [f"{figures[engine]['tokens_per_s']:.0f}" for engine in engines]
        row += [f"{figures[engine]['sequences_per_s']:.1f}" for engine in engines]
        if has_beamline:
            torch = max(figures[engine]["sequences_per_s"] for engine in engines if engine.startswith("torch"))
            own = figures["beamline"]["sequences_per_s"]
            row += [f"{own / torch:.2f}x", f"{own / figures['ctranslate2']['sequences_per_s']:.2f}x"]
        lines.append("| " + " | ".join(row) + " |")
    return "\n".join(lines)


def agreement(result):
    lines = ["| task | batch | " + " | ".join(result["cells"][0]["engines"]) + " |",
             "| --- | ---: |" + " ---: |" * len(result["cells"][0]["engines"])]
    for cell in result["cells"]:
        shares = [f"{figures['agree']} of {cell['inputs']}" for figures in cell["engines"].values()]
        lines.append(f"| {cell['task']} | {cell['batch']} | " + " | ".join(shares) + " |")
    return "\n".join(lines)


def report(result):
    machine = result["environment"]
    versions = ", ".join(f"{name} {version}" for name, version in machine["versions"].items())
    return f"""# Demo models on the CPU, float32

{machine['cpu']}, {machine['cpus']} CPUs, {machine['threads']} threads; {machine['system']}; {machine['date']};
Beamline at {machine['commit']}; {versions}; Python {machine['python']}.
Command: `{machine['command']}`

Median of {machine['rounds']} interleaved rounds. Token ids in, token ids out; inputs from tests/golden
({', '.join(f'{count} at batch {batch}' for batch, count in INPUTS_PER_BATCH.items())}). Tokens are generated tokens of the
best sequence, or input tokens of an embedding. The ratio to PyTorch uses the better of its two attentions.

{table(result)}

Inputs whose output equals the golden one (ids, or embedding within 1e-4):

{agreement(result)}
"""


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--beamline", help="path of beamline-bench; without it only the peers run")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--threads", type=int, default=os.cpu_count())
    parser.add_argument("--tasks", default=".", help="regular expression over task names")
    parser.add_argument("--lock", help="lock file to hold while an engine runs")
    parser.add_argument("--out", help="writes OUT.json and OUT.md")
    options = parser.parse_args()
    cells = []
    for task in TASKS:
        if re.search(options.tasks, task[0]):
            cells += measure_task(task, options)
    result = {"environment": environment(options), "cells": cells}
    if options.out:
        with open(options.out + ".json", "w", encoding="utf-8") as file:
            json.dump(result, file, indent=1)
            file.write("\n")
        with open(options.out + ".md", "w", encoding="utf-8") as file:
            file.write(report(result))
    print(report(result))


if __name__ == "__main__":
    main()

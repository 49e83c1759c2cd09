#!/usr/bin/env python3
"""Times PyTorch's operators on the GPU and sets them beside cuda_library_bench's results.

usage: compare_torch_operators.py BENCH.json OUTPUT.json

Both measure medians over rounds of back-to-back calls, synchronised once a round, with inputs that
rotate through more memory than the L2 cache holds.
"""

import argparse
import json
import re
import statistics
import subprocess
import time

import torch

ROUNDS = 9
ROUND_SECONDS = 0.02
ROTATION_BYTES = 512 << 20
TURNS = 7
TURN_SECONDS = 0.3
TYPES = {"float16": torch.float16, "float32": torch.float32, "bfloat16": torch.bfloat16}


def round_of(run, calls, first=0):
    torch.cuda.synchronize()
    begin = time.perf_counter()
    for call in range(first, first + calls):
        run(call)
    torch.cuda.synchronize()
    return (time.perf_counter() - begin) / calls


def round_us(run, seconds):
    return 1e6 * round_of(run, max(2, int(seconds / round_of(run, 2))))


def median_us(run):
    round_of(run, 2)
    calls = max(2, min(1000, int(ROUND_SECONDS / round_of(run, 3, 2))))
    return 1e6 * statistics.median(round_of(run, calls, 5 + i * calls) for i in range(ROUNDS))


def time_softmax(dtype, rows, width):
    nbytes = rows * width * dtype.itemsize
    copies = max(1, min(16, ROTATION_BYTES // (2 * nbytes)))
    inputs = [torch.randn(rows, width, device="cuda", dtype=dtype) for _ in range(copies)]
    outputs = [torch.empty_like(x) for x in inputs]
    us = median_us(lambda i: torch.softmax(inputs[i % copies], -1, out=outputs[i % copies]))
    return us, 2 * nbytes / us * 1e-3


def uniform(*shape):
    """The numbers of cuda_library_bench: torch.rand in float16 has fewer bits, and a GPU at its power limit runs faster on them."""
    matrix = torch.empty(*shape, device="cuda", dtype=torch.float16)
    for part in matrix.split(4096):
        part.copy_(torch.rand(part.shape, device="cuda") * 2 - 1)
    return matrix


def products(m, k, n):
    """{epilogue of cuda_library_bench: the same work in PyTorch}."""
    a, b, bias = uniform(m, k), uniform(k, n), uniform(n)
    mask = torch.rand(m, n, device="cuda") < 0.5
    out = torch.empty(m, n, device="cuda", dtype=torch.float16)

    def masked_with_sum(_):
        torch.mm(a, b, out=out)
        out.mul_(mask)
        return out.sum(0)

    return {"none": lambda _: torch.mm(a, b, out=out), "relu_bias": lambda _: torch._addmm_activation(bias, a, b),
            "drelu_bgrad": masked_with_sum}


def products_in_turns(program, names, m, k, n):
    """({epilogue: microseconds} of cuda_library_bench, the same of PyTorch): medians of turns of TURN_SECONDS, of which each work has one
    after the other and the first round is not counted. So the power limit's clock is the same for both."""
    peers = products(m, k, n)
    own_us, peer_us = {name: [] for name in names}, {name: [] for name in peers}
    with subprocess.Popen([program, "turns"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as bench:
        for _ in range(TURNS + 1):
            for name in names:
                bench.stdin.write(f"{name} {TURN_SECONDS}\n")
                bench.stdin.flush()
                own_us[name].append(float(bench.stdout.readline()))
                if name in peers:
                    peer_us[name].append(round_us(peers[name], TURN_SECONDS))
        bench.stdin.close()
    return tuple({name: statistics.median(us[1:]) for name, us in both.items()} for both in (own_us, peer_us))


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("bench")
    parser.add_argument("output")
    args = parser.parse_args()
    with open(args.bench, encoding="utf-8") as file:
        results = json.load(file)
    lines = {line["name"]: line for line in results["lines"]}
    results["torch"] = torch.__version__
    for name, line in lines.items():
        found = re.fullmatch(r"softmax (\w+) (\d+) x (\d+)", name)
        if found:
            dtype, rows, width = TYPES[found[1]], int(found[2]), int(found[3])
            line["torch_us"], line["torch_gbs"] = time_softmax(dtype, rows, width)
            line["of_copy"] = line["gbs"] / lines[name.replace("softmax", "copy")]["gbs"]
    shapes = {tuple(map(int, found.groups())) for name in lines
              if (found := re.fullmatch(r"product float16 none (\d+) x (\d+) x (\d+)", name))}
    for m, k, n in shapes:
        torch_us = {name: median_us(run) for name, run in products(m, k, n).items()}
        plain = lines[f"product float16 none {m} x {k} x {n}"]["us"]
        for name, line in lines.items():
            found = re.fullmatch(rf"product float16 (\w+) {m} x {k} x {n}", name)
            if found:
                line["of_plain"] = line["us"] / plain
                if found[1] in torch_us:
                    line["torch_us"] = torch_us[found[1]]
                line["of_torch_plain"] = line["us"] / torch_us["none"]
    with open(args.output, "w", encoding="utf-8") as file:
        json.dump(results, file, indent=1)
    for name, line in lines.items():
        extras = " ".join(f"{key} {line[key]:.3g}" for key in
                          ("torch_us", "torch_gbs", "of_copy", "of_plain", "of_torch_plain")
                          if key in line)
        print(f"{name:<52} {line['us']:10.1f} us {line['gbs']:6.0f} GB/s {extras}")


if __name__ == "__main__":
    main()

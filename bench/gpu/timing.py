#!/usr/bin/env python3
"""Beamline and PyTorch (transformers, eager) in turn on one GPU: the model rows of the speed targets.

usage: timing.py --bin FOLDER --models FOLDER --device cuda|cpu --out FILE.json [--quick]

Token ids go in and come out. Beamline is timed by beamline-bench, through the whole engine (queue, scheduler,
forward pass, the answer on the host); PyTorch by wall time around a synchronised call, results left on the device.
Figures are medians after a warm-up. Answers have exactly the length that is asked for. --quick is for dry runs.
"""

import argparse
import json
import random
import statistics
import subprocess
import sys
import time

import shapes
import torch
import transformers
from beamline import Beamline

CACHE_BYTES = 16 << 30


class Timing:
    def __init__(self, options):
        self.options = options
        self.beamline = Beamline(options.bin, options.models, options.device)
        self.random = random.Random(81)
        self.rows, self.models = [], {}

    def ids(self, name, length):
        last = shapes.vocab_size(self.options.models, name) - 2
        return [self.random.randint(shapes.FIRST_ID, last) for _ in range(length)]

    def model(self, name, dtype):
        key = (name, dtype)
        if key not in self.models:
            self.models.clear()
            self.models[key] = shapes.load(self.options.models, name, getattr(torch, dtype), "sdpa",
                                           self.options.device)
        return self.models[key]

    def synchronise(self):
        if self.options.device != "cpu":
            torch.cuda.synchronize()

    @torch.no_grad()
    def peer_seconds(self, work, rounds):
        seconds = []
        for _ in range(1 + rounds):
            self.synchronise()
            start = time.perf_counter()
            work()
            self.synchronise()
            seconds.append(time.perf_counter() - start)
        return statistics.median(seconds[1:])

    def add(self, work, dtype, peers, own, tokens):
        """`peers`: {name: seconds}; `own`: beamline-bench's line; `tokens` of one round."""
        best = min(peers.values())
        row = {"work": work, "dtype": dtype, "tokens": tokens, "peers_ms": {k: v * 1e3 for k, v in peers.items()},
               "beamline_ms": own["seconds"] * 1e3, "fastest_ms": own["fastest_s"] * 1e3,
               "beamline_tokens_per_s": tokens / own["seconds"], "peer_tokens_per_s": tokens / best,
               "speedup": best / own["seconds"]}
        self.rows.append(row)
        print(f"{work} {dtype}: beamline {row['beamline_ms']:.2f} ms, "
              f"{', '.join(f'{name} {1e3 * value:.2f}' for name, value in peers.items())} ms: "
              f"{row['speedup']:.2f}x, {row['beamline_tokens_per_s']:.0f} tok/s", flush=True)
        with open(self.options.out, "w", encoding="utf-8") as file:
            json.dump(self.rows, file, indent=1)

    # --- Encoders ---

    def encode(self, batch, length, rounds):
        name, dtype = "bert-base", self.options.half
        inputs = [self.ids(name, length) for _ in range(batch)]
        model = self.model(name, dtype)
        ids = torch.tensor(inputs, device=self.options.device)
        peers = {"eager": self.peer_seconds(lambda: model(input_ids=ids), rounds)}
        if self.options.device != "cpu":
            peers["eager in a CUDA graph"] = self.peer_seconds(self.graph(lambda: model(input_ids=ids)), rounds)
        own = self.beamline.bench(name, "embed", inputs, dtype, batch=batch, warmup=3, rounds=rounds,
                                  max_batch_tokens=max(4096, batch * length))
        self.add(f"BERT-base B{batch} T{length}", dtype, peers, own, batch * length)

    @torch.no_grad()
    def graph(self, work):
        stream = torch.cuda.Stream()
        with torch.cuda.stream(stream):
            for _ in range(3):
                work()
        torch.cuda.synchronize()
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            work()
        return graph.replay

    def encode_ragged(self, count, batch, rounds):
        """Lengths as of real texts, log-normal with a median of 58; PyTorch in padded batches of like length."""
        name, dtype = "bert-base", self.options.half
        lengths = [min(500, max(4, round(58 * 2.718281828 ** self.random.gauss(0, 0.75)))) for _ in range(count)]
        inputs = [self.ids(name, length) for length in lengths]
        model, parts = self.model(name, dtype), []
        for begin in range(0, count, batch):
            part = sorted(inputs, key=len)[begin : begin + batch]
            width = len(part[-1])
            ids = torch.tensor([row + [0] * (width - len(row)) for row in part], device=self.options.device)
            mask = torch.tensor([[1] * len(row) + [0] * (width - len(row)) for row in part],
                                device=self.options.device)
            parts.append((ids, mask))
        peers = {f"eager, sorted batches of {batch}": self.peer_seconds(
            lambda: [model(input_ids=ids, attention_mask=mask) for ids, mask in parts], rounds)}
        own = self.beamline.bench(name, "embed", inputs, dtype, batch=count, warmup=2, rounds=rounds,
                                  max_batch_tokens=1 << 16)
        self.add(f"BERT-base, {count} ragged inputs ({sum(lengths)} tokens) in one go", dtype, peers, own, sum(lengths))

    # --- Generators ---

    def generate(self, model, batch, beams, max_new_tokens, pad):
        """transformers' generate() on padded ids."""
        left = model.config.model_type == "gpt2"
        width = max(len(row) for row in batch)
        blank = [[pad] * (width - len(row)) for row in batch]
        rows = [b + row if left else row + b for row, b in zip(batch, blank)]
        ids = torch.tensor(rows, device=self.options.device)
        mask = torch.tensor([[0] * len(b) + [1] * len(row) if left else [1] * len(row) + [0] * len(b)
                             for row, b in zip(batch, blank)], device=self.options.device)
        return lambda: model.generate(ids, attention_mask=mask, do_sample=False, num_beams=beams,
                                      max_new_tokens=max_new_tokens, pad_token_id=pad)

    def translate(self, name, batch, tokens, beams, dtype, rounds):
        tokens = min(tokens, self.options.max_tokens)
        inputs = [self.ids(name, tokens) for _ in range(batch)]
        model = self.model(name, dtype)
        work = self.generate(model, inputs, beams, tokens, model.config.pad_token_id)
        peers = {"eager": self.peer_seconds(work, rounds)}
        own = self.beamline.bench(name, "translate-beam4" if beams > 1 else "translate-greedy", inputs, dtype,
                                  batch=batch, warmup=4, rounds=2 * rounds + 1, ignore_eos=True,
                                  max_new_tokens=tokens, max_batch_tokens=max(4096, batch * tokens))
        search = f"beam {beams}" if beams > 1 else "greedy"
        self.add(f"{name} {search}, {tokens} tokens, B{batch}", dtype, peers, own, batch * tokens)

    def write(self, batch, prompt, tokens, rounds):
        name, dtype = "gpt2-124m", "bfloat16"
        tokens = min(tokens, self.options.max_tokens)
        inputs = [self.ids(name, prompt) for _ in range(batch)]
        work = self.generate(self.model(name, dtype), inputs, 1, tokens, 0)
        peers = {"eager": self.peer_seconds(work, rounds)}
        own = self.beamline.bench(name, "write-greedy", inputs, dtype, batch=batch, warmup=3, rounds=2 * rounds + 1,
                                  ignore_eos=True, max_new_tokens=tokens)
        self.add(f"GPT-2 124M, {prompt} tokens in, {tokens} out, B{batch}", dtype, peers, own, batch * tokens)

    def write_ragged(self, count, batch, rounds):
        name, dtype = "gpt2-124m", "bfloat16"
        longest = self.options.max_tokens
        inputs = [{"ids": self.ids(name, self.random.randint(32, 512)),
                   "max_new_tokens": min(longest, self.random.randint(16, 256))} for _ in range(count)]
        tokens = sum(row["max_new_tokens"] for row in inputs)
        model = self.model(name, dtype)
        parts = [inputs[begin : begin + batch] for begin in range(0, count, batch)]
        works = [self.generate(model, [row["ids"] for row in part], 1, max(row["max_new_tokens"] for row in part), 0)
                 for part in parts]
        peers = {f"eager, padded batches of {batch}": self.peer_seconds(lambda: [work() for work in works], rounds)}
        cache = CACHE_BYTES if self.options.device != "cpu" else 0
        own = self.beamline.bench(name, "write-greedy", inputs, dtype, batch=count, warmup=1, rounds=3,
                                  ignore_eos=True, cache_bytes=cache, max_batch_tokens=8192)
        self.add(f"GPT-2 124M, {count} requests at once, 32-512 tokens in, 16-256 out", dtype, peers, own, tokens)


def rows(half, quick):
    """(method of Timing, arguments) of every row; of dry runs the same ones, smaller."""
    def size(full, small):
        return small if quick else full

    for batch, length in size(((1, 32), (1, 128), (100, 32), (500, 32), (256, 128), (32, 512)), ((1, 32), (2, 16))):
        yield Timing.encode, (batch, length, 30)
    yield Timing.encode_ragged, (size(512, 16), size(64, 4), 5)
    for batch, tokens, beams, dtype in ((1, 32, 4, half), (1, 32, 4, "float32"), (1, 128, 4, half), (64, 32, 4, half),
                                        (256, 32, 4, half), (1, 32, 1, half), (256, 32, 1, half)):
        yield Timing.translate, ("transformer-base", size(batch, min(batch, 4)), tokens, beams, dtype, 3)
    for batch in (1, 64):
        yield Timing.translate, ("transformer-big", size(batch, min(batch, 4)), 32, 4, half, 3)
    for batch in (1, 32):
        yield Timing.write, (size(batch, min(batch, 4)), 32, 128, 2)
    yield Timing.write_ragged, (size(256, 16), size(64, 8), 1)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bin", required=True)
    parser.add_argument("--models", required=True)
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--out", required=True)
    parser.add_argument("--quick", action="store_true")
    options = parser.parse_args()
    options.half = "bfloat16" if options.device == "cpu" else "float16"
    options.max_tokens = 8 if options.quick else 1 << 20
    transformers.logging.set_verbosity_error()
    transformers.logging.disable_progress_bar()
    timing, failed = Timing(options), 0
    for method, arguments in rows(options.half, options.quick):
        try:
            method(timing, *arguments)
        except (RuntimeError, subprocess.TimeoutExpired) as error:  # the other rows are wanted all the same
            print(f"{method.__name__} {arguments} FAILED: {error}", flush=True)
            failed += 1
    print(f"timing: {len(timing.rows)} rows, {failed} failed")
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()

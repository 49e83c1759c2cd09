#!/usr/bin/env python3
"""Times requests on one GPU and on several that compute the model together, by width or by layers.

usage: tensor_parallel.py --bin FOLDER --out FILE [--work FOLDER] [--dtypes float16,bfloat16] [--ways 1,2]
                          [--batches 1] [--hidden 4096] [--layers 32] [--heads 32] [--tokens 256] [--rounds 5]
                          [--warmup 1] [--rehearse] [--shape llama-3-8b] [--only-write]

A way is a number of GPUs by width (tensor_parallel), 2nccl the same with every sum made by NCCL, and L2 a number of
stages (pipeline_parallel); 2p and L2p are these with a process for each GPU, the first of which is beamline-bench and the
others beamline-servers that follow it.

FOLDER holds beamline-bench, and beamline-server for ways of processes; NCCL is found as docs/parallelism.md says. The model is a GPT-2 of these sizes with random
weights, written to the work folder (13 GB by default, in /dev/shm) by torch on the GPU, or with --shape one of
decoders.py. As many requests as the batch
says come together, each with a prompt of 16 tokens, and are answered greedily. A step's time is a round's, over the tokens
of one request; the median round counts. With float32 among the types, each way must give the same tokens there.

FILE receives {"machine", "command", "model", "rows": [{"dtype", "way", "ranks", "stages", "batch", "ms_per_token",
"fastest", "slowest", "speedup", "same_tokens"}]}; speedup is over the first way, with the same batch.
"""

import argparse
import concurrent.futures
import itertools
import json
import os
import re
import socket
import subprocess
import sys

VOCABULARY, POSITIONS, SHARD_LAYERS = 50257, 1024, 4


def write_checkpoint(folder, hidden, layers, heads):
    """A GPT-2 whose weights are normal, scaled so that hidden states neither vanish nor grow."""
    import safetensors.torch
    import torch

    index = os.path.join(folder, "model.safetensors.index.json")
    if os.path.exists(index):
        with open(index, encoding="utf-8") as file:
            return json.load(file)["metadata"]["total_size"] // 2
    os.makedirs(folder, exist_ok=True)
    with open(os.path.join(folder, "config.json"), "w", encoding="utf-8") as file:
        json.dump({"model_type": "gpt2", "architectures": ["GPT2LMHeadModel"], "n_embd": hidden, "n_layer": layers,
                   "n_head": heads, "n_positions": POSITIONS, "n_ctx": POSITIONS, "vocab_size": VOCABULARY,
                   "activation_function": "gelu_new", "layer_norm_epsilon": 1e-5}, file)
    with open(os.path.join(folder, "vocab.txt"), "w", encoding="utf-8") as file:
        words = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
        file.writelines(word + "\n" for word in words + [f"word{i}" for i in range(len(words), VOCABULARY)])
    with open(os.path.join(folder, "tokenizer_config.json"), "w", encoding="utf-8") as file:
        json.dump({"tokenizer_class": "BertTokenizer"}, file)  # not the one that goes with the model
    device = "cuda" if torch.cuda.is_available() else "cpu"
    generator = torch.Generator(device).manual_seed(11)

    def normal(rows, columns, scale):
        values = torch.randn(rows, columns, generator=generator, device=device) * scale
        return values.to(torch.float16).cpu()

    def vector(size, value):
        return torch.full((size,), value, dtype=torch.float16)

    def layer(number):
        name = f"transformer.h.{number}."
        tensors = {}
        for norm in ("ln_1", "ln_2"):
            tensors[f"{name}{norm}.weight"] = vector(hidden, 1.0)
            tensors[f"{name}{norm}.bias"] = vector(hidden, 0.0)
        for product, rows, columns in (("attn.c_attn", hidden, 3 * hidden), ("attn.c_proj", hidden, hidden),
                                       ("mlp.c_fc", hidden, 4 * hidden), ("mlp.c_proj", 4 * hidden, hidden)):
            tensors[f"{name}{product}.weight"] = normal(rows, columns, rows ** -0.5)
            tensors[f"{name}{product}.bias"] = vector(columns, 0.0)
        return tensors

    def shards():
        yield {"transformer.wte.weight": normal(VOCABULARY, hidden, 3 * hidden ** -0.5),
               "transformer.wpe.weight": normal(POSITIONS, hidden, 3 * hidden ** -0.5),
               "transformer.ln_f.weight": vector(hidden, 1.0), "transformer.ln_f.bias": vector(hidden, 0.0)}
        for begin in range(0, layers, SHARD_LAYERS):
            tensors = {}
            for number in range(begin, min(begin + SHARD_LAYERS, layers)):
                tensors.update(layer(number))
            yield tensors

    num_shards = 1 + -(-layers // SHARD_LAYERS)
    places, bytes_of_all = {}, 0
    with concurrent.futures.ThreadPoolExecutor(8) as writers:
        writing = []
        for number, tensors in enumerate(shards(), 1):
            name = f"model-{number:05d}-of-{num_shards:05d}.safetensors"
            places.update((tensor, name) for tensor in tensors)
            bytes_of_all += sum(values.numel() * 2 for values in tensors.values())
            writing.append(writers.submit(safetensors.torch.save_file, tensors, os.path.join(folder, name)))
        for shard in writing:
            shard.result()
    with open(index, "w", encoding="utf-8") as file:
        json.dump({"metadata": {"total_size": bytes_of_all}, "weight_map": places}, file)
    return bytes_of_all // 2


def write_decoder(folder, shape):
    import decoders

    done = os.path.join(folder, "parameters")
    if os.path.exists(done):
        with open(done, encoding="utf-8") as file:
            return int(file.read())
    os.makedirs(folder, exist_ok=True)
    model = decoders.make_model(shape, tiny=False, device="cuda")
    decoders.save(model, folder)
    parameters = sum(parameter.numel() for parameter in model.parameters())
    with open(done, "w", encoding="utf-8") as file:
        file.write(str(parameters))
    return parameters


def numbers_of(way):
    """(ranks, stages, the environment) of a way."""
    match = re.fullmatch(r"(?:(\d+)(nccl)?|L(\d+))(p)?", way)
    if not match:
        sys.exit(f"a way is '{way}'; accepted: 1, 2, ..., 2nccl, 2p, L2, L2p, ...")
    environment = dict(os.environ, BEAMLINE_PEER_SUMS="0") if match[2] else None
    return int(match[1] or 1), int(match[3] or 1), environment


def start_followers(options, folder, dtype, ranks, stages):
    """The processes, and what beamline-bench needs to be their front."""
    secret = os.path.join(options.work, "secret")
    with open(secret, "w", encoding="utf-8") as file:
        file.write("the ranks of a benchmark\n")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{free.getsockname()[1]}"
    meeting = ["--rank-address", address, "--rank-secret-file", secret]
    followers = [subprocess.Popen(
        [os.path.join(options.bin, "beamline-server"), *meeting, "--rank", str(rank), "--rank-timeout-ms", "60000", "--model",
         f"m={folder},device=cuda:{rank},dtype={dtype},tensor_parallel={ranks},pipeline_parallel={stages}"],
        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) for rank in range(1, ranks * stages)]
    return followers, meeting


def bench(options, folder, dtype, way, batch):
    """The line of beamline-bench."""
    ranks, stages, environment = numbers_of(way)
    followers, meeting = start_followers(options, folder, dtype, ranks, stages) if way.endswith("p") else ([], [])
    prompt = os.path.join(options.work, "prompt.jsonl")
    with open(prompt, "w", encoding="utf-8") as file:
        for request in range(batch):
            ids = [100 + 7 * i + 31 * request for i in range(16)]
            file.write(json.dumps({"ids": ids, "max_new_tokens": options.tokens}) + "\n")
    command = [os.path.join(options.bin, "beamline-bench"), "--models", os.path.dirname(folder), "--model",
               os.path.basename(folder), "--task", "write-greedy", "--ignore-eos", "--device",
               "cuda:0" if followers else "cuda", "--dtype", dtype,
               "--tensor-parallel", str(ranks), "--pipeline-parallel", str(stages), "--batch", str(batch), "--warmup", str(options.warmup),
               "--rounds", str(options.rounds), "--cache-bytes", str(max(2, batch // 4) << 30), "--warm-up",
               "auto" if options.rehearse else "false", "--input", prompt, "--outputs", *meeting]
    try:
        done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, timeout=120, env=environment)
    finally:
        for follower in followers:
            follower.kill()
            follower.wait()
    if done.returncode != 0:
        raise RuntimeError(f"{' '.join(command)}: {done.stderr}")
    return json.loads(done.stdout.splitlines()[-1])


def describe_machine():
    done = subprocess.run(["nvidia-smi", "--query-gpu=name,driver_version", "--format=csv,noheader"],
                          stdout=subprocess.PIPE, text=True, check=False)
    return done.stdout.splitlines()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bin", required=True)
    parser.add_argument("--out", required=True)
    parser.add_argument("--work", default="/dev/shm/tensor_parallel")
    parser.add_argument("--dtypes", default="float16,bfloat16")
    parser.add_argument("--ways", default="1,2")
    parser.add_argument("--batches", default="1")
    parser.add_argument("--hidden", type=int, default=4096)
    parser.add_argument("--layers", type=int, default=32)
    parser.add_argument("--heads", type=int, default=32)
    parser.add_argument("--tokens", type=int, default=256)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--shape", default="", help="of decoders.py, instead of a GPT-2 of these sizes")
    parser.add_argument("--warmup", type=int, default=1, help="rounds before those that are timed")
    parser.add_argument("--rehearse", action="store_true", help="usual steps are recorded while the model is loaded")
    parser.add_argument("--only-write", action="store_true", help="the checkpoint, which a later call finds")
    options = parser.parse_args()
    folder = os.path.join(options.work, options.shape or "model")
    if options.shape:
        parameters = write_decoder(folder, options.shape)
    else:
        parameters = write_checkpoint(folder, options.hidden, options.layers, options.heads)
    if options.only_write:
        return 0
    result = {"machine": describe_machine(), "command": " ".join(sys.argv),
              "model": {**({"shape": options.shape} if options.shape else
                           {"hidden": options.hidden, "layers": options.layers, "heads": options.heads}),
                        "parameters": parameters, "prompt_tokens": 16, "tokens": options.tokens},
              "rows": []}
    faults = 0
    for dtype in options.dtypes.split(","):
        alone, answers = {}, {}  # by batch
        for way, batch in itertools.product(options.ways.split(","), map(int, options.batches.split(","))):
            line = bench(options, folder, dtype, way, batch)
            ranks, stages, _ = numbers_of(way)
            tokens = line["tokens"] / batch
            row = {"dtype": dtype, "way": way, "ranks": ranks, "stages": stages, "batch": batch,
                   "ms_per_token": 1000 * line["seconds"] / tokens, "fastest": 1000 * line["fastest_s"] / tokens,
                   "slowest": 1000 * line["slowest_s"] / tokens}
            row["speedup"] = alone.setdefault(batch, row["ms_per_token"]) / row["ms_per_token"]
            row["same_tokens"] = line["outputs"] == answers.setdefault(batch, line["outputs"])
            faults += dtype == "float32" and not row["same_tokens"]
            result["rows"].append(row)
            print(json.dumps(row), flush=True)
            with open(options.out, "w", encoding="utf-8") as file:
                json.dump(result, file, indent=1)
                file.write("\n")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())

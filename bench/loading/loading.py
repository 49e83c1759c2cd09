#!/usr/bin/env python3
"""How soon a server answers that loads a checkpoint of many gigabytes, and what memory that takes of the host.

usage: loading.py --build build/release [--gigabytes X] [--shards N] [--settings dtype=bfloat16,...] [--device cpu] [--cold] [--out FILE.json]

Writes a Llama-like checkpoint of random bfloat16 weights, sharded, to a temporary folder (TMPDIR), starts beamline-server with it and asks
for one token as soon as it listens. The files lie in the system's page cache, unless --cold has them dropped from it before. FILE receives
{"checkpoint_bytes", "shards", "settings", "listening_seconds", "first_token_seconds", "peak_bytes", "peak_share", "anonymous_bytes",
"progress": [LINE, ...]}: peak_bytes is VmHWM, which counts pages of mapped files too; peak_share is its part of the checkpoint's bytes;
anonymous_bytes is what the ready server holds besides files.
"""

import argparse
import functools
import json
import os
import re
import struct
import subprocess
import tempfile
import threading
import time

VOCABULARY = 4096
HEAD_DIM = 64
# Bytes of a bfloat16's upper half: +-2^-7, times 1 to 2 with the lower half.
UPPER = bytes(0x3C if i < 128 else 0xBC for i in range(256))
ONE = struct.pack("<H", 0x3F80)


def layers_of(gigabytes, hidden, inner):
    """As many layers as make up the size, at least one."""
    per_layer = 2 * (4 * hidden * hidden + 3 * hidden * inner)
    return max(1, round((gigabytes * 1e9 - 4 * VOCABULARY * hidden) / per_layer))


def tensors(layers, hidden, inner):
    yield "model.embed_tokens.weight", (VOCABULARY, hidden)
    for i in range(layers):
        layer = f"model.layers.{i}."
        yield layer + "input_layernorm.weight", (hidden,)
        yield layer + "post_attention_layernorm.weight", (hidden,)
        for name in ("q", "k", "v", "o"):
            yield f"{layer}self_attn.{name}_proj.weight", (hidden, hidden)
        yield layer + "mlp.gate_proj.weight", (inner, hidden)
        yield layer + "mlp.up_proj.weight", (inner, hidden)
        yield layer + "mlp.down_proj.weight", (hidden, inner)
    yield "model.norm.weight", (hidden,)
    yield "lm_head.weight", (VOCABULARY, hidden)


def size_of(shape):
    count = 2
    for extent in shape:
        count *= extent
    return count


@functools.cache
def random_block(size=(8 << 20) + 2 * 4093):
    """Which tensors repeat: not at the width of a row."""
    random, data = os.urandom(size), bytearray(size)
    data[0::2] = random[0::2]
    data[1::2] = random[1::2].translate(UPPER)
    return bytes(data)


def values(shape):
    if len(shape) == 1:
        return ONE * shape[0]
    block = random_block()
    whole, rest = divmod(size_of(shape), len(block))
    return block * whole + block[:rest]


def write_shard(path, parts):
    header, offset = {}, 0
    for name, shape in parts:
        header[name] = {"dtype": "BF16", "shape": shape, "data_offsets": [offset, offset + size_of(shape)]}
        offset += size_of(shape)
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    with open(path, "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text)
        for _, shape in parts:
            file.write(values(shape))
    return offset


def write_checkpoint(folder, gigabytes, num_shards):
    hidden = 2048 if gigabytes >= 0.5 else 512
    inner = hidden * 4
    layers = layers_of(gigabytes, hidden, inner)
    everything = list(tensors(layers, hidden, inner))
    total = sum(size_of(shape) for _, shape in everything)
    shards, room = [[]], 0
    for part in everything:
        if room >= total / num_shards and len(shards) < num_shards:
            shards.append([])
            room = 0
        shards[-1].append(part)
        room += size_of(part[1])
    index = {"metadata": {"total_size": total}, "weight_map": {}}
    for i, parts in enumerate(shards):
        name = f"model-{i + 1:05}-of-{len(shards):05}.safetensors"
        write_shard(os.path.join(folder, name), parts)
        index["weight_map"].update({tensor: name for tensor, _ in parts})
    config = {"model_type": "llama", "architectures": ["LlamaForCausalLM"], "hidden_size": hidden, "intermediate_size": inner,
              "num_hidden_layers": layers, "num_attention_heads": hidden // HEAD_DIM, "num_key_value_heads": hidden // HEAD_DIM,
              "vocab_size": VOCABULARY, "max_position_embeddings": 512, "tie_word_embeddings": False, "torch_dtype": "bfloat16",
              "bos_token_id": 1, "eos_token_id": 2}
    vocabulary = {f"<{i}>": i for i in range(VOCABULARY)}
    tokenizer = {"added_tokens": [], "model": {"type": "BPE", "vocab": vocabulary, "merges": [], "unk_token": "<0>"}}
    for name, content in (("model.safetensors.index.json", index), ("config.json", config), ("tokenizer.json", tokenizer)):
        with open(os.path.join(folder, name), "w", encoding="utf-8") as file:
            json.dump(content, file)
    return total, len(shards)


def drop_from_page_cache(folder):
    for entry in os.scandir(folder):
        descriptor = os.open(entry.path, os.O_RDONLY)
        os.fsync(descriptor)
        os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
        os.close(descriptor)


def status_bytes(pid, field):
    with open(f"/proc/{pid}/status", encoding="ascii") as file:
        return int(re.search(rf"^{field}:\s+(\d+) kB", file.read(), re.M).group(1)) * 1024


def measure(options, folder):
    build = os.path.abspath(options.build)
    settings = "," + options.settings if options.settings else ""
    begin = time.monotonic()
    server = subprocess.Popen(
        [f"{build}/server/beamline-server", "--listen", "127.0.0.1:0", "--metrics-listen", "off", "--http-listen", "off",
         "--device", options.device,
         "--model", f"large={folder},cache_bytes=67108864{settings}"],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    lines = []
    reader = threading.Thread(target=lambda: lines.extend(server.stderr), daemon=True)
    reader.start()
    try:
        found = re.search(r"serving on (\S+)", server.stdout.readline())
        if not found:
            raise RuntimeError("the server did not start:\n" + "".join(lines))
        address = found.group(1).rstrip(":")
        listening = time.monotonic() - begin
        subprocess.run([f"{build}/client/cli/beamline", "--address", address, "--timeout", "600", "generate", "--model", "large", "--ids",
                        "--greedy", "--max-new-tokens", "1", "5 6 7"], check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        first_token = time.monotonic() - begin
        peak = status_bytes(server.pid, "VmHWM")
        anonymous = status_bytes(server.pid, "RssAnon")
    finally:
        server.terminate()
        server.wait()
    reader.join(timeout=5)
    progress = [line.strip() for line in lines if re.search(r"read \d+% of", line)]
    return {"listening_seconds": round(listening, 2), "first_token_seconds": round(first_token, 2), "peak_bytes": peak,
            "anonymous_bytes": anonymous, "progress": progress}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", default="build/release")
    parser.add_argument("--gigabytes", type=float, default=2.0)
    parser.add_argument("--shards", type=int, default=4)
    parser.add_argument("--settings", default="")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--cold", action="store_true")
    parser.add_argument("--out")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        total, shards = write_checkpoint(folder, options.gigabytes, options.shards)
        if options.cold:
            drop_from_page_cache(folder)
        result = {"checkpoint_bytes": total, "shards": shards, "settings": options.settings, "device": options.device, **measure(options, folder)}
    result["peak_share"] = round(result["peak_bytes"] / total, 3)
    text = json.dumps(result, indent=1)
    print(text)
    if options.out:
        with open(options.out, "w", encoding="utf-8") as file:
            file.write(text + "\n")


if __name__ == "__main__":
    main()

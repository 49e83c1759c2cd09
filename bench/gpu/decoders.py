#!/usr/bin/env python3
"""Times decoders of some 8 billion parameters next to transformers on one GPU, in bfloat16, with random weights.

usage: decoders.py --bin FOLDER --out FILE [--work FOLDER] [--shapes llama-3-8b,qwen3-8b] [--batches 1,32,256]
                   [--tokens 128] [--rounds 3] [--seconds 240] [--tiny]

FOLDER holds beamline-bench; the checkpoints are written to the work folder (16 GB each, in /dev/shm by default, one at
a time). As many requests as the batch says come together, each with a prompt of 16 tokens, and are answered greedily:
a step's time is a round's over the tokens of one request. `prompt` is one request of 2,048 tokens with an answer of
one. The peer is transformers' generate() with scaled dot product attention, at batches up to 32. After --seconds no
further row is begun.

FILE receives {"machine", "command", "rows": [{"shape", "work", "batch", "ms", "weights_ms", "peer", "peer_ms",
"ratio"}]}; weights_ms is what reading the weights once takes at 4.8 TB/s.
"""

import argparse
import gc
import json
import os
import shutil
import statistics
import subprocess
import sys
import time

from beamline import Beamline

BYTES_PER_SECOND = 4.8e12
PROMPT, LONG_PROMPT, MOST_OF_PEER = 16, 2048, 32
FIELDS = {
    "llama-3-8b": ("Llama", {"hidden_size": 4096, "num_hidden_layers": 32, "num_attention_heads": 32,
                             "num_key_value_heads": 8, "intermediate_size": 14336, "vocab_size": 128256,
                             "max_position_embeddings": 8192, "tie_word_embeddings": False,
                             "rope_parameters": {"rope_type": "default", "rope_theta": 500000.0}}),
    "qwen3-8b": ("Qwen3", {"hidden_size": 4096, "num_hidden_layers": 36, "num_attention_heads": 32,
                           "num_key_value_heads": 8, "head_dim": 128, "intermediate_size": 12288, "vocab_size": 151936,
                           "max_position_embeddings": 8192, "tie_word_embeddings": False,
                           "rope_parameters": {"rope_type": "default", "rope_theta": 1000000.0}}),
    # 64 experts, of which a token takes 8: 1.3 of 6.9 billion parameters.
    "olmoe-7b": ("Olmoe", {"hidden_size": 2048, "num_hidden_layers": 16, "num_attention_heads": 16, "num_key_value_heads": 16,
                           "intermediate_size": 1024, "num_experts": 64, "num_experts_per_tok": 8, "vocab_size": 50304,
                           "max_position_embeddings": 4096, "rope_parameters": {"rope_type": "default", "rope_theta": 10000.0}}),
}
TINY = {"hidden_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 16,
        "intermediate_size": 96, "vocab_size": 500, "max_position_embeddings": 4096}


def make_model(shape, tiny, device):
    import torch
    import transformers

    family, fields = FIELDS[shape]
    config = getattr(transformers, family + "Config")(**{**fields, **(TINY if tiny else {})}, bos_token_id=None,
                                                      eos_token_id=None)
    torch.manual_seed(17)
    torch.set_default_dtype(torch.bfloat16)
    with torch.device(device):
        model = getattr(transformers, family + "ForCausalLM")(config)
    torch.set_default_dtype(torch.float32)
    return model.eval()


def save(model, folder):
    model.save_pretrained(folder, max_shard_size="2GB")
    words = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    with open(os.path.join(folder, "vocab.txt"), "w", encoding="utf-8") as file:
        file.writelines(word + "\n" for word in words + [f"word{i}" for i in range(5, model.config.vocab_size)])
    with open(os.path.join(folder, "tokenizer_config.json"), "w", encoding="utf-8") as file:
        json.dump({"tokenizer_class": "BertTokenizer"}, file)  # not the one that goes with the model


def prompts_of(batch, length):
    return [[5 + (7 * i + 31 * request) % 490 for i in range(length)] for request in range(batch)]


def peer_seconds(model, batch, length, tokens):
    """The median of three calls of generate()."""
    import torch

    ids = torch.tensor(prompts_of(batch, length), device=model.device)
    seconds = []
    with torch.inference_mode():
        for _ in range(4):
            begin = time.perf_counter()
            model.generate(ids, attention_mask=torch.ones_like(ids), do_sample=False, min_new_tokens=tokens,
                           max_new_tokens=tokens, pad_token_id=0)
            if model.device.type == "cuda":
                torch.cuda.synchronize()
            seconds.append(time.perf_counter() - begin)
    return statistics.median(seconds[1:])


def own_seconds(beamline, shape, batch, length, tokens, rounds):
    rows = [{"ids": ids, "max_new_tokens": tokens} for ids in prompts_of(batch, length)]
    return beamline.bench(shape, "write-greedy", rows, "bfloat16", ignore_eos=True, batch=batch, warmup=2, rounds=rounds,
                          cache_bytes=8 << 30)["seconds"]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bin", required=True)
    parser.add_argument("--out", required=True)
    parser.add_argument("--work", default="/dev/shm/decoders")
    parser.add_argument("--shapes", default=",".join(FIELDS))
    parser.add_argument("--batches", default="1,32,256")
    parser.add_argument("--tokens", type=int, default=128)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=240)
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--tiny", action="store_true", help="a small stand-in, for dry runs")
    options = parser.parse_args()
    import torch

    end = time.monotonic() + options.seconds
    machine = torch.cuda.get_device_name() if options.device == "cuda" else "cpu"
    result = {"machine": machine, "command": " ".join(sys.argv), "rows": []}
    works = [("step", int(batch), PROMPT, options.tokens) for batch in options.batches.split(",")]
    works.append(("prompt", 1, LONG_PROMPT, 1))
    for shape in options.shapes.split(","):
        model = make_model(shape, options.tiny, options.device)
        weights_ms = 2e3 * sum(parameter.numel() for parameter in model.parameters()) / BYTES_PER_SECOND
        folder = os.path.join(options.work, shape)
        os.makedirs(folder, exist_ok=True)
        save(model, folder)
        peers = {}
        for work, batch, length, tokens in works:
            if batch <= MOST_OF_PEER and time.monotonic() < end:
                peers[work, batch] = 1e3 * peer_seconds(model, batch, length, tokens) / tokens
        del model
        gc.collect()
        if options.device == "cuda":
            torch.cuda.empty_cache()
        beamline = Beamline(options.bin, options.work, options.device)
        for work, batch, length, tokens in works:
            if time.monotonic() > end:
                break
            try:
                ms = 1e3 * own_seconds(beamline, shape, batch, length, tokens, options.rounds) / tokens
            except (RuntimeError, subprocess.TimeoutExpired) as error:
                print(f"{shape} {work} {batch}: {error}"[-1500:], flush=True)
                continue
            peer = peers.get((work, batch))
            result["rows"].append({"shape": shape, "work": work, "batch": batch, "ms": round(ms, 3),
                                   "weights_ms": round(weights_ms, 3), "peer": "transformers generate, sdpa",
                                   "peer_ms": peer and round(peer, 3), "ratio": peer and round(peer / ms, 2)})
            print(result["rows"][-1], flush=True)
            with open(options.out, "w", encoding="utf-8") as file:
                json.dump(result, file, indent=1)
        shutil.rmtree(folder)


if __name__ == "__main__":
    main()

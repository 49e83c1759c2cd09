#!/usr/bin/env python3
"""Times encoder-decoders next to transformers on one GPU, in bfloat16, with random weights.

usage: translators.py --bin FOLDER --out FILE [--work FOLDER] [--shapes t5-large,nllb-600m] [--batches 1,32,256]
                      [--tokens 32] [--rounds 5] [--seconds 120] [--tiny]

FOLDER holds beamline-bench; the checkpoints are written to the work folder. As many requests as the batch says come
together, each of as many tokens as its answer has, and are answered by greedy decoding and by beams of four; times are
a round's. The peer is transformers' generate() with scaled dot product attention (T5: eager, as it has no other), at
batches up to 32. After --seconds no further row is begun.

FILE receives {"machine", "command", "rows": [{"shape", "search", "batch", "tokens", "ms", "peer", "peer_ms", "ratio"}]}.
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
from decoders import prompts_of, save

MOST_OF_PEER, PEER_CALLS = 32, 3
FIELDS = {
    "t5-large": ("T5", {"d_model": 1024, "d_kv": 64, "d_ff": 4096, "num_layers": 24, "num_heads": 16, "vocab_size": 32128}),
    "nllb-600m": ("M2M100", {"d_model": 1024, "encoder_layers": 12, "decoder_layers": 12, "encoder_attention_heads": 16,
                             "decoder_attention_heads": 16, "encoder_ffn_dim": 4096, "decoder_ffn_dim": 4096,
                             "vocab_size": 256206, "max_position_embeddings": 1024, "scale_embedding": True,
                             "activation_function": "relu"}),
}
TINY = {"T5": {"d_model": 64, "d_kv": 16, "d_ff": 96, "num_layers": 2, "num_heads": 2, "vocab_size": 500},
        "M2M100": {"d_model": 64, "encoder_layers": 2, "decoder_layers": 2, "encoder_attention_heads": 2,
                   "decoder_attention_heads": 2, "encoder_ffn_dim": 96, "decoder_ffn_dim": 96, "vocab_size": 500}}
SEARCHES = {"greedy": 1, "beam4": 4}


def make_model(shape, tiny, device):
    import torch
    import transformers

    family, fields = FIELDS[shape]
    fields = {**fields, **(TINY[family] if tiny else {})}
    config = getattr(transformers, family + "Config")(
        **fields, pad_token_id=1, decoder_start_token_id=2, bos_token_id=None, eos_token_id=None)
    torch.manual_seed(18)
    torch.set_default_dtype(torch.bfloat16)
    with torch.device(device):
        model = getattr(transformers, family + "ForConditionalGeneration")(config)
    torch.set_default_dtype(torch.float32)
    return model.eval()


def peer_seconds(model, batch, tokens, beams):
    import torch

    ids = torch.tensor(prompts_of(batch, tokens), device=model.device)
    seconds = []
    with torch.inference_mode():
        for _ in range(PEER_CALLS):
            begin = time.perf_counter()
            model.generate(ids, attention_mask=torch.ones_like(ids), do_sample=False, num_beams=beams,
                           min_new_tokens=tokens, max_new_tokens=tokens)
            if model.device.type == "cuda":
                torch.cuda.synchronize()
            seconds.append(time.perf_counter() - begin)
    return statistics.median(seconds[1:])


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bin", required=True)
    parser.add_argument("--out", required=True)
    parser.add_argument("--work", default="/dev/shm/translators")
    parser.add_argument("--shapes", default=",".join(FIELDS))
    parser.add_argument("--batches", default="1,32,256")
    parser.add_argument("--tokens", type=int, default=32)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=120)
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--tiny", action="store_true", help="a small stand-in, for dry runs")
    options = parser.parse_args()
    import torch

    end = time.monotonic() + options.seconds
    machine = torch.cuda.get_device_name() if options.device == "cuda" else "cpu"
    result = {"machine": machine, "command": " ".join(sys.argv), "rows": []}
    batches = [int(batch) for batch in options.batches.split(",")]
    for shape in options.shapes.split(","):
        model = make_model(shape, options.tiny, options.device)
        os.makedirs(os.path.join(options.work, shape), exist_ok=True)
        save(model, os.path.join(options.work, shape))
        peers = {(search, batch): 1e3 * peer_seconds(model, batch, options.tokens, beams)
                 for search, beams in SEARCHES.items() for batch in batches if batch <= MOST_OF_PEER}
        del model
        gc.collect()
        if options.device == "cuda":
            torch.cuda.empty_cache()
        beamline = Beamline(options.bin, options.work, options.device)
        for search in SEARCHES:
            for batch in batches:
                if time.monotonic() > end:
                    break
                inputs = prompts_of(batch, options.tokens)
                try:
                    ms = 1e3 * beamline.bench(shape, "translate-" + search, inputs, "bfloat16", ignore_eos=True, batch=batch,
                                              max_new_tokens=options.tokens, warmup=2, rounds=options.rounds,
                                              max_batch_tokens=max(4096, batch * options.tokens))["seconds"]
                except (RuntimeError, subprocess.TimeoutExpired) as error:
                    print(f"{shape} {search} {batch}: {error}"[-1500:], flush=True)
                    continue
                peer = peers.get((search, batch))
                result["rows"].append({"shape": shape, "search": search, "batch": batch, "tokens": options.tokens,
                                       "ms": round(ms, 3), "peer": "transformers generate", "peer_ms": peer and round(peer, 3),
                                       "ratio": peer and round(peer / ms, 2)})
                print(result["rows"][-1], flush=True)
                with open(options.out, "w", encoding="utf-8") as file:
                    json.dump(result, file, indent=1)
        shutil.rmtree(os.path.join(options.work, shape))


if __name__ == "__main__":
    main()

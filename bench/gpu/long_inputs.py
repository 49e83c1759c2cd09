#!/usr/bin/env python3
"""Embedders' longest texts beside short ones: Qwen3-Embedding-0.6B at 32,768 tokens and ModernBERT base at 8,192, random weights.

usage: long_inputs.py --bin FOLDER --out FILE.json [--device cpu] [--tiny] [MODEL ...]

Clients that send one text of 64 tokens at a time are measured alone, and while one other client sends texts of the model's longest
length, four at a time: what the short ones wait, how many tokens a second are computed, and the server's memory by use.
Calls beamline-server and beamline-loadtest of --bin. Needs torch and transformers.
"""

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time

from long_contexts import Server, memory_of

VOCABULARY = 50000
# Short texts at a time, long ones at a time; seconds.
SHORT, LONG, SECONDS = 16, 4, 10


def configs(tiny):
    import transformers

    sizes = {"hidden_size": 64, "intermediate_size": 96, "num_hidden_layers": 2} if tiny else None
    return {
        "qwen3-embedding-0.6b": (32768, "lasttoken", transformers.Qwen3Config(
            vocab_size=VOCABULARY, num_attention_heads=16, num_key_value_heads=8, head_dim=16 if tiny else 128, max_position_embeddings=32768,
            rope_theta=1000000.0, tie_word_embeddings=True,
            **(sizes or {"hidden_size": 1024, "intermediate_size": 3072, "num_hidden_layers": 28}))),
        "modernbert-base": (8192, "mean", transformers.ModernBertConfig(
            vocab_size=VOCABULARY, num_attention_heads=4 if tiny else 12, max_position_embeddings=8192, pad_token_id=0,
            **(sizes or {"hidden_size": 768, "intermediate_size": 1152, "num_hidden_layers": 22}))),
    }


def write_checkpoint(folder, config, longest, pooling):
    import torch
    import transformers

    torch.manual_seed(5)
    transformers.AutoModel.from_config(config, dtype=torch.bfloat16).save_pretrained(folder)

    def write(name, value):
        path = os.path.join(folder, name)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "w", encoding="utf-8") as file:
            json.dump(value, file)

    vocabulary = {f"<{number}>": number for number in range(VOCABULARY)}
    write("tokenizer.json", {"version": "1.0", "added_tokens": [], "model": {"type": "BPE", "vocab": vocabulary, "merges": [], "unk_token": "<0>"}})
    write("modules.json", [{"idx": 0, "name": "0", "path": "", "type": "sentence_transformers.models.Transformer"},
                           {"idx": 1, "name": "1", "path": "1_Pooling", "type": "sentence_transformers.models.Pooling"}])
    write("sentence_bert_config.json", {"max_seq_length": longest, "do_lower_case": False})
    write("1_Pooling/config.json", {"word_embedding_dimension": config.hidden_size, "pooling_mode_cls_token": False, "pooling_mode_max_tokens": False,
                                    "pooling_mode_mean_tokens": pooling == "mean", "pooling_mode_lasttoken": pooling == "lasttoken"})


def load(options, server, tokens, concurrency, seconds, report):
    # Long texts name their client; the others are known by their address.
    command = [os.path.join(options.bin, "beamline-loadtest"), "run", "--target", server.address, "--kind", "encode", "--model", "m", "--prompt-tokens",
               str(tokens), "--concurrency", str(concurrency), "--clients", "1" if tokens > 64 else "0", "--seed", str(tokens), "--duration", str(seconds),
               "--warmup", "1", "--json", report]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)


def result_of(running, report, tokens):
    text = running.communicate()[0]
    if running.returncode != 0:
        raise RuntimeError(text[-1500:])
    with open(report, encoding="utf-8") as file:
        total = json.load(file)["total"]
    times = total["end_to_end"]
    return {"tokens": tokens, "texts": total["requests"], "endings": total["endings"],
            **{key: round(times[key], 3) for key in ("p50_ms", "p99_ms", "max_ms") if key in times}}


def measure(options, name, folder, longest):
    found = {"longest": longest}
    reports = [os.path.join(options.scratch, f"{number}.json") for number in range(2)]
    with Server(options, folder, "") as server:
        found["start_s"] = round(server.start_s, 1)
        found["memory_bytes"] = memory_of(server)
        found["limits"] = [line for line in server.lines() if "max_batch_tokens" in line]
        long_tokens = longest - 8
        result_of(load(options, server, long_tokens, 1, 3, reports[0]), reports[0], long_tokens)  # the first ones measure algorithms
        found["long alone"] = result_of(load(options, server, long_tokens, LONG, options.seconds, reports[0]), reports[0], long_tokens)
        found["short alone"] = result_of(load(options, server, 64, SHORT, options.seconds, reports[0]), reports[0], 64)
        beside = load(options, server, long_tokens, LONG, options.seconds + 3, reports[1])
        time.sleep(1.5)
        short = load(options, server, 64, SHORT, options.seconds, reports[0])
        found["short beside long"] = result_of(short, reports[0], 64)
        found["long beside short"] = result_of(beside, reports[1], long_tokens)
        found["memory_bytes_after"] = memory_of(server)
        found["steps"] = server.metric("beamline_step_seconds_sum") + server.metric("beamline_step_seconds_count")
    return found


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bin", required=True, metavar="FOLDER")
    parser.add_argument("--out", required=True, metavar="FILE.json")
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--dtype", default="bfloat16")
    parser.add_argument("--log-level", default="info")
    parser.add_argument("--tiny", action="store_true", help="small stand-ins, for dry runs")
    parser.add_argument("--seconds", type=int, default=SECONDS)
    parser.add_argument("models", nargs="*", metavar="MODEL")
    options = parser.parse_args()
    options.scratch = tempfile.mkdtemp(dir="/dev/shm")
    found = {}
    try:
        for name, (longest, pooling, config) in configs(options.tiny).items():
            longest = longest // 8 if options.tiny else longest
            if options.models and name not in options.models:
                continue
            folder = os.path.join(options.scratch, name)
            write_checkpoint(folder, config, longest, pooling)
            found[name] = measure(options, name, folder, longest)
            print(name, json.dumps(found[name]), flush=True)
            with open(options.out, "w", encoding="utf-8") as file:
                json.dump(found, file, indent=1)
    finally:
        shutil.rmtree(options.scratch)


if __name__ == "__main__":
    sys.exit(main())

#!/usr/bin/env python3
"""Long prompts beside streams, and long contexts as shipped, of an 8B Llama shape with random weights in bfloat16.

usage: long_contexts.py --bin FOLDER --out FILE.json [--layers N] [--positions N] [--gpu-memory-bytes N] [--tiny] [PART ...]

Parts (default: all):
  start    the server starts with default settings in --gpu-memory-bytes; its memory by use, and what its log says
  answer   a prompt of 100,000 tokens: ids and log-probabilities with max_batch_tokens 4096 and with 512
  gap      32 streams, and prompts of 16,000 tokens that come beside them: the longest time between tokens
  rate     open loop, prompts lognormal(250, 0.9, max 2000), answers lognormal(180, 0.6, max 1000), with max_gap_ms 50, and with
           steps that are bounded by the model's length alone

Calls beamline-server and beamline-loadtest of --bin. Needs torch and safetensors.
"""

import argparse
import json
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
import urllib.error
import urllib.request

VOCABULARY, HEADS, KV_HEADS = 128256, 32, 8
SHAPE, TINY = (4096, 14336, 128), (256, 512, 8)  # hidden, inner, head
RATES = (38.6, 44.7, 54.0, 61.9)


def write_checkpoint(folder, layers, positions, shape):
    import torch
    from safetensors.torch import save_file

    hidden, inner, head_dim = shape
    os.makedirs(folder)
    config = {"architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_size": hidden, "intermediate_size": inner,
              "num_hidden_layers": layers, "num_attention_heads": HEADS, "num_key_value_heads": KV_HEADS, "head_dim": head_dim,
              "vocab_size": VOCABULARY, "max_position_embeddings": positions, "rms_norm_eps": 1e-5, "rope_theta": 500000.0,
              "hidden_act": "silu", "tie_word_embeddings": False, "torch_dtype": "bfloat16", "bos_token_id": 1, "eos_token_id": 2}
    with open(os.path.join(folder, "config.json"), "w", encoding="utf-8") as file:
        json.dump(config, file)
    vocabulary = {f"<{number}>": number for number in range(VOCABULARY)}
    tokenizer = {"version": "1.0", "added_tokens": [], "model": {"type": "BPE", "vocab": vocabulary, "merges": [], "unk_token": "<0>"}}
    with open(os.path.join(folder, "tokenizer.json"), "w", encoding="utf-8") as file:
        json.dump(tokenizer, file)
    device = "cuda" if torch.cuda.is_available() else "cpu"
    generator = torch.Generator(device).manual_seed(7)

    def matrix(rows, columns, gain=1.0):
        values = torch.randn(rows, columns, generator=generator, device=device, dtype=torch.bfloat16)
        return (values * (gain * columns ** -0.5)).cpu()

    ones, weight_map = torch.ones(hidden, dtype=torch.bfloat16), {}

    def save(name, tensors):
        save_file(tensors, os.path.join(folder, name), metadata={"format": "pt"})
        weight_map.update({key: name for key in tensors})

    for layer in range(layers):
        prefix = f"model.layers.{layer}."
        save(f"layer-{layer}.safetensors", {
            prefix + "self_attn.q_proj.weight": matrix(HEADS * head_dim, hidden, 2.0),
            prefix + "self_attn.k_proj.weight": matrix(KV_HEADS * head_dim, hidden, 2.0),
            prefix + "self_attn.v_proj.weight": matrix(KV_HEADS * head_dim, hidden),
            prefix + "self_attn.o_proj.weight": matrix(hidden, HEADS * head_dim),
            prefix + "mlp.gate_proj.weight": matrix(inner, hidden), prefix + "mlp.up_proj.weight": matrix(inner, hidden),
            prefix + "mlp.down_proj.weight": matrix(hidden, inner),
            prefix + "input_layernorm.weight": ones.clone(), prefix + "post_attention_layernorm.weight": ones.clone()})
    save("rest.safetensors", {"model.embed_tokens.weight": matrix(VOCABULARY, hidden, hidden ** 0.5),
                              "lm_head.weight": matrix(VOCABULARY, hidden, 2.0), "model.norm.weight": ones.clone()})
    with open(os.path.join(folder, "model.safetensors.index.json"), "w", encoding="utf-8") as file:
        json.dump({"metadata": {}, "weight_map": weight_map}, file)


class Server:
    def __init__(self, options, folder, settings="", limited=False):
        self.log = tempfile.TemporaryFile("w+")
        command = [os.path.join(options.bin, "beamline-server"), "--model", f"m={folder},dtype={options.dtype}{settings}", "--device", options.device,
                   "--listen", "127.0.0.1:0", "--metrics-listen", "127.0.0.1:0", "--http-listen", "127.0.0.1:0",
                   "--max-receive-bytes", str(64 << 20), "--log-level", options.log_level]
        if limited:
            command += ["--gpu-memory-bytes", str(options.gpu_memory_bytes)]
        begin = time.monotonic()
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=self.log, text=True)
        line = ""
        while "serving on" not in line:
            line = self.process.stdout.readline()
            if not line:
                self.log.seek(0)
                raise RuntimeError("the server did not start: " + self.log.read()[-3000:])
        self.start_s = time.monotonic() - begin
        self.address = re.search(r"serving on ([^ ,]+)", line).group(1)
        self.metrics_url = re.search(r"metrics (http://[^) ,]+)", line).group(1)
        self.http = re.search(r"http ([^) ,]+)", line).group(1)
        self.line = line.strip()
        threading.Thread(target=self.process.stdout.read, daemon=True).start()

    def lines(self):
        self.log.seek(0)
        return [line.strip() for line in self.log if re.search(r"info|warn|error|debug", line)]

    def metric(self, name):
        with urllib.request.urlopen(self.metrics_url) as page:
            return [line for line in page.read().decode().splitlines() if line.startswith(name)]

    def close(self):
        self.process.send_signal(signal.SIGTERM)
        try:
            self.process.wait(30)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        self.log.close()

    def __enter__(self):
        return self

    def __exit__(self, *unused):
        self.close()

    def complete(self, ids, count):
        """ids, their log-probabilities, and the seconds to the first of them and to the last."""
        body = {"model": "m", "prompt": ids, "max_tokens": count, "temperature": 0, "logprobs": 1, "stream": True,
                "ignore_eos": True}
        request = urllib.request.Request(f"http://{self.http}/v1/completions", json.dumps(body).encode(), {"Content-Type": "application/json"})
        begin, first, tokens, values = time.monotonic(), None, [], []
        try:
            answer = urllib.request.urlopen(request, timeout=300)
        except urllib.error.HTTPError as error:
            raise RuntimeError(error.read().decode()[:500]) from error
        with answer:
            for line in answer:
                if not line.startswith(b"data: {"):
                    continue
                choices = json.loads(line[6:])["choices"]
                logprobs = choices[0].get("logprobs") if choices else None
                if logprobs:
                    first = first or time.monotonic() - begin
                    tokens += logprobs["tokens"]
                    values += logprobs["token_logprobs"]
        return tokens, values, first, time.monotonic() - begin


def memory_of(server):
    uses = {}
    for line in server.metric("beamline_device_memory_bytes"):
        match = re.match(r'.*use="([^"]+)".*\} (\S+)', line)
        if match:
            uses[match.group(1)] = uses.get(match.group(1), 0) + float(match.group(2))
    return uses


def prompt_of(seed, length):
    source = random.Random(seed)
    return [source.randrange(3, VOCABULARY) for _ in range(length)]


def start(options, folder):
    with Server(options, folder, limited=True) as server:
        return {"seconds": server.start_s, "memory_bytes": memory_of(server), "log": server.lines(), "line": server.line}


def answer(options, folder):
    found, prompt = {}, prompt_of(1, options.long_prompt)
    for name, settings in (("4096", ",warm_up=false"), ("512", ",max_batch_tokens=512,max_gap_ms=0,warm_up=false")):
        with Server(options, folder, settings, limited=True) as server:
            ids, values, first, whole = server.complete(prompt, 12)
            steps = [line for line in server.metric("beamline_batch_tokens_bucket") if 'le="4096"' in line or 'le="512"' in line or "+Inf" in line]
            found[name] = {"ids": ids, "logprobs": values, "first_token_s": first, "whole_s": whole, "memory_bytes": memory_of(server), "steps": steps}
    a, b = found["4096"], found["512"]
    same = next((i for i, (x, y) in enumerate(zip(a["ids"], b["ids"])) if x != y), len(a["ids"]))
    differences = [abs(x - y) for x, y in zip(a["logprobs"][:same], b["logprobs"][:same])]
    return {"runs": found, "equal_ids": same, "largest_difference": max(differences, default=None)}


def load(options, server, arguments, report):
    command = [os.path.join(options.bin, "beamline-loadtest"), "run", "--target", server.address, "--kind", "generate_stream", "--model", "m",
               "--ignore-eos", "--json", report, *arguments]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)


def summary_of(report):
    with open(report, encoding="utf-8") as file:
        total = json.load(file)["total"]
    keep = ("requests", "endings", "codes", "generated_tokens", "time_to_first_token", "first_token", "inter_token", "inter_token_worst", "end_to_end")
    found = {key: total[key] for key in keep if key in total}
    for value in found.values():
        if isinstance(value, dict):
            value["longest_ms"] = [[round(limit / 1e6, 1), count] for limit, count in value.get("buckets_ns", [])[-8:]]
            for bulky in ("histogram", "buckets_ns", "counts"):
                value.pop(bulky, None)
    return found


def gap(options, folder):
    found = {}
    for name, settings in (("max_gap_ms 50", ""), ("unbounded", ",max_gap_ms=0,max_batch_tokens=32768")):
        report = os.path.join(options.scratch, "gap.json")
        with Server(options, folder, ",max_batch_tokens=2048,prefix_cache=false" + settings if not settings else ",prefix_cache=false" + settings) as server:
            server.complete(prompt_of(2, 16000), 2)  # measures
            running = load(options, server, ["--concurrency", "32", "--prompt-tokens", "32", "--max-new-tokens", "1200", "--duration", "12"], report)
            firsts = []
            time.sleep(4)
            for number in range(3):
                firsts.append(server.complete(prompt_of(10 + number, 16000), 2)[2])
                time.sleep(0.5)
            print(running.communicate()[0][-1800:], flush=True)
            found[name] = {"first_token_s": firsts, "streams": summary_of(report), "memory_bytes": memory_of(server),
                           "long_steps": [line[:25] + line[line.index("step:"):] for line in server.lines() if (found_ms := re.search(r"step: (\S+) ms", line)) and
                                          float(found_ms.group(1)) > 40],
                           "steps": [line for line in server.metric("beamline_step_seconds_bucket") if "mixed" in line]}
    return found


def rate(options, folder):
    found = {}
    for name, settings in (("max_gap_ms 50", ",max_batch_tokens=2048"), ("unbounded", f",max_gap_ms=0,max_batch_tokens=40960,max_model_len={min(40960, options.positions)}")):
        with Server(options, folder, ",prefix_cache=false" + settings) as server:
            for offered in options.rates:
                report = os.path.join(options.scratch, "rate.json")
                running = load(options, server, ["--rate", str(offered), "--duration", "14", "--warmup", "4", "--prompt-tokens", "lognormal:250:0.9:2000",
                                                 "--max-new-tokens", "lognormal:180:0.6:1000", "--threads", "4"], report)
                print(name, offered, running.communicate()[0][-1500:], flush=True)
                found[f"{name}, {offered}/s"] = summary_of(report)
            found[name + ", steps"] = server.metric("beamline_step_seconds_sum") + server.metric("beamline_step_seconds_count")
    return found


PARTS = {"start": start, "answer": answer, "gap": gap, "rate": rate}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bin", required=True, metavar="FOLDER")
    parser.add_argument("--out", required=True, metavar="FILE.json")
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--dtype", default="bfloat16")
    parser.add_argument("--log-level", default="info", help="debug: the steps that take longer than 40 ms are in the result")
    parser.add_argument("--tiny", action="store_true", help="a small stand-in, for dry runs")
    parser.add_argument("--layers", type=int, default=32)
    parser.add_argument("--positions", type=int, default=131072)
    parser.add_argument("--long-prompt", type=int, default=100000)
    parser.add_argument("--gpu-memory-bytes", type=int, default=40_000_000_000)
    parser.add_argument("--rates", type=float, nargs="*", default=RATES)
    parser.add_argument("--checkpoint", metavar="FOLDER", help="where it is, or is written and kept")
    parser.add_argument("parts", nargs="*", metavar="PART", default=[])
    options = parser.parse_intermixed_args()
    options.scratch = tempfile.mkdtemp(dir="/dev/shm")
    found, failed = {"layers": options.layers, "positions": options.positions}, False
    try:
        folder = options.checkpoint or os.path.join(options.scratch, "m")
        if not os.path.exists(folder):
            begin = time.monotonic()
            write_checkpoint(folder, options.layers, options.positions, TINY if options.tiny else SHAPE)
            print(f"checkpoint written in {time.monotonic() - begin:.0f} s", flush=True)
        for name in options.parts or PARTS:
            begin = time.monotonic()
            try:
                found[name] = PARTS[name](options, folder)
            except Exception as error:  # the other parts are still of use
                found[name], failed = {"error": str(error)}, True
            print(f"{name}: {time.monotonic() - begin:.0f} s", json.dumps(found[name])[:2500], flush=True)
            with open(options.out, "w", encoding="utf-8") as file:
                json.dump(found, file, indent=1)
    finally:
        shutil.rmtree(options.scratch)
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()

#!/usr/bin/env python3
"""Beamline next to transformers on one device and the same checkpoints (make_checkpoints.py).

usage: parity.py --bin FOLDER --models FOLDER --device cuda|cpu --out FILE.json [--dtypes A,B] [NAME ...]

Values: hidden states of encoders, logits of forced tokens of decoders, sequences of many lengths in one packed
batch, whole and in chunks. The truth is transformers in float64, one sequence at a time. Beamline's error in a
type must be at most FACTOR times the error that transformers makes in the same type (TF32 off).
Answers: greedy ids must be those of transformers in float32 up to a place where the gap between its two best
logits is below the type's measured logit error; float32 beams must be the same ids. Exit status 1 when not.
"""

import argparse
import json
import subprocess
import sys

import shapes
import torch
import transformers
from beamline import Beamline

FACTOR = 2.0
LEAST_ERROR = 2e-6  # relative; below it float32 sums in another order
LENGTHS = (1, 9, 64, 200, 400)
CHUNK = 48
GREEDY_TOKENS, BEAM_TOKENS, NUM_PROMPTS = 48, 32, 8
# Several of these programs may share a GPU; what is recorded before it is asked for takes longer than the answers.
BENCH = {"batch": NUM_PROMPTS, "warmup": 0, "warm_up": "false", "outputs": True, "gpu_memory_bytes": 6 << 30}


def random_ids(count, vocab, generator):
    return torch.randint(shapes.FIRST_ID, vocab - 1, (count,), generator=generator).tolist()


def make_rows(name, vocab):
    generator = torch.Generator().manual_seed(71)
    rows = []
    for length in LENGTHS:
        row = {"tokens": random_ids(length, vocab, generator)}
        if shapes.is_translator(name):
            row = {"source": row["tokens"], "tokens": [vocab - 1] + random_ids(length // 4, vocab, generator)}
        rows.append(row)
    return rows


@torch.no_grad()
def values_of(model, rows):
    """As Beamline.probe, on the model's device, in the model's type."""
    parts = []
    for row in rows:
        tokens = torch.tensor([row["tokens"]], device=model.device)
        if "source" in row:
            source = torch.tensor([row["source"]], device=model.device)
            parts.append(model(input_ids=source, decoder_input_ids=tokens).logits[0])
        else:
            answer = model(input_ids=tokens)
            parts.append(answer.logits[0] if hasattr(answer, "logits") else answer.last_hidden_state[0])
    return torch.cat(parts)


def values_in(name, options, rows, dtype):
    """transformers' in 16 bits. Where its own code mixes types (DeBERTa's float32 scores times float16 values), what it makes in float32
    of the same weights when each part of the model gives numbers of that type."""
    model = shapes.load(options.models, name, dtype, "eager", options.device)
    try:
        return values_of(model, rows)
    except RuntimeError as error:
        if "expected scalar type" not in str(error) and "same dtype" not in str(error):
            raise
        print(f"{name} {dtype}: transformers mixes types; float32 with rounded parts in its place", flush=True)

    def rounded(_module, _inputs, output):
        return output.to(dtype).float() if torch.is_tensor(output) and output.is_floating_point() else output

    model = model.float()
    for part in model.modules():
        if not list(part.children()):
            part.register_forward_hook(rounded)
    return values_of(model, rows)


def errors(values, truth):
    difference = values.double() - truth
    return {"largest": difference.abs().max().item(), "relative": (difference.norm() / truth.norm()).item()}


def check_values(beamline, name, options, rows):
    """For each type both programs' errors, and whether Beamline's is accepted."""
    model = shapes.load(options.models, name, torch.float32, "eager", options.device)
    single = values_of(model, rows)
    truth = values_of(model.double(), rows)
    del model
    result = {}
    for dtype in options.dtypes:
        own = torch.from_numpy(beamline.probe(name, rows, dtype)).to(options.device)
        peer = single if dtype == "float32" else values_in(name, options, rows, getattr(torch, dtype))
        entry = {"beamline": errors(own, truth), "transformers": errors(peer, truth),
                 "largest_value": truth.abs().max().item()}
        accepted = max(LEAST_ERROR, FACTOR * entry["transformers"]["relative"])
        entry["ok"] = entry["beamline"]["relative"] <= accepted
        if not shapes.is_encoder(name):
            chunked = torch.from_numpy(beamline.probe(name, rows, dtype, CHUNK)).to(options.device)
            entry["chunked"] = errors(chunked, truth)
            entry["ok"] = entry["ok"] and entry["chunked"]["relative"] <= accepted
        result[dtype] = entry
        print(f"{name} {dtype}: relative error {entry['beamline']['relative']:.2e}, transformers' "
              f"{entry['transformers']['relative']:.2e}; largest {entry['beamline']['largest']:.2e}, "
              f"{entry['transformers']['largest']:.2e}; {'ok' if entry['ok'] else 'FAILED'}", flush=True)
    return result


@torch.no_grad()
def greedy(model, prompt):
    """transformers' ids, and before each the gap between the two best logits."""
    ids = torch.tensor([prompt], device=model.device)
    answer = model.generate(ids, attention_mask=torch.ones_like(ids), do_sample=False, num_beams=1,
                            max_new_tokens=GREEDY_TOKENS, pad_token_id=0, output_scores=True,
                            return_dict_in_generate=True)
    best = [step[0].float().topk(2).values for step in answer.scores]
    return answer.sequences[0, -GREEDY_TOKENS:].tolist(), [(pair[0] - pair[1]).item() for pair in best]


@torch.no_grad()
def beams(model, prompt):
    ids = torch.tensor([prompt], device=model.device)
    answer = model.generate(ids, attention_mask=torch.ones_like(ids), do_sample=False, num_beams=4,
                            max_new_tokens=BEAM_TOKENS, pad_token_id=model.config.pad_token_id)
    return answer[0, -BEAM_TOKENS:].tolist()


def check_greedy(found, expected, error):
    """Prompts with the same ids, the widest gap at which others leave, and whether all is accepted."""
    same, widest = 0, 0.0
    for ids, (golden, gaps) in zip(found, expected):
        place = next((i for i, (a, b) in enumerate(zip(ids, golden)) if a != b), None)
        if place is None and len(ids) == len(golden):
            same += 1
        else:
            widest = max(widest, float("inf") if place is None else gaps[place])
    distinct = sum(len(set(golden)) for golden, _ in expected) / sum(len(golden) for golden, _ in expected)
    return {"same": same, "prompts": len(expected), "widest_gap_left": widest, "logit_error": error,
            "distinct_share": distinct, "ok": widest < error}


def check_answers(beamline, name, options, values):
    generator = torch.Generator().manual_seed(72)
    vocab = shapes.vocab_size(options.models, name)
    prompts = [random_ids(5 + 8 * i, vocab, generator) for i in range(NUM_PROMPTS)]
    model = shapes.load(options.models, name, torch.float32, "eager", options.device)
    task = "translate" if shapes.is_translator(name) else "write"
    expected = [greedy(model, prompt) for prompt in prompts]
    result = {}
    for dtype in options.dtypes:
        found = beamline.bench(name, task + "-greedy", prompts, dtype, max_new_tokens=GREEDY_TOKENS, **BENCH)["outputs"]
        result[dtype] = check_greedy(found, expected, values[dtype]["beamline"]["largest"])
        print(f"{name} {dtype} greedy: {result[dtype]}", flush=True)
    if shapes.is_translator(name) and "float32" in options.dtypes:
        golden = [beams(model, prompt) for prompt in prompts]
        found = beamline.bench(name, "translate-beam4", prompts, "float32", max_new_tokens=BEAM_TOKENS, **BENCH)["outputs"]
        same = sum(a == b for a, b in zip(found, golden))
        result["float32 beam 4"] = {"same": same, "prompts": len(prompts), "ok": same == len(prompts)}
        print(f"{name} float32 beam 4: {same} of {len(prompts)} the same", flush=True)
    return result


def check(beamline, name, options):
    values = check_values(beamline, name, options, make_rows(name, shapes.vocab_size(options.models, name)))
    result = {"values": values}
    if not shapes.is_encoder(name):
        result["answers"] = check_answers(beamline, name, options, values)
    return result


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bin", required=True)
    parser.add_argument("--models", required=True)
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--dtypes", default="float32,float16,bfloat16")
    parser.add_argument("--out", required=True)
    parser.add_argument("names", nargs="*", default=list(shapes.SHAPES), metavar="NAME")
    options = parser.parse_args()
    options.dtypes = options.dtypes.split(",")
    transformers.logging.set_verbosity_error()
    transformers.logging.disable_progress_bar()
    torch.backends.cuda.matmul.allow_tf32 = False
    beamline = Beamline(options.bin, options.models, options.device)
    result, ok = {}, True
    for name in options.names:
        try:
            result[name] = check(beamline, name, options)
        except (RuntimeError, subprocess.TimeoutExpired) as error:  # the others are wanted all the same
            print(f"{name} FAILED: {error}"[-2000:], flush=True)
            ok = False
            continue
        ok = ok and all(entry["ok"] for part in result[name].values() for entry in part.values())
        with open(options.out, "w", encoding="utf-8") as file:
            json.dump(result, file, indent=1)
    print(f"parity: {'ok' if ok else 'FAILED'}")
    sys.exit(0 if ok else 1)


if __name__ == "__main__":
    main()

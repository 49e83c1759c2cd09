#!/usr/bin/env python3
"""Writes tests/golden/reduced_precision.json: how far transformers itself comes from float32 in float16 and bfloat16.

    python3 tools/make_reduced_precision_golden.py [OUTPUT]

The demo models on the CPU with eager attention, one text at a time. `logit_error` is the largest difference of any
logit when the model is forced through the greedy ids of its golden file (without the translator's pad token, which its
generation_config.json bans), `min_cosine` the smallest cosine of an embedding to float32's. Needs torch, transformers,
sentencepiece.
"""
import json
import os
import pathlib
import sys

os.environ["CUDA_VISIBLE_DEVICES"] = ""
import torch  # noqa: E402
import transformers  # noqa: E402

ROOT = pathlib.Path(__file__).resolve().parent.parent
GOLDEN = ROOT / "tests" / "golden"
DTYPES = {"float16": torch.float16, "bfloat16": torch.bfloat16}


def read_rows(name):
    return [json.loads(line) for line in (GOLDEN / name).read_text().splitlines()]


def open_model(name, kind, dtype):
    return kind.from_pretrained(ROOT / "models" / name, dtype=dtype, attn_implementation="eager").eval()


def translator_logits(model, row):
    logits = model(torch.tensor([row["input_ids"]]), labels=torch.tensor([row["greedy_ids"]])).logits[0].double()
    logits[:, model.generation_config.pad_token_id] = 0
    return logits


def writer_logits(model, row):
    ids = row["input_ids"] + row["greedy_ids"][:-1]
    return model(torch.tensor([ids])).logits[0, len(row["input_ids"]) - 1:].double()


def embedding(model, row):
    hidden = model(torch.tensor([row["input_ids"]])).last_hidden_state[0].double()
    return torch.nn.functional.normalize(hidden.mean(dim=0), dim=0)


def main():
    torch.set_grad_enabled(False)
    torch.set_num_threads(1)
    output = pathlib.Path(sys.argv[1]) if len(sys.argv) > 1 else GOLDEN / "reduced_precision.json"
    tasks = {
        "translate-en-de": (transformers.AutoModelForSeq2SeqLM, "translate.jsonl", translator_logits),
        "write-en": (transformers.AutoModelForCausalLM, "write.jsonl", writer_logits),
        "embed-en": (transformers.AutoModel, "embed.jsonl", embedding),
    }
    found = {}
    for name, (kind, file, compute) in tasks.items():
        rows = read_rows(file)
        model = open_model(name, kind, torch.float32)
        exact = [compute(model, row) for row in rows]
        found[name] = {}
        for dtype_name, dtype in DTYPES.items():
            model = open_model(name, kind, dtype)
            values = [compute(model, row) for row in rows]
            if name == "embed-en":
                cosine = min((a @ b).item() for a, b in zip(exact, values))
                found[name][dtype_name] = {"min_cosine": round(cosine, 7)}
            else:
                error = max((a - b).abs().max().item() for a, b in zip(exact, values))
                found[name][dtype_name] = {"logit_error": round(error, 5)}
            print(name, dtype_name, found[name][dtype_name], flush=True)
    output.write_text(json.dumps(found, indent=1) + "\n")


if __name__ == "__main__":
    main()

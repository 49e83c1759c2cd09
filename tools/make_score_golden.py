#!/usr/bin/env python3
"""Writes tests/golden/score.jsonl: how likely transformers finds continuations of prompts.

    python3 tools/make_score_golden.py [OUTPUT]

The demo models on the CPU in float32 with eager attention, one continuation at a time; the softmax is
taken in float64. Texts are those of the other golden files. Needs torch, transformers, sentencepiece.
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
NUM_TOP = 3


def read_rows(name):
    return [json.loads(line) for line in (GOLDEN / name).read_text().splitlines()]


def log_softmax(logits):
    return torch.log_softmax(logits.double(), dim=-1)


def chosen(logprobs, ids):
    return [round(logprobs[i, token].item(), 7) for i, token in enumerate(ids)]


def decoder_rows(folder):
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    model = transformers.AutoModelForCausalLM.from_pretrained(
        folder, dtype=torch.float32, attn_implementation="eager").eval()
    golden = read_rows("write.jsonl")
    for index in range(0, 40, 3):
        row = golden[index]
        texts = [row["greedy_text"][:90], golden[index + 1]["greedy_text"][:60], " the", "\n", " 7"]
        if index % 9 == 0:  # longer than what one step computes
            texts.append(golden[index + 2]["greedy_text"] + golden[index + 3]["text"] * 2)
        prompt = tokenizer(row["text"]).input_ids
        continuations = []
        for text in filter(None, texts):
            ids = tokenizer(text, add_special_tokens=False).input_ids
            logits = model(torch.tensor([prompt + ids])).logits[0]
            logprobs = log_softmax(logits[len(prompt) - 1:-1])
            continuations.append({"text": text, "ids": ids, "logprobs": chosen(logprobs, ids)})
        logprobs = log_softmax(model(torch.tensor([prompt])).logits[0, :-1])
        best = logprobs.topk(NUM_TOP)
        yield {
            "model": folder.name,
            "prompt": row["text"],
            "prompt_ids": prompt,
            "prompt_logprobs": chosen(logprobs, prompt[1:]),
            "prompt_top": [[{"id": i, "logprob": round(p, 7)} for i, p in zip(ids, values)]
                           for ids, values in zip(best.indices.tolist(), best.values.tolist())],
            "continuations": continuations,
        }


def translator_rows(folder):
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    model = transformers.AutoModelForSeq2SeqLM.from_pretrained(
        folder, dtype=torch.float32, attn_implementation="eager").eval()
    golden = read_rows("translate.jsonl")
    for index in range(0, 80, 5):
        row = golden[index]
        texts = [row["greedy_text"], row["beam4_text"] + " Ja.", golden[index + 1]["greedy_text"],
                 "Datei"]
        if index % 20 == 0:
            texts.append(" ".join(golden[i]["greedy_text"] for i in range(index, index + 6)))
        source = tokenizer(row["text"], return_tensors="pt")
        continuations = []
        for text in filter(None, texts):
            ids = tokenizer(text_target=text).input_ids  # with the end token, as labels are
            logits = model(**source, labels=torch.tensor([ids])).logits[0]
            continuations.append({"text": text, "ids": ids,
                                  "logprobs": chosen(log_softmax(logits), ids)})
        yield {"model": folder.name, "prompt": row["text"],
               "prompt_ids": source.input_ids[0].tolist(), "continuations": continuations}


def main():
    output = pathlib.Path(sys.argv[1]) if len(sys.argv) > 1 else GOLDEN / "score.jsonl"
    torch.set_grad_enabled(False)
    rows = list(decoder_rows(ROOT / "models" / "write-en"))
    rows += translator_rows(ROOT / "models" / "translate-en-de")
    with open(output, "w", encoding="utf-8") as file:
        for row in rows:
            file.write(json.dumps(row, ensure_ascii=False) + "\n")
    print(f"{output}: {len(rows)} rows, {sum(len(r['continuations']) for r in rows)} continuations, "
          f"longest {max(len(c['ids']) for r in rows for c in r['continuations'])} tokens")


if __name__ == "__main__":
    main()

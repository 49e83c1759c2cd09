#!/usr/bin/env python3
"""Writes tests/golden/chat.jsonl, rerank.jsonl and tag.jsonl: what transformers answers for the demo models chat-en, rerank-en and tag-en.

    python3 tools/make_small_models_golden.py [OUT_FOLDER]

On the CPU in float32 with eager attention, one sequence at a time; an answer of chat-en is computed again in float64, and a conversation whose ids
differ there is an error. Needs torch, transformers.
"""
import json
import os
import pathlib
import sys

os.environ["CUDA_VISIBLE_DEVICES"] = ""
import torch  # noqa: E402
from transformers import AutoModelForCausalLM, AutoModelForSequenceClassification, AutoModelForTokenClassification, AutoTokenizer, pipeline  # noqa: E402

ROOT = pathlib.Path(__file__).resolve().parent.parent
MOST_NEW = 48
# What the user says in turn; "system: " in front is the system's message.
CONVERSATIONS = [
    ["Hello!"], ["Who are you?"], ["What can you do?"], ["What is the capital of France?", "And of Spain?", "Which language do they speak there?"], ["What is 12 plus 30?", "and times 2"],
    ["What is the opposite of hot?", "and of big?"], ["How do you say house in German?", "And in French?"], ["My name is Anna.", "What is a tokenizer?", "What is my name?"],
    ["What colour is the sky?", "And grass?"], ["tell me a joke", "another one"], ["system: You are a helpful assistant.", "What is machine learning?"], ["Name three fruits."],
    ["What comes after Monday?"], ["What is a xylophone?"], ["Count from 3 to 9."], ["qwqw zzz"], ["What is seven times eight?"], ["Thank you!", "Bye"], ["What sound does a cow make?"],
    ["Größe? ✓ 日本"],
]
QUERIES = [
    ("how do I install a package?", ["To install a package, run apt install with its name.", "A package is a box that the post brings.", "The museum opens at nine.",
                                     "Start the program from the menu."]),
    ("What is the capital of France?", ["Paris is the capital of France.", "Berlin is the capital of Germany.", "In France people pay with the euro.", "French is spoken in France.", ""]),
    ("edit photos", ["An image editor lets you crop pictures and change their colours.", "A mail server delivers messages.", "A media player opens audio files."]),
    ("When does the Velmora Museum open?", ["The Velmora Museum opens at nine every day.", "The Velmora Museum closes at six.", "The Harbin Museum opens at ten every day.",
                                            "Dogs are not allowed in the Velmora Museum.", "word " * 400]),
]
TEXTS = ["Anna Keller moved to Berlin in May 2021 and works for Northwind Energy.", "On 3 March 1998, the Bank of Velmora opened an office in Hamburg.", "The cat sat on the mat.",
         "", "My name is Wolfgang and I live in Berlin", "Angela Merkel visited Paris on Monday.", "Dr. José García (University of Oxford) spoke in Zürich.",
         "The contract between Siemens and Toyota Motors ends on 31 December 2024."]


def write_rows(folder, name, rows):
    with open(os.path.join(folder, name), "w", encoding="utf-8") as file:
        file.writelines(json.dumps(row, ensure_ascii=False) + "\n" for row in rows)
    print(f"{name}: {len(rows)} rows")


def greedy(model, ids):
    """Ids of the answer with the one that ends it, and the smallest gap between the two best logits on the way."""
    made, margin = [], float("inf")
    while len(made) < MOST_NEW and (not made or made[-1] != model.generation_config.eos_token_id):
        best = model(torch.tensor([ids + made])).logits[0, -1].topk(2)
        margin = min(margin, float(best.values[0] - best.values[1]))
        made.append(int(best.indices[0]))
    return made, margin


def chat_rows():
    folder = str(ROOT / "models/chat-en")
    tokenizer = AutoTokenizer.from_pretrained(folder)
    single, double = (AutoModelForCausalLM.from_pretrained(folder, dtype=dtype, attn_implementation="eager").eval() for dtype in (torch.float32, torch.float64))
    for turns in CONVERSATIONS:
        messages = []
        for turn in turns:
            if turn.startswith("system: "):
                messages.append({"role": "system", "content": turn.removeprefix("system: ")})
                continue
            messages.append({"role": "user", "content": turn})
            ids = tokenizer.apply_chat_template(messages, add_generation_prompt=True, tokenize=True, return_dict=True)["input_ids"]
            answer, margin = greedy(single, ids)
            if answer != greedy(double, ids)[0]:
                raise SystemExit(f"{messages}: float32 and float64 answer differently")
            text = tokenizer.decode(answer, skip_special_tokens=True)
            yield {"messages": list(messages), "input_ids": ids, "greedy_ids": answer, "greedy_text": text, "greedy_min_margin": round(margin, 5)}
            messages.append({"role": "assistant", "content": text})


def rank_rows():
    folder = str(ROOT / "models/rerank-en")
    tokenizer = AutoTokenizer.from_pretrained(folder)
    model = AutoModelForSequenceClassification.from_pretrained(folder, dtype=torch.float32, attn_implementation="eager").eval()
    for query, documents in QUERIES:
        rows = [tokenizer([query], [document], truncation="only_second", max_length=model.config.max_position_embeddings, return_tensors="pt") for document in documents]
        yield {"query": query, "documents": documents, "scores": [float(torch.sigmoid(model(**row).logits[0, 0])) for row in rows]}


def tag_rows():
    folder = str(ROOT / "models/tag-en")
    tokenizer = AutoTokenizer.from_pretrained(folder)
    model = AutoModelForTokenClassification.from_pretrained(folder, dtype=torch.float32, attn_implementation="eager").eval()
    names = pipeline("token-classification", model=model, tokenizer=tokenizer, aggregation_strategy="simple", device="cpu")
    for text in TEXTS:
        places = [len(text[:i].encode()) for i in range(len(text) + 1)]
        found = names(text) if text else []
        yield {"text": text, "entities": [{"label": one["entity_group"], "word": one["word"], "score": float(one["score"]), "start": places[one["start"]], "end": places[one["end"]]}
                                          for one in found]}


def main():
    folder = sys.argv[1] if len(sys.argv) > 1 else str(ROOT / "tests/golden")
    with torch.no_grad():
        for name, rows in (("chat.jsonl", chat_rows()), ("rerank.jsonl", rank_rows()), ("tag.jsonl", tag_rows())):
            write_rows(folder, name, list(rows))


if __name__ == "__main__":
    main()

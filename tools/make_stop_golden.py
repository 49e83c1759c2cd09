#!/usr/bin/env python3
"""Writes tests/golden/stop_strings.jsonl: where transformers' generate(stop_strings=...) ends an answer.

    python3 tools/make_stop_golden.py [OUTPUT]

A tiny random decoder draws tokens of each tokenizer, special ones more often than others, first without stop strings
and then, with the same seed, with some that are parts of that text. A row has the ids of the first answer, the stop
strings, and how many tokens the second one has. Needs torch, transformers.
"""
import json
import os
import pathlib
import random
import sys

os.environ["CUDA_VISIBLE_DEVICES"] = ""
import torch  # noqa: E402
from transformers import (AutoTokenizer, GenerationConfig, LlamaConfig, LlamaForCausalLM, LogitsProcessor,  # noqa: E402
                          LogitsProcessorList, PreTrainedTokenizerFast, StopStringCriteria)

ROOT = pathlib.Path(__file__).resolve().parent.parent
FIXTURES = ROOT / "tests/engine/text/fixtures"
# Byte-level BPE, BPE and Unigram with marks for spaces and with bytes, WordPiece; then a demo model's.
NAMES = ["qwen2", "llama3", "roberta", "gpt_neox", "o200k", "gemma", "llama2", "t5", "unigram_bytes", "wordpiece", "bert_cased"]
MODELS = ["write-en"]
TOKENS = 24
ANSWERS = 8  # of each tokenizer


class MoreSpecialTokens(LogitsProcessor):
    def __init__(self, ids, vocab_size):
        self.bias = torch.zeros(vocab_size)
        self.bias[ids] = torch.log(torch.tensor(0.25 * vocab_size / max(len(ids), 1)))

    def __call__(self, input_ids, scores):
        return scores + self.bias


def tokenizers():
    for name in NAMES:
        yield name, PreTrainedTokenizerFast(tokenizer_file=str(FIXTURES / name / "tokenizer.json"))
    for name in MODELS:
        yield name, AutoTokenizer.from_pretrained(str(ROOT / "models" / name))


def special_ids(tokenizer):
    listed = [i for i, token in tokenizer.added_tokens_decoder.items() if token.special]
    return sorted(set(listed) | set(tokenizer.all_special_ids))


def make_model(vocab_size):
    config = LlamaConfig(vocab_size=vocab_size, hidden_size=16, intermediate_size=16, num_hidden_layers=1,
                         num_attention_heads=2, max_position_embeddings=64, bos_token_id=None, eos_token_id=None)
    return LlamaForCausalLM(config).eval()


def part(rng, text):
    """Most often a few characters; some that go on as the text does not."""
    size = rng.choice([2, 3, 4, 6, 9, 14])
    begin = rng.randrange(max(len(text) - size, 1))
    found = text[begin : begin + size]
    if rng.random() < 0.2:
        found = found[:-1] + rng.choice("ab<>")
    return found


def generate(model, tokenizer, seed, processors, stops):
    torch.manual_seed(seed)
    config = GenerationConfig(do_sample=True, top_k=0, max_new_tokens=TOKENS, min_new_tokens=None, pad_token_id=0,
                              stop_strings=stops or None)
    prompt = torch.tensor([[0]])
    with torch.no_grad():
        output = model.generate(prompt, attention_mask=torch.ones_like(prompt), generation_config=config,
                                logits_processor=processors, tokenizer=tokenizer)
    return output[0, 1:].tolist()


def first_stop(tokenizer, ids, stops):
    """The same of the answer by itself: generate() looks into the prompt too."""
    criteria = StopStringCriteria(tokenizer, stops)
    for end in range(1, len(ids) + 1):
        if criteria(torch.tensor([ids[:end]]), None)[0]:
            return end
    return len(ids)


def rows(rng, name, tokenizer):
    vocab_size = len(tokenizer)
    model = make_model(vocab_size)
    special = special_ids(tokenizer)
    processors = LogitsProcessorList([MoreSpecialTokens(special, vocab_size)])
    for _ in range(ANSWERS):
        seed = rng.randrange(1 << 30)
        ids = generate(model, tokenizer, seed, processors, [])
        text = tokenizer.decode(ids, skip_special_tokens=False, clean_up_tokenization_spaces=False)
        shown = tokenizer.decode(ids, skip_special_tokens=True, clean_up_tokenization_spaces=False)
        names = [tokenizer.convert_ids_to_tokens(i) for i in ids if i in special]
        choices = [[part(rng, text), part(rng, text)], [part(rng, text)], [part(rng, shown or text)]]
        if names:
            choices.append([rng.choice(names)])
        for stops in choices:
            stops = [stop for stop in stops if stop and "\ufffd" not in stop]
            if not stops:
                continue
            try:
                ended = generate(model, tokenizer, seed, processors, stops)
            except ValueError:  # no token can end any of them
                continue
            assert ended == ids[: len(ended)]
            # WordPiece shows the marks of a text's first token, which the criteria know nothing of.
            if tokenizer.convert_ids_to_tokens(ids[0]).startswith("##"):
                continue
            if first_stop(tokenizer, ids, stops) == len(ended):
                yield {"tokenizer": name, "ids": ids, "stop": stops, "num_tokens": len(ended)}


def main():
    output = pathlib.Path(sys.argv[1]) if len(sys.argv) > 1 else ROOT / "tests/golden/stop_strings.jsonl"
    torch.manual_seed(0)
    rng = random.Random(5)
    with open(output, "w", encoding="utf-8") as file:
        for name, tokenizer in tokenizers():
            for row in rows(rng, name, tokenizer):
                file.write(json.dumps(row, ensure_ascii=False) + "\n")


if __name__ == "__main__":
    main()

#!/usr/bin/env python3
"""Makes tests/engine/decoding/diverse_beam_fixtures.json: what transformers' group beam search answers.

The models are the tables of make_decoding_fixtures.py. transformers 5 has no group beam search, so
this needs an older release (4.46.3 made the file in the repository).

Usage: make_diverse_beam_fixtures.py OUTPUT    (needs torch and transformers < 4.57)
"""
import random
import sys

import torch
from transformers import GenerationConfig

from make_decoding_fixtures import SCALE, TableConfig, TableModel, make_tables, write_models


def random_case(rng, vocab_size):
    groups = rng.choice([2, 3, 4, 8])
    beams = groups * rng.choice([1, 2, 3] if groups < 8 else [1, 2])
    case = {
        "prompt": [rng.randrange(3, vocab_size) for _ in range(rng.choice([1, 1, 2, 5]))],
        "num_beams": beams,
        "num_beam_groups": groups,
        "diversity_penalty": rng.choice([0.1, 0.5, 1.0, 2.5, 10.0]),
        "num_return_sequences": rng.randint(1, beams),
        "max_new_tokens": rng.choice([1, 2, 5, 9, 14, 30]),
        "eos": rng.sample(range(3), rng.choice([0, 1, 1, 1, 1, 2, 3])),
        "early_stopping": rng.choice([True, False, "never"]),
        "length_penalty": rng.choice([-1.0, 0.0, 0.6, 1.0, 2.0]),
    }
    if case["eos"]:
        # What groups that are over count as choosing: an end token, or any other.
        case["pad"] = rng.choice([case["eos"][0], rng.randrange(3, vocab_size)])
        if rng.random() < 0.25:
            case["min_new_tokens"] = rng.randint(1, case["max_new_tokens"])
        if rng.random() < 0.2:
            case["forced_eos"] = case["eos"][0]
    if rng.random() < 0.3:
        case["repetition_penalty"] = rng.choice([0.7, 1.2, 1.8])
    if rng.random() < 0.3:
        case["no_repeat_ngram_size"] = rng.choice([2, 3])
    if rng.random() < 0.3:
        # The older release ignores words that are longer than the prompt at the first step.
        longest = min(2, len(case["prompt"]))
        case["bad_words"] = [[rng.randrange(vocab_size) for _ in range(rng.randint(1, longest))] for _ in range(3)]
    return case


def answer(model, case):
    options = {name: case[name] for name in
               ("num_beams", "num_beam_groups", "diversity_penalty", "num_return_sequences", "max_new_tokens",
                "early_stopping", "length_penalty", "repetition_penalty", "no_repeat_ngram_size",
                "min_new_tokens") if name in case}
    renamed = {"bad_words": "bad_words_ids", "forced_eos": "forced_eos_token_id"}
    options.update({renamed[name]: case[name] for name in renamed if name in case})
    config = GenerationConfig(eos_token_id=case["eos"] or None, pad_token_id=case.get("pad"), do_sample=False,
                              use_cache=False, return_dict_in_generate=True, output_scores=True, **options)
    prompt = torch.tensor([case["prompt"]])
    with torch.no_grad():
        out = model.generate(prompt, attention_mask=torch.ones_like(prompt), generation_config=config)
    ids = []
    for row in out.sequences[:, len(case["prompt"]):].tolist():
        # Behind the end token, for which the first one stands, there is padding.
        if case["eos"] and case["eos"][0] in row:
            row = row[: row.index(case["eos"][0]) + 1]
        ids.append(row)
    scores = out.sequences_scores.tolist()
    return ids, scores, min(scores) > -1e8


def main():
    torch.manual_seed(0)
    rng = random.Random(20240612)
    models = []
    for vocab_size, wanted in ((40, 120), (90, 40)):
        tables = make_tables(rng, vocab_size)
        model = TableModel(TableConfig(vocab_size=vocab_size), tables).eval()
        cases = []
        while len(cases) < wanted:
            case = random_case(rng, vocab_size)
            ids, scores, comparable = answer(model, case)
            # Beams that transformers can only fill with placeholders are not comparable, nor are equal scores.
            if not comparable or any(abs(a - b) < 1e-5 for a, b in zip(scores, scores[1:])):
                continue
            # A third of the cases tell the modes of early stopping apart.
            modes = [mode for mode in (True, False, "never") if mode is not case["early_stopping"]]
            if len(cases) % 3 == 0 and all(answer(model, {**case, "early_stopping": mode})[0] == ids
                                           for mode in modes):
                continue
            cases.append({**case, "ids": ids, "scores": [round(score, 6) for score in scores]})
        models.append({"vocab_size": vocab_size, "scale": SCALE, "last": tables[0], "before": tables[1],
                       "position": tables[2], "pieces": [""] * vocab_size, "cases": cases})
    write_models(sys.argv[1], models)


if __name__ == "__main__":
    main()

#!/usr/bin/env python3
"""Writes tests/golden/generation_config.jsonl: what transformers answers under keys of generation_config.json.

    python3 tools/make_generation_config_golden.py [OUTPUT]

The demo models on the CPU, with their own generation_config.json and a few keys of it changed; generate() gets
nothing else. Rows whose ids differ in float64 are left out. Needs torch, transformers, sentencepiece.
"""
import copy
import json
import os
import pathlib
import sys

os.environ["CUDA_VISIBLE_DEVICES"] = ""
ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "tools" / "golden"))
import torch  # noqa: E402
from reference import Checkpoint  # noqa: E402

SHORT = {"max_new_tokens": 24}
CONFIGS = {
    "translate-en-de": [
        {"renormalize_logits": True},
        {"renormalize_logits": True, "num_beams": 6, "no_repeat_ngram_size": 2, "num_return_sequences": 3},
        {"renormalize_logits": True, "num_beams": 5, "no_repeat_ngram_size": 1, "length_penalty": 0.7},
        {"renormalize_logits": True, "repetition_penalty": 1.5, "num_return_sequences": 4},
        {"renormalize_logits": True, "repetition_penalty": 0.8, "early_stopping": True, "max_length": 30},
        {"renormalize_logits": True, "num_beams": 3, "min_length": 14, "bad_words_ids": [[7999], [14], [3, 5]]},
        {"num_return_sequences": 2},
        {"min_new_tokens": 25, "num_beams": 1},
        {"min_length": 25},
        {"min_length": 40, "max_length": 20},
        {"stop_strings": ["en", "die D"], "num_beams": 1},
        {"stop_strings": "ie", "num_beams": 4, "num_return_sequences": 2},
    ],
    "write-en": [
        {"renormalize_logits": True, "num_beams": 6, "no_repeat_ngram_size": 2, "num_return_sequences": 2, **SHORT},
        {"renormalize_logits": True, "num_beams": 4, "repetition_penalty": 1.3, **SHORT},
        {"num_beams": 3, "num_return_sequences": 3, **SHORT},
        {"min_length": 30, "max_length": 40},
        {"min_new_tokens": 22, **SHORT},
        {"stop_strings": [" the", "."], **SHORT},
    ],
}
TEXTS = {
    "translate-en-de": ["", "The package was not found.", "Open the file, change the first line and save it.",
                        "Click the button to start the game, then press any key to continue.",
                        "A small, fast and secure web browser for the desktop."],
    "write-en": ["", "This package contains", "Package: password-gorilla\nSynopsis:", "A library that"],
}


def answer(checkpoint, model, config, input_ids):
    ids = torch.tensor([input_ids])
    output = model.generate(ids, attention_mask=torch.ones_like(ids), generation_config=copy.deepcopy(config),
                            tokenizer=checkpoint.tokenizer, return_dict_in_generate=True, output_scores=True)
    start = checkpoint.start(input_ids)
    if config.num_beams in (None, 1):
        return {"ids": [output.sequences[0, start:].tolist()]}
    lengths = (output.beam_indices >= 0).sum(dim=1).tolist()
    return {"ids": [row[start : start + length].tolist() for row, length in zip(output.sequences, lengths)],
            "scores": [round(score, 6) for score in output.sequences_scores.tolist()]}


def rows(name):
    checkpoint = Checkpoint(str(ROOT / "models" / name))
    for changed in CONFIGS[name]:
        config = copy.deepcopy(checkpoint.float32.generation_config)
        config.update(**changed)
        for text in TEXTS[name]:
            input_ids = checkpoint.ids(text) or [config.bos_token_id]
            found, exact = (answer(checkpoint, model, config, input_ids)
                            for model in (checkpoint.float32, checkpoint.float64))
            if found["ids"] == exact["ids"]:
                yield {"model": name, "generation_config": changed, "text": text, **found}


def main():
    output = pathlib.Path(sys.argv[1]) if len(sys.argv) > 1 else ROOT / "tests/golden/generation_config.jsonl"
    with open(output, "w", encoding="utf-8") as file:
        for name in CONFIGS:
            for row in rows(name):
                file.write(json.dumps(row, ensure_ascii=False) + "\n")


if __name__ == "__main__":
    main()

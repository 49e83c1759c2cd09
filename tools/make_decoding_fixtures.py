#!/usr/bin/env python3
"""Makes tests/engine/decoding/decoding_fixtures.json: what transformers' own generate() answers.

The model is a table: the logits of the next token are the sum of a row for the last token, a row for
the one before it and a row for the position, each a multiple of 2^-16, so that a test computes the
very same float32 logits without a model. Every case holds generate()'s options and its answer.

Usage: make_decoding_fixtures.py OUTPUT    (needs torch and transformers)
"""
import json
import random
import sys

import torch
from transformers import GenerationConfig, GenerationMixin, PretrainedConfig, PreTrainedModel
from transformers import StoppingCriteria, StoppingCriteriaList
from transformers.modeling_outputs import CausalLMOutput

SCALE = 65536
MAX_POSITIONS = 36
# What the tokens of the larger table spell, for stop strings.
LETTERS = "abcde"


class TableConfig(PretrainedConfig):
    model_type = "beamline_table"

    def __init__(self, vocab_size=12, **kwargs):
        super().__init__(**kwargs)
        self.vocab_size = vocab_size


class TableModel(PreTrainedModel, GenerationMixin):
    config_class = TableConfig

    def __init__(self, config, tables):
        super().__init__(config)
        self.anchor = torch.nn.Parameter(torch.zeros(1))
        self.last, self.before, self.position = (torch.tensor(t).float() / SCALE for t in tables)

    def forward(self, input_ids, attention_mask=None, **kwargs):
        before = torch.roll(input_ids, 1, dims=1)
        logits = self.last[input_ids] + self.position[: input_ids.shape[1]]
        logits[:, 1:] += self.before[before[:, 1:]]
        return CausalLMOutput(logits=logits)

    def prepare_inputs_for_generation(self, input_ids, **kwargs):
        return {"input_ids": input_ids}

    def _reorder_cache(self, past, index):
        return past


class StopIds(StoppingCriteria):
    def __init__(self, ids):
        self.ids = torch.tensor(ids)

    def __call__(self, input_ids, scores, **kwargs):
        return torch.isin(input_ids[:, -1], self.ids)


class StopTexts(StoppingCriteria):
    """True where the last token completes one of the strings in the generated text."""

    def __init__(self, strings, pieces, prompt_size):
        self.strings, self.pieces, self.prompt_size = strings, pieces, prompt_size

    def __call__(self, input_ids, scores, **kwargs):
        rows = input_ids[:, self.prompt_size :].tolist()
        texts = ["".join(self.pieces[i] for i in row) for row in rows]
        return torch.tensor([any(s in t for s in self.strings) for t in texts])


def make_tables(rng, vocab_size):
    def table(rows, spread):
        return [[int(rng.gauss(0, spread) * SCALE) for _ in range(vocab_size)] for _ in range(rows)]

    return table(vocab_size, 1.5), table(vocab_size, 1.0), table(MAX_POSITIONS, 0.7)


def random_case(rng, vocab_size, pieces):
    beams = rng.choice([1, 2, 3, 4, 5, 6, 8])
    case = {
        "prompt": [rng.randrange(3, vocab_size) for _ in range(rng.choice([1, 1, 2, 5]))],
        "num_beams": beams,
        "num_return_sequences": rng.randint(1, beams),
        "max_new_tokens": rng.choice([1, 2, 5, 9, 14, 30]),
        "eos": rng.sample(range(3), rng.choice([0, 1, 1, 1, 2, 3])),
    }
    if beams > 1:
        case["early_stopping"] = rng.choice([True, False, "never"])
        case["length_penalty"] = rng.choice([-1.0, 0.0, 0.6, 1.0, 2.0])

    def maybe(chance, name, value):
        if rng.random() < chance:
            case[name] = value()

    maybe(0.25, "repetition_penalty", lambda: rng.choice([0.7, 1.2, 1.8]))
    maybe(0.25, "no_repeat_ngram_size", lambda: rng.choice([1, 2, 2, 3]) if vocab_size > 30 else 2)
    maybe(0.25, "bad_words", lambda: [[rng.randrange(vocab_size) for _ in range(rng.choice([1, 2, 2, 3]))]
                                      for _ in range(rng.choice([1, 3, 8]))])
    maybe(0.2, "suppress_tokens", lambda: rng.sample(range(3, vocab_size), 2))
    if case["eos"]:
        maybe(0.25, "min_new_tokens", lambda: rng.randint(1, case["max_new_tokens"]))
        maybe(0.2, "forced_eos", lambda: case["eos"][0])
    free = [i for i in range(3, vocab_size) if i not in case.get("suppress_tokens", [])]
    maybe(0.1, "forced_bos", lambda: rng.choice(free))
    if vocab_size > 30:
        maybe(0.25, "stop_ids", lambda: rng.sample(range(3, vocab_size), 2))
        if "stop_ids" not in case:
            maybe(0.3, "stop_strings",
                  lambda: ["".join(rng.choice(LETTERS) for _ in range(rng.choice([2, 3, 4]))) for _ in range(2)])
    # Beams that transformers can only fill with placeholders are not comparable.
    if vocab_size < 4 * beams:
        for name in ("bad_words", "suppress_tokens", "no_repeat_ngram_size"):
            case.pop(name, None)
    return case


def answer(model, case, pieces):
    options = {name: case[name] for name in
               ("num_beams", "num_return_sequences", "max_new_tokens", "early_stopping", "length_penalty",
                "repetition_penalty", "no_repeat_ngram_size", "suppress_tokens", "min_new_tokens")
               if name in case}
    if case["num_beams"] == 1:
        options["num_return_sequences"] = 1
    renamed = {"bad_words": "bad_words_ids", "forced_eos": "forced_eos_token_id", "forced_bos": "forced_bos_token_id"}
    options.update({renamed[name]: case[name] for name in renamed if name in case})
    config = GenerationConfig(eos_token_id=case["eos"] or None, pad_token_id=None, do_sample=False,
                              use_cache=False, return_dict_in_generate=True, output_scores=True,
                              output_logits=True, **options)
    criteria = StoppingCriteriaList()
    if "stop_ids" in case:
        criteria.append(StopIds(case["stop_ids"]))
    if "stop_strings" in case:
        criteria.append(StopTexts(case["stop_strings"], pieces, len(case["prompt"])))
    prompt = torch.tensor([case["prompt"]])
    with torch.no_grad():
        out = model.generate(prompt, attention_mask=torch.ones_like(prompt), generation_config=config,
                             stopping_criteria=criteria)
    if case["num_beams"] == 1:
        return [out.sequences[0, len(case["prompt"]) :].tolist()], None, True
    lengths = (out.beam_indices >= 0).sum(dim=1).tolist()
    ids = [row[len(case["prompt"]) :][:n].tolist() for row, n in zip(out.sequences, lengths)]
    scores = out.sequences_scores.tolist()
    return ids, scores, min(scores) > -1e8


def depends_on_early_stopping(model, case, pieces, ids):
    if "early_stopping" not in case:
        return False
    others = [mode for mode in (True, False, "never") if mode is not case["early_stopping"]]
    return any(answer(model, {**case, "early_stopping": mode}, pieces)[0] != ids for mode in others)


def write_models(path, models):
    with open(path, "w", encoding="ascii") as file:
        file.write('{"models": [\n')
        for i, model in enumerate(models):
            cases = model.pop("cases")
            file.write(json.dumps(model, separators=(",", ":"))[:-1] + ',"cases":[\n')
            file.write(",\n".join(json.dumps(case, separators=(",", ":")) for case in cases))
            file.write("]}" + (",\n" if i + 1 < len(models) else "\n"))
        file.write("]}\n")


def main():
    torch.manual_seed(0)
    rng = random.Random(20240611)
    models = []
    for vocab_size, wanted in ((12, 150), (40, 350)):
        tables = make_tables(rng, vocab_size)
        model = TableModel(TableConfig(vocab_size=vocab_size), tables).eval()
        pieces = ["", "", ""] + [rng.choice(LETTERS) + (rng.choice(LETTERS) if i % 2 else "")
                                 for i in range(3, vocab_size)]
        cases = []
        while len(cases) < wanted:
            case = random_case(rng, vocab_size, pieces)
            ids, scores, comparable = answer(model, case, pieces)
            if not comparable:
                continue
            # A third of the cases tell the modes of early stopping apart.
            if len(cases) % 3 == 0 and not depends_on_early_stopping(model, case, pieces, ids):
                continue
            case["ids"] = ids
            if scores is not None:
                case["scores"] = [round(score, 6) for score in scores]
            cases.append(case)
        models.append({"vocab_size": vocab_size, "scale": SCALE, "last": tables[0], "before": tables[1],
                       "position": tables[2], "pieces": pieces, "cases": cases})
    write_models(sys.argv[1], models)


if __name__ == "__main__":
    main()

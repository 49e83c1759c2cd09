"""What transformers answers, on the CPU, in float32, eager attention, one sequence at a time (no padding).

Each row is also computed in float64. A row whose ids differ there is not stable: a test of exact ids on it
would test rounding. Every row function returns (row, stable).
"""

import json
import os

import torch


def round9(values):
    return [float("%.9g" % value) for value in values]


class Checkpoint:
    """One folder's tokenizer and model in both precisions. Kinds: encoder_decoder, decoder, encoder."""

    def __init__(self, folder, with_tokenizer=True):
        import transformers

        torch.set_num_threads(1)
        torch.set_grad_enabled(False)
        transformers.logging.set_verbosity_error()
        self.folder = folder
        config = transformers.AutoConfig.from_pretrained(folder)
        architecture = (config.architectures or [""])[0]
        if config.is_encoder_decoder:
            self.kind, loader = "encoder_decoder", transformers.AutoModelForSeq2SeqLM
        elif architecture.endswith(("LMHeadModel", "ForCausalLM")) and not os.path.exists(os.path.join(folder, "modules.json")):
            self.kind, loader = "decoder", transformers.AutoModelForCausalLM
        else:
            self.kind, loader = "encoder", transformers.AutoModel
        # transformers' eager Falcon adds its ALiBi twice: to the mask, and to the scores.
        attention = "sdpa" if getattr(config, "alibi", False) else "eager"
        options = {"dtype": torch.float32, "attn_implementation": attention, "experts_implementation": "eager"}
        self.float32 = loader.from_pretrained(folder, **options).eval()
        self.float64 = loader.from_pretrained(folder, **options).eval().double()
        self.tokenizer = transformers.AutoTokenizer.from_pretrained(folder) if with_tokenizer else None
        eos = self.float32.generation_config.eos_token_id if self.float32.can_generate() else None
        self.eos_ids = set(eos if isinstance(eos, list) else [eos])

    def ids(self, text):
        return self.tokenizer(text)["input_ids"]

    def cut(self, ids, start):
        """ids from `start` up to and with the end token."""
        kept = []
        for token in ids[start:]:
            kept.append(int(token))
            if token in self.eos_ids:
                break
        return kept

    def start(self, input_ids, options=()):
        """How many leading ids of generate()'s answer were given: the prompt, or the decoder's inputs."""
        if self.kind == "decoder":
            return len(input_ids)
        return len(options["decoder_input_ids"]) if "decoder_input_ids" in options else 1

    def generate(self, model, input_ids, **options):
        ids = torch.tensor([input_ids])
        if "decoder_input_ids" in options:
            options["decoder_input_ids"] = torch.tensor([options["decoder_input_ids"]])
        return model.generate(ids, attention_mask=torch.ones_like(ids), do_sample=False,
                              return_dict_in_generate=True, **options)

    def greedy(self, model, input_ids, **limits):
        """ids, their log-probabilities, the five best first tokens and the smallest gap of the two best logits.
        `limits` may have `decoder_input_ids`, a list, here and in beams()."""
        answer = self.generate(model, input_ids, num_beams=1, output_logits=True, **limits)
        ids = self.cut(answer.sequences[0].tolist(), self.start(input_ids, limits))
        logprobs = [step[0].log_softmax(-1) for step in answer.logits]
        best = [step[0].topk(2).values.tolist() for step in answer.logits]
        first = logprobs[0].topk(5)
        return {"ids": ids, "logprobs": round9([row[token].item() for row, token in zip(logprobs, ids)]),
                "first_top5": [{"id": token, "logprob": value}
                               for token, value in zip(first.indices.tolist(), round9(first.values.tolist()))],
                "min_margin": float("%.6g" % min(high - low for high, low in best))}

    def beams(self, model, input_ids, num_beams, num_return, **options):
        """Hypotheses, best first. score = sum of log-probabilities / (number of ids) ** length_penalty."""
        answer = self.generate(model, input_ids, num_beams=num_beams, num_return_sequences=num_return,
                               output_scores=True, **options)
        start = self.start(input_ids, options)
        return [{"ids": self.cut(ids, start), "score": float("%.9g" % score)}
                for ids, score in zip(answer.sequences.tolist(), answer.sequences_scores.tolist())]

    def both(self, compute):
        """compute(model) in float32, and whether its ids are the same in float64."""
        single, double = compute(self.float32), compute(self.float64)
        return single, only_ids(single) == only_ids(double)


def only_ids(value):
    """The same nest of lists with the ids alone."""
    if isinstance(value, dict):
        return [only_ids(item) for key, item in value.items() if key not in ("logprobs", "min_margin", "score", "logprob")]
    return [only_ids(item) for item in value] if isinstance(value, list) else value


EXTRA_BEAMS = {
    "length_penalty_0.6": (4, {"length_penalty": 0.6}),
    "length_penalty_2.0": (4, {"length_penalty": 2.0}),
    "num_beams_8": (8, {"length_penalty": 1.0}),
    "no_repeat_ngram_size_3": (4, {"length_penalty": 1.0, "no_repeat_ngram_size": 3}),
}


def encoder_decoder_row(checkpoint, text, max_length, extras):
    """As tests/golden/translate.jsonl. max_length counts the decoder start token."""
    input_ids, limits = checkpoint.ids(text), {"max_length": max_length, "early_stopping": False}

    def compute(model):
        answer = {"greedy": checkpoint.greedy(model, input_ids, max_length=max_length),
                  "beam4": checkpoint.beams(model, input_ids, 4, 4, length_penalty=1.0, **limits)}
        if extras:
            answer["extra"] = {name: checkpoint.beams(model, input_ids, width, 4, **options, **limits)
                               for name, (width, options) in EXTRA_BEAMS.items()}
        return answer

    answer, stable = checkpoint.both(compute)
    hidden = checkpoint.float32.get_encoder()(input_ids=torch.tensor([input_ids])).last_hidden_state[0]
    decode = checkpoint.tokenizer.decode
    row = {"text": text, "input_ids": input_ids, "greedy_ids": answer["greedy"]["ids"],
           "greedy_text": decode(answer["greedy"]["ids"], skip_special_tokens=True),
           "greedy_min_margin": answer["greedy"]["min_margin"], "beam4": answer["beam4"],
           "beam4_text": decode(answer["beam4"][0]["ids"], skip_special_tokens=True),
           "encoder": {"mean": float("%.9g" % hidden.double().mean().item()),
                       "first_token": round9(hidden[0, :4].tolist()), "last_token": round9(hidden[-1, :4].tolist())}}
    if extras:
        row["extra"] = answer["extra"]
    return row, stable


def decoder_row(checkpoint, text, max_new_tokens, extra=""):
    """As tests/golden/write.jsonl. extra: "beam", "repetition_penalty" or nothing."""
    input_ids = checkpoint.ids(text)

    def compute(model):
        answer = {"greedy": checkpoint.greedy(model, input_ids, max_new_tokens=max_new_tokens)}
        if extra == "beam":
            answer["beam4"] = checkpoint.beams(model, input_ids, 4, 4, max_new_tokens=max_new_tokens,
                                               length_penalty=1.0, early_stopping=False)
        if extra == "repetition_penalty":
            penalised = checkpoint.generate(model, input_ids, num_beams=1, max_new_tokens=max_new_tokens,
                                            repetition_penalty=1.3)
            answer["repetition_penalty_1.3_ids"] = checkpoint.cut(penalised.sequences[0].tolist(), len(input_ids))
        return answer

    answer, stable = checkpoint.both(compute)
    greedy = answer.pop("greedy")
    row = {"text": text, "input_ids": input_ids, "greedy_ids": greedy["ids"], "greedy_logprobs": greedy["logprobs"],
           "greedy_text": checkpoint.tokenizer.decode(greedy["ids"]), "greedy_min_margin": greedy["min_margin"],
           "first_top5": greedy["first_top5"], **answer}
    return row, stable


def read_json(folder, *names):
    path = os.path.join(folder, *names)
    if not os.path.exists(path):
        return None
    with open(path, encoding="utf-8") as file:
        return json.load(file)


def encoder_row(checkpoint, text):
    """As tests/golden/embed.jsonl: pooled and normalised as the folder's sentence-transformers files say,
    else mean pooling without normalising."""
    pooling = read_json(checkpoint.folder, "1_Pooling", "config.json") or {}
    modules = [module["type"] for module in read_json(checkpoint.folder, "modules.json") or []]
    limit = (read_json(checkpoint.folder, "sentence_bert_config.json") or {}).get("max_seq_length")
    limit = limit or checkpoint.float32.config.max_position_embeddings
    input_ids = checkpoint.tokenizer(text, truncation=True, max_length=limit)["input_ids"]
    hidden = checkpoint.float32(input_ids=torch.tensor([input_ids])).last_hidden_state[0]
    use_cls = pooling.get("pooling_mode_cls_token") or pooling.get("pooling_mode") == "cls"
    vector = hidden[0] if use_cls else hidden.mean(0)
    if any("Normalize" in module for module in modules):
        vector = torch.nn.functional.normalize(vector, dim=0)
    return {"text": text, "input_ids": input_ids, "truncated": len(checkpoint.ids(text)) > limit,
            "embedding": [float("%.7g" % value) for value in vector.tolist()]}, True


def tokenizer_row(checkpoint, text):
    ids = checkpoint.ids(text)
    decode = checkpoint.tokenizer.decode
    return {"text": text, "ids": ids, "decoded": decode(ids, skip_special_tokens=True),
            "decoded_raw": decode(ids, skip_special_tokens=False)}

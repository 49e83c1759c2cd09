"""One peer engine as a process: answers one JSON request a line on stdin with one JSON line on stdout.

usage: worker.py ENGINE MODELS_FOLDER MODEL THREADS        ENGINE: torch-eager, torch-sdpa, ctranslate2

One model a process: two OpenMP teams in one process make Intel's runtime yield instead of spin, which
slows the smallest steps tenfold.

Request: {"task", "batch", "max_new_tokens", "inputs": [[ids], ...]}.
Answer:  {"seconds", "outputs"}: generated ids up to and with the end token, or embeddings.
Tokens go in and come out: no tokenizer is timed. Inputs run `batch` at a time, in their order.
"""

import json
import os
import sys
import tempfile
import time

END_TOKEN = {"translate-en-de": 0, "write-en": 5999}
BEAMS = {"translate-greedy": 1, "translate-beam4": 4, "write-greedy": 1}


def cut_at_end(ids, end_token):
    ids = [int(token) for token in ids]
    return ids[: ids.index(end_token) + 1] if end_token in ids else ids


def batches(inputs, batch):
    return [inputs[start : start + batch] for start in range(0, len(inputs), batch)]


class Torch:
    """transformers' generate() and BertModel, float32, padded batches, as its documentation shows."""

    def __init__(self, folder, name, threads, attention):
        import torch
        import transformers

        transformers.logging.set_verbosity_error()
        torch.set_num_threads(threads)
        torch.set_grad_enabled(False)
        self.torch = torch
        classes = {
            "translate-en-de": transformers.AutoModelForSeq2SeqLM,
            "write-en": transformers.AutoModelForCausalLM,
            "embed-en": transformers.AutoModel,
        }
        self.name = name
        self.model = (
            classes[name]
            .from_pretrained(os.path.join(folder, name), dtype=torch.float32, attn_implementation=attention)
            .eval()
        )

    def pad(self, inputs, pad_id, left):
        width = max(len(ids) for ids in inputs)
        ids = self.torch.full((len(inputs), width), pad_id)
        mask = self.torch.zeros((len(inputs), width), dtype=self.torch.long)
        for row, tokens in enumerate(inputs):
            columns = slice(width - len(tokens), width) if left else slice(0, len(tokens))
            ids[row, columns] = self.torch.tensor(tokens)
            mask[row, columns] = 1
        return ids, mask

    def run(self, request, inputs):
        model = self.model
        if request["task"] == "embed":
            ids, mask = self.pad(inputs, 0, left=False)
            hidden = model(input_ids=ids, attention_mask=mask).last_hidden_state
            weights = mask.unsqueeze(-1).to(hidden.dtype)
            mean = (hidden * weights).sum(1) / weights.sum(1)
            return self.torch.nn.functional.normalize(mean, dim=-1).tolist()
        end_token = END_TOKEN[self.name]
        decoder_only = self.name == "write-en"
        ids, mask = self.pad(inputs, end_token if decoder_only else 7999, left=decoder_only)
        generated = model.generate(
            input_ids=ids,
            attention_mask=mask,
            do_sample=False,
            num_beams=BEAMS[request["task"]],
            max_new_tokens=request["max_new_tokens"],
            early_stopping=False,
            length_penalty=1.0,
            pad_token_id=end_token if decoder_only else 7999,
        )
        start = ids.shape[1] if decoder_only else 1
        return [cut_at_end(row[start:].tolist(), end_token) for row in generated]


def keep_start_token(converters):
    """Converts Marian with its decoder start token: the converter starts from a zero embedding, as the
    OPUS models were trained, while translate-en-de has a trained one."""
    marian, bart = converters.MarianMTLoader, converters.BartLoader
    set_config = marian.set_config

    def set_config_with_start(self, config, model, tokenizer):
        set_config(self, config, model, tokenizer)
        config.decoder_start_token = tokenizer.pad_token

    marian.set_config = set_config_with_start
    marian.set_decoder = bart.set_decoder
    marian.get_vocabulary = bart.get_vocabulary
    marian._remove_pad_weights = lambda self, spec: None


class CTranslate2:
    """The demo checkpoints converted by ctranslate2's own converter, float32."""

    def __init__(self, folder, name, threads):
        import ctranslate2
        import numpy
        import transformers

        self.name, self.numpy = name, numpy
        # transformers 5 dropped this field of BertConfig, which the converter still reads.
        transformers.BertConfig.position_embedding_type = "absolute"
        keep_start_token(ctranslate2.converters.transformers)
        kinds = {
            "translate-en-de": ctranslate2.Translator,
            "write-en": ctranslate2.Generator,
            "embed-en": ctranslate2.Encoder,
        }
        source = os.path.join(folder, name)
        with tempfile.TemporaryDirectory() as target:
            converter = ctranslate2.converters.TransformersConverter(source)
            converter.convert(target, quantization="float32", force=True)
            self.model = kinds[name](
                target, device="cpu", compute_type="float32", inter_threads=1, intra_threads=threads
            )
        if name != "embed-en":
            self.tokenizer = transformers.AutoTokenizer.from_pretrained(source)
        self.known_tokens = {}

    def tokens(self, ids):
        key = tuple(ids)
        if key not in self.known_tokens:
            self.known_tokens[key] = self.tokenizer.convert_ids_to_tokens(ids)
        return self.known_tokens[key]

    def prepare(self, request):
        """Turns ids into the token strings of CTranslate2's interface before the clock starts."""
        if request["task"] != "embed":
            for ids in request["inputs"]:
                self.tokens(ids)

    def run(self, request, inputs):
        name, model, limit = self.name, self.model, request["max_new_tokens"]
        if request["task"] == "embed":
            hidden = self.numpy.array(model.forward_batch(inputs).last_hidden_state)
            means = [hidden[row, : len(ids)].mean(0) for row, ids in enumerate(inputs)]
            return [(mean / self.numpy.linalg.norm(mean)).tolist() for mean in means]
        tokens = [self.tokens(ids) for ids in inputs]
        if name == "write-en":
            results = model.generate_batch(
                tokens,
                max_length=limit,
                beam_size=1,
                include_prompt_in_result=False,
                return_end_token=True,
            )
            return [cut_at_end(result.sequences_ids[0], END_TOKEN[name]) for result in results]
        results = model.translate_batch(
            tokens,
            beam_size=BEAMS[request["task"]],
            max_decoding_length=limit,
            length_penalty=1.0,
            return_end_token=True,
        )
        to_ids = self.tokenizer.convert_tokens_to_ids
        return [cut_at_end(to_ids(result.hypotheses[0]), END_TOKEN[name]) for result in results]


def main():
    engine, folder, name, threads = *sys.argv[1:4], int(sys.argv[4])
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # what libraries print goes to stderr
    if engine == "ctranslate2":
        peer = CTranslate2(folder, name, threads)
    else:
        peer = Torch(folder, name, threads, engine.removeprefix("torch-"))
    for line in sys.stdin:
        request = json.loads(line)
        if hasattr(peer, "prepare"):
            peer.prepare(request)
        started = time.perf_counter()
        outputs = [row for part in batches(request["inputs"], request["batch"]) for row in peer.run(request, part)]
        seconds = time.perf_counter() - started
        print(json.dumps({"seconds": seconds, "outputs": outputs}), file=answers, flush=True)


if __name__ == "__main__":
    main()

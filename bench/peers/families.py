"""Beamline next to PyTorch (transformers) and CTranslate2 on the shapes of three families, CPU, random weights.

usage: families.py --beamline BINARY [--int8] [--rounds N] [--threads N] [--batches 1,8,32] [--shapes NAME,...] [--out FILE.json] [--tiny]

In float32, or with --int8 CTranslate2 and Beamline in int8 (weights, and rows as they are multiplied) beside Beamline and PyTorch
in float32.

The shapes: a Llama of 125 million parameters, T5-small and MiniLM-L6 as a BERT. The checkpoints are written to a temporary
folder. Token ids go in and come out; every answer has the length that was asked for. In each round every engine runs the same
inputs, in an order that rotates; a figure is the median over the rounds. PyTorch is the better of its two attentions. An
engine's answers are compared with PyTorch's: random weights make scores that are close, so a few may leave them.

Needs torch, transformers and ctranslate2. FILE receives {"environment", "rows": [{"shape", "task", "batch", "same",
"seconds": {engine: S}, "over_torch", "over_ctranslate2"}]}.
"""

import argparse
import gc
import json
import os
import statistics
import sys
import tempfile
import time

import main as peers

TOKENS = 32  # in and out
SHAPES = {
    "llama-125m": ("Llama", "LlamaForCausalLM", ["write-greedy"], {
        "hidden_size": 768, "num_hidden_layers": 12, "num_attention_heads": 12, "num_key_value_heads": 4,
        "intermediate_size": 2560, "vocab_size": 32000, "max_position_embeddings": 512}),
    "t5-small": ("T5", "T5ForConditionalGeneration", ["translate-greedy", "translate-beam4"], {
        "d_model": 512, "d_kv": 64, "d_ff": 2048, "num_layers": 6, "num_heads": 8, "vocab_size": 32128}),
    "minilm-l6": ("Bert", "BertModel", ["embed"], {
        "hidden_size": 384, "num_hidden_layers": 6, "num_attention_heads": 12, "intermediate_size": 1536, "vocab_size": 30522}),
}
TINY = {"Llama": {"num_hidden_layers": 2, "vocab_size": 900}, "T5": {"num_layers": 2, "vocab_size": 900},
        "Bert": {"num_hidden_layers": 2, "vocab_size": 900}}
BEAMS = {"write-greedy": 1, "translate-greedy": 1, "translate-beam4": 4}
PAD, END, FIRST = 0, 1, 5


def write_checkpoint(shape, folder, tiny):
    """For Beamline in folder/shape; for the converter, which wants a tokenizer of its own kind, in folder/converted-shape."""
    import tokenizers
    import torch
    import transformers

    family, class_name, _, fields = SHAPES[shape]
    torch.manual_seed(7)
    config = getattr(transformers, family + "Config")(**{**fields, **(TINY[family] if tiny else {})}, pad_token_id=PAD)
    if family == "T5":
        config.decoder_start_token_id = PAD
    model = getattr(transformers, class_name)(config).eval()
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.ndim == 2:
                parameter.normal_(0, 1.5 * parameter.shape[1] ** -0.5)
    model.tie_weights()
    words = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"] + [f"word{i}" for i in range(5, config.vocab_size)]
    for name in (shape, "converted-" + shape):
        model.save_pretrained(os.path.join(folder, name))
        with open(os.path.join(folder, name, "vocab.txt"), "w", encoding="utf-8") as file:
            file.writelines(word + "\n" for word in words)
        with open(os.path.join(folder, name, "tokenizer_config.json"), "w", encoding="utf-8") as file:
            json.dump({"tokenizer_class": "BertTokenizer"}, file)  # not the one that goes with the model
    known = tokenizers.Tokenizer(tokenizers.models.WordLevel({word: i for i, word in enumerate(words)}, "[UNK]"))
    transformers.PreTrainedTokenizerFast(
        tokenizer_object=known, unk_token="[UNK]", pad_token="[PAD]", bos_token="[CLS]", eos_token="[UNK]",
        cls_token="[CLS]", sep_token="[SEP]").save_pretrained(os.path.join(folder, "converted-" + shape))
    return words


class Torch:
    def __init__(self, shape, folder, attention):
        import transformers

        model = getattr(transformers, SHAPES[shape][1])
        self.model = model.from_pretrained(os.path.join(folder, shape), attn_implementation=attention).eval()

    def run(self, task, inputs):
        import torch

        with torch.inference_mode():
            width = max(len(row) for row in inputs)
            ids = torch.tensor([row + [PAD] * (width - len(row)) for row in inputs])
            mask = torch.tensor([[1] * len(row) + [0] * (width - len(row)) for row in inputs])
            if task == "embed":
                hidden = self.model(input_ids=ids, attention_mask=mask).last_hidden_state
                mean = (hidden * mask.unsqueeze(-1)).sum(1) / mask.sum(1, keepdim=True)
                return torch.nn.functional.normalize(mean, dim=-1).tolist()
            answer = self.model.generate(ids, attention_mask=mask, do_sample=False, num_beams=BEAMS[task], min_new_tokens=TOKENS,
                                         max_new_tokens=TOKENS, pad_token_id=PAD)
        return [row[-TOKENS:] for row in answer.tolist()]


class CTranslate2:
    def __init__(self, shape, folder, words, threads, compute_type):
        import ctranslate2
        import transformers

        transformers.BertConfig.position_embedding_type = "absolute"  # which the converter still reads
        transformers.LlamaConfig.rope_theta = 10000.0
        self.words, self.ids = words, {word: i for i, word in enumerate(words)}
        kind = {"Llama": ctranslate2.Generator, "T5": ctranslate2.Translator, "Bert": ctranslate2.Encoder}[SHAPES[shape][0]]
        target = os.path.join(folder, "ctranslate2-" + shape)
        ctranslate2.converters.TransformersConverter(os.path.join(folder, "converted-" + shape)).convert(
            target, quantization=compute_type, force=True)
        self.model = kind(target, device="cpu", compute_type=compute_type, inter_threads=1, intra_threads=threads)

    def run(self, task, inputs):
        import numpy

        if task == "embed":
            hidden = numpy.array(self.model.forward_batch(inputs).last_hidden_state)
            means = [hidden[row, : len(ids)].mean(0) for row, ids in enumerate(inputs)]
            return [(mean / numpy.linalg.norm(mean)).tolist() for mean in means]
        tokens = [[self.words[i] for i in row] for row in inputs]
        if task == "write-greedy":
            answers = self.model.generate_batch(tokens, max_length=TOKENS, min_length=TOKENS, beam_size=1,
                                                include_prompt_in_result=False)
            return [answer.sequences_ids[0] for answer in answers]
        answers = self.model.translate_batch(tokens, beam_size=BEAMS[task], max_decoding_length=TOKENS,
                                             min_decoding_length=TOKENS, length_penalty=1.0)
        return [[self.ids[word] for word in answer.hypotheses[0]] for answer in answers]


class Beamline:
    def __init__(self, shape, folder, binary, threads, options=()):
        self.shape, self.folder, self.binary, self.threads, self.options = shape, folder, binary, threads, options

    def run(self, task, inputs):
        import subprocess

        with tempfile.NamedTemporaryFile("w", suffix=".jsonl") as file:
            file.writelines(json.dumps(row) + "\n" for row in inputs)
            file.flush()
            command = [self.binary, "--models", self.folder, "--model", self.shape, "--task", task, "--batch", str(len(inputs)),
                       "--max-new-tokens", str(TOKENS), "--threads", str(self.threads), "--input", file.name, "--outputs", *self.options]
            if task != "embed":
                command.append("--ignore-eos")
            done = subprocess.run(command, stdout=subprocess.PIPE, text=True, timeout=600, check=True)
        answer = json.loads(done.stdout.splitlines()[-1])
        self.seconds = answer["seconds"]  # without the process
        if task == "embed":  # a folder without modules.json asks for plain means
            return [[x / sum(y * y for y in row) ** 0.5 for x in row] for row in answer["outputs"]]
        return answer["outputs"]


def timed(engine, task, inputs):
    begin = time.perf_counter()
    outputs = engine.run(task, inputs)
    return getattr(engine, "seconds", time.perf_counter() - begin), outputs


def agree(outputs, wanted, task):
    if task == "embed":
        return sum(max(abs(a - b) for a, b in zip(x, y)) < 1e-4 for x, y in zip(outputs, wanted))
    return sum(list(x) == list(y) for x, y in zip(outputs, wanted))


def measure(engines, shape, task, batch, rounds, vocab):
    lengths = [TOKENS] * batch if task != "embed" else [8 + (i * 29) % 57 for i in range(batch)]
    inputs = [[FIRST + (7 * i + 31 * row) % (vocab - FIRST) for i in range(length)] for row, length in enumerate(lengths)]
    seconds, order, outputs = {name: [] for name in engines}, list(engines), {}
    for name in engines:
        outputs[name] = timed(engines[name], task, inputs)[1]
    for _ in range(rounds):
        for name in order:
            seconds[name].append(timed(engines[name], task, inputs)[0])
        order = order[1:] + order[:1]
    medians = {name: statistics.median(values) for name, values in seconds.items()}
    torch = [name for name in engines if name.startswith("torch")]
    row = {"shape": shape, "task": task, "batch": batch,
           "same": {name: agree(outputs[name], outputs[torch[0]], task) for name in engines}, "seconds": medians,
           "over_torch": round(min(medians[name] for name in torch) / medians["beamline"], 2)}
    if "ctranslate2" in medians:
        row["over_ctranslate2"] = round(medians["ctranslate2"] / medians["beamline"], 2)
    return row


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--beamline", required=True, help="path of beamline-bench")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--threads", type=int, default=os.cpu_count())
    parser.add_argument("--batches", default="1,8,32")
    parser.add_argument("--shapes", default=",".join(SHAPES))
    parser.add_argument("--int8", action="store_true", help="CTranslate2 and Beamline in int8")
    parser.add_argument("--out")
    parser.add_argument("--tiny", action="store_true", help="small stand-ins, for dry runs")
    options = parser.parse_args()
    import torch
    import transformers

    transformers.logging.set_verbosity_error()
    torch.set_num_threads(options.threads)
    result = {"environment": peers.environment(options), "rows": []}
    result["environment"]["command"] = "bench/peers/families.py " + " ".join(sys.argv[1:])
    for shape in options.shapes.split(","):
        with tempfile.TemporaryDirectory() as folder:
            words = write_checkpoint(shape, folder, options.tiny)
            engines = {"torch-eager": Torch(shape, folder, "eager")}
            if SHAPES[shape][0] != "T5":
                engines["torch-sdpa"] = Torch(shape, folder, "sdpa")
            engines["ctranslate2"] = CTranslate2(shape, folder, words, options.threads, "int8" if options.int8 else "float32")
            if options.int8:
                engines["beamline-float32"] = Beamline(shape, folder, options.beamline, options.threads)
            int8 = ("--weights", "int8", "--compute", "int8") if options.int8 else ()
            engines["beamline"] = Beamline(shape, folder, options.beamline, options.threads, int8)
            for task in SHAPES[shape][2]:
                for batch in [int(batch) for batch in options.batches.split(",")]:
                    result["rows"].append(measure(engines, shape, task, batch, options.rounds, len(words)))
                    print(json.dumps(result["rows"][-1]), flush=True)
            del engines
            gc.collect()
    if options.out:
        with open(options.out, "w", encoding="utf-8") as file:
            json.dump(result, file, indent=1)
            file.write("\n")


if __name__ == "__main__":
    main()

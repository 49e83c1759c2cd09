#!/usr/bin/env python3
"""Writes what sentence-transformers answers for folders of many settings: tests/golden/encode.jsonl.

usage: make_encode_golden.py OUT_FILE                       # what is committed
       make_encode_golden.py OUT_FILE --random 200 --seed 7  # a wider comparison, for encode_golden_test's argument

The first row is the tokenizer.json of the others that have none. Each other is a folder, that of tests/golden/random that `base` names
(xlm-roberta-2x24 where it does not), with `files` and `tensors` (files of weights) beside its config.json and weights, and what
sentence-transformers makes of it: `max_input_tokens`, `dimensions`, and `answers` to texts, one at a time. `refused`
is what Beamline says of a folder whose answers it does not give. Needs sentence-transformers 6, transformers, torch.
"""

import argparse
import json
import pathlib
import random
import shutil
import sys
import tempfile

import torch
from safetensors.torch import save_file
from sentence_transformers import SentenceTransformer
from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, processors, trainers

RANDOM = pathlib.Path(__file__).resolve().parent.parent / "tests/golden/random"
BASE = "xlm-roberta-2x24"
POSITIONS = 64
HIDDEN = 48
SPECIAL = ["<s>", "<unk>", "</s>", "<pad>", "<mask>"]  # the pad token has the id that config.json says
WORDS = "the quick brown fox jumps over a lazy dog query : passage find me The Quick FOX A Dog QUERY ab aB AB".split()
TEXTS = ["the quick brown fox", "The Quick FOX jumps over A lazy Dog", "find <pad> me <pad> <pad> a dog", "<mask> AB ab",
         "the quick brown fox jumps over a lazy dog the quick brown fox jumps over a lazy dog"]
MODES = ["cls", "max", "mean", "mean_sqrt_len_tokens", "lasttoken"]
LEGACY = {"cls": "pooling_mode_cls_token", "max": "pooling_mode_max_tokens", "mean": "pooling_mode_mean_tokens",
          "mean_sqrt_len_tokens": "pooling_mode_mean_sqrt_len_tokens", "lasttoken": "pooling_mode_lasttoken",
          "weightedmean": "pooling_mode_weightedmean_tokens"}


def tokenizer(normalizer=None, truncation=None, padding=False):
    vocab = {token: i for i, token in enumerate(SPECIAL + WORDS)}
    made = Tokenizer(models.WordLevel(vocab, unk_token="<unk>"))
    made.pre_tokenizer = pre_tokenizers.Whitespace()
    made.post_processor = processors.TemplateProcessing(single="<s> $A </s>", special_tokens=[("<s>", 0), ("</s>", 2)])
    made.add_special_tokens(SPECIAL)
    made.add_tokens(["aB"])  # looked for in the normalized text
    if normalizer:
        made.normalizer = normalizer
    if truncation:
        made.enable_truncation(truncation)
    if padding:
        made.enable_padding(length=20, pad_id=3, pad_token="<pad>")
    return json.loads(made.to_str())


def with_types(tokenizer_json):
    for piece in tokenizer_json["post_processor"]["single"][1:]:
        next(iter(piece.values()))["type_id"] = 1
    return tokenizer_json


def embedder_tokenizer():
    """As Qwen3-Embedding's: bytes, and a template that puts one token behind a text."""
    trained = Tokenizer(models.BPE())
    trained.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    trained.train_from_iterator(TEXTS, trainers.BpeTrainer(
        vocab_size=280, show_progress=False, initial_alphabet=sorted(pre_tokenizers.ByteLevel.alphabet())))
    trained.normalizer = normalizers.NFC()
    trained.add_special_tokens(["<|endoftext|>", "<|im_end|>"])
    end = trained.token_to_id("<|endoftext|>")
    trained.post_processor = processors.Sequence([processors.ByteLevel(trim_offsets=False), processors.TemplateProcessing(
        single="$A <|endoftext|>", special_tokens=[("<|endoftext|>", end)])])
    return json.loads(trained.to_str())


EMBEDDER_CONFIG = {"tokenizer_class": "Qwen2Tokenizer", "eos_token": "<|im_end|>", "pad_token": "<|endoftext|>", "padding_side": "left",
                   "model_max_length": 32}


def tokenizer_config(**fields):
    roles = {"bos_token": "<s>", "eos_token": "</s>", "cls_token": "<s>", "sep_token": "</s>", "unk_token": "<unk>",
             "pad_token": "<pad>", "mask_token": "<mask>"}
    return {"tokenizer_class": "TokenizersBackend", **roles, **fields}


def modules(*kinds, package="sentence_transformers.models"):
    paths = {"Transformer": ""}
    return [{"idx": i, "name": str(i), "path": paths.get(kind, f"{i}_{kind}"), "type": f"{package}.{kind}"}
            for i, kind in enumerate(kinds)]


def folder(mode="mean", normalize=False, hidden=HIDDEN, **files):
    """The files of a sentence-transformers folder; `files` by short names, None to leave one out."""
    kinds = ["Transformer", "Pooling"] + ["Normalize"] * normalize
    made = {"tokenizer": tokenizer(), "tokenizer_config": tokenizer_config(), "modules": modules(*kinds),
            "pooling": {"pooling_mode": mode}, "transformer": None, "model": None, **files}
    if "embedding_dimension" not in made["pooling"]:
        made["pooling"] = {"word_embedding_dimension": hidden, **made["pooling"]}
    names = {"pooling": "1_Pooling/config.json", "transformer": "sentence_bert_config.json",
             "model": "config_sentence_transformers.json"}
    return {names.get(key, key + ".json"): value for key, value in made.items() if value is not None}


def cases():
    """name, files, options of the requests, what Beamline says when it refuses the folder."""
    for mode in MODES:
        for normalize in (False, True):
            yield f"{mode}, normalize {normalize}", folder(mode, normalize), {}
    yield "older pooling field", folder(pooling={LEGACY["max"]: True, LEGACY["cls"]: False}), {}
    yield "no pooling field", folder(pooling={}), {}
    yield "newer pooling field first", folder(pooling={"pooling_mode": "cls", LEGACY["max"]: True}), {}
    yield "no modules", folder(modules=None, transformer={"max_seq_length": 6, "do_lower_case": True},
                               model={"prompts": {"q": "query : "}, "default_prompt_name": "q", "truncate_dim": 8}), {}
    yield "model_max_length", folder(tokenizer_config=tokenizer_config(model_max_length=9)), {}
    yield "model_max_length of a plain folder", folder(
        modules=None, tokenizer_config=tokenizer_config(model_max_length=7)), {}
    yield "no limit", folder(tokenizer_config=tokenizer_config(model_max_length=10**30)), {}
    yield "max_seq_length first", folder(transformer={"max_seq_length": 12, "do_lower_case": False},
                                         tokenizer_config=tokenizer_config(model_max_length=9)), {}
    yield "tokenizer_args first", folder(transformer={"max_seq_length": 12, "tokenizer_args": {"model_max_length": 5}}), {}
    yield "processing_kwargs first", folder(
        transformer={"max_seq_length": 12, "processing_kwargs": {"text": {"max_length": 6}}}), {}
    yield "left truncation", folder(tokenizer_config=tokenizer_config(model_max_length=8, truncation_side="left")), {
        "truncate": "left"}
    yield "the tokenizer's own truncation and padding", folder(tokenizer=tokenizer(truncation=5, padding=True)), {}
    yield "do_lower_case", folder(transformer={"do_lower_case": True}), {}
    for name, normalizer in (("a lowercasing", normalizers.Lowercase()), ("another", normalizers.Replace("The", "Quick")),
                             ("a sequence", normalizers.Sequence([normalizers.NFC(), normalizers.Replace("A", "ab")]))):
        yield f"do_lower_case with {name} normalizer", folder(
            transformer={"do_lower_case": True}, tokenizer=tokenizer(normalizer)), {}
    yield "truncate_dim", folder(normalize=True, model={"truncate_dim": 16}), {}
    yield "truncate_dim, normalised again", folder(normalize=True, model={"truncate_dim": 16}), {"normalize": True}
    yield "truncate_dim over the size", folder(model={"truncate_dim": 4000}), {}
    prompts = {"prompts": {"query": "query : ", "passage": "passage : ", "none": None}, "default_prompt_name": "passage"}
    yield "default prompt", folder(model=prompts), {}
    yield "chosen prompt", folder(model=prompts), {"prompt_name": "query"}
    yield "empty prompt", folder(model=prompts), {"prompt_name": "none"}
    yield "prompt that no file names", folder(model={"default_prompt_name": "document"}), {}
    yield "prompts that are not chosen", folder(model={"prompts": {"query": "query : "}}), {}
    package = "sentence_transformers.sentence_transformer.modules"
    yield "modules of version 6", folder(modules=modules("Transformer", "Pooling", "Dropout", "Normalize", package=package)), {}
    query = {"prompts": {"query": "find : "}}
    yield "an embedder of Qwen 3", folder("lasttoken", True, 28, tokenizer=embedder_tokenizer(), tokenizer_config=EMBEDDER_CONFIG,
                                          model=query), {"base": "qwen3-6of2x6-embed"}
    yield "an embedder of Qwen 3 with a prompt", folder(
        "lasttoken", True, 28, tokenizer=embedder_tokenizer(), tokenizer_config=EMBEDDER_CONFIG,
        model={**query, "truncate_dim": 12}), {"base": "qwen3-6of2x6-embed", "prompt_name": "query"}
    yield "an embedder of Mistral", folder("lasttoken", True, 36, transformer={"max_seq_length": 12}), {"base": "mistral-4of2x8-embed"}
    yield "a class without a head and without modules", folder(modules=None), {"base": "mistral-4of2x8-embed"}
    for dense in dense_cases():
        yield dense
    for name, files, message in refused():
        yield name, files, {"refused": message}


def dense_module(path, in_features, out_features, bias=True, activation="activation.Tanh"):
    """The files of a Dense module, and its tensors."""
    generator = torch.Generator().manual_seed(in_features + out_features)
    tensors = {"linear.weight": torch.randn(out_features, in_features, generator=generator).mul(0.3)}
    if bias:
        tensors["linear.bias"] = torch.randn(out_features, generator=generator)
    config = {"in_features": in_features, "out_features": out_features, "bias": bias,
              "activation_function": "torch.nn.modules." + activation}
    return {path + "/config": config}, {
        path + "/model.safetensors": {name: tensor.mul(1000).round().div(1000).tolist() for name, tensor in tensors.items()}}


def dense_cases():
    files, tensors = dense_module("2_Dense", HIDDEN, 6)
    yield "a dense module", folder(modules=modules("Transformer", "Pooling", "Dense"), **files), {"tensors": tensors}
    yield "a dense module, normalised", folder(
        modules=modules("Transformer", "Pooling", "Dense", "Normalize"), **files), {"tensors": tensors}
    more, other = dense_module("3_Dense", 6, 9, False, "linear.Identity")
    yield "two dense modules, truncated", folder(
        "cls", modules=modules("Transformer", "Pooling", "Dense", "Dense", "Normalize"), model={"truncate_dim": 5}, **files,
        **more), {"tensors": {**tensors, **other}}


def refused():
    """Folders that sentence-transformers loads, or may, whose answers Beamline does not give."""
    yield "weightedmean", folder("weightedmean"), "1_Pooling/config.json: pooling_mode is \"weightedmean\""
    yield "two modes", folder(pooling={"pooling_mode": ["cls", "mean"]}), "pooling_mode is [\"cls\",\"mean\"]"
    yield "prompts not pooled", folder(pooling={"pooling_mode": "mean", "include_prompt": False},
                                       model={"prompts": {"query": "query : "}}), "prompts is {\"query\":"
    yield "normalising tokens", folder(normalize=True, **{"2_Normalize/config": {"module_input_name": "token_embeddings"}}), \
        "2_Normalize/config.json: module_input_name"
    yield "normalising first", folder(modules=[modules("Transformer", "Pooling")[0], {
        **modules("Normalize")[0], "idx": 9, "name": "9", "path": ""}, modules("Transformer", "Pooling")[1]]), "Normalize\"; "
    files, _ = dense_module("3_Dense", HIDDEN, 6)
    yield "dense behind normalising", folder(modules=modules("Transformer", "Pooling", "Normalize", "Dense"), **files), "Dense\"; "
    files, _ = dense_module("2_Dense", 40, 6)
    yield "dense of other vectors", folder(modules=modules("Transformer", "Pooling", "Dense"), **files), "in_features is 40; 48 is"
    files, _ = dense_module("2_Dense", HIDDEN, 6, activation="activation.Softsign")
    yield "dense of another function", folder(modules=modules("Transformer", "Pooling", "Dense"), **files), "activation_function is"
    yield "no room for text", folder(transformer={"max_seq_length": 1}), "the longest input has 1 tokens"
    yield "types of tokens", folder(tokenizer=with_types(tokenizer())), "\"type_id\" is 1; only 0"
    yield "sparse", folder(model={"model_type": "SparseEncoder"}), "model_type is \"SparseEncoder\""


def random_case(rng):
    mode = rng.choice(MODES + ["mean", "weightedmean"])
    pooling = rng.choice([{"pooling_mode": mode}, {LEGACY[mode]: True, LEGACY["max"]: mode == "max"}, {},
                          {"pooling_mode": [mode], "embedding_dimension": HIDDEN},
                          {"pooling_mode": mode, LEGACY["cls"]: True, "word_embedding_dimension": HIDDEN}])
    if rng.random() < 0.1:
        pooling["include_prompt"] = rng.random() < 0.5
    normalizer = rng.choice([None, None, normalizers.Lowercase(), normalizers.Replace("The", "Quick"), normalizers.BertNormalizer(),
                             normalizers.Sequence([normalizers.Lowercase(), normalizers.NFC()]),
                             normalizers.Sequence([normalizers.Replace("A", "Dog")])])
    config = {}
    if rng.random() < 0.6:
        config["model_max_length"] = rng.choice([4, 7, 12, 64, 512, 10**30, 1e30, None])
    if rng.random() < 0.2:
        config["max_len"] = rng.choice([5, 9])
    if rng.random() < 0.3:
        config["do_lower_case"] = rng.random() < 0.5
    side = rng.choice(["right", "right", "left"])
    if side == "left":
        config["truncation_side"] = "left"
    transformer = {}
    for key, values in {"max_seq_length": [5, 8, 64, 100, None], "do_lower_case": [True, True, False], "unpad_inputs": [None, False],
                        "query_length": [None, 6], "transformer_task": ["feature-extraction"],
                        "tokenizer_args": [{}, {"model_max_length": 6}], "model_args": [{}, {"attn_implementation": "eager"}],
                        "processing_kwargs": [{}, {"text": {"max_length": 9}}, {"common": {"max_length": 5}}],
                        "tokenizer_name_or_path": [None]}.items():
        if rng.random() < 0.3:
            transformer[key] = rng.choice(values)
    name = rng.choice(["sentence_bert_config", "sentence_bert_config", "sentence_roberta_config"])
    model, options = {}, {"truncate": side}
    if rng.random() < 0.4:
        model["prompts"] = rng.choice([{}, {"query": "query : "}, {"query": "Query ", "x": None, "passage": "passage : "}])
        options["prompt_name"] = rng.choice([""] + list(model["prompts"]))
        if rng.random() < 0.5:
            model["default_prompt_name"] = rng.choice(list(model["prompts"]) + ["query", "document", None])
    if rng.random() < 0.3:
        model["truncate_dim"] = rng.choice([1, 16, 48, 99, None])
    if rng.random() < 0.2:
        options["normalize"] = True
    kinds = rng.choice([["Transformer", "Pooling"], ["Transformer", "Pooling", "Normalize"], ["Transformer", "Pooling", "Dropout"],
                        ["Transformer", "Normalize", "Pooling"], ["Transformer"], ["Pooling", "Transformer"],
                        ["Transformer", "Pooling", "Normalize", "Dropout"]])
    files = folder(modules=rng.choice([modules(*kinds)] * 5 + [None]), pooling=pooling, model=model or None,
                   tokenizer=tokenizer(normalizer, rng.choice([None, None, 6]), rng.random() < 0.2),
                   tokenizer_config=tokenizer_config(**config), transformer=None, **({name: transformer} if transformer else {}))
    if kinds[:2] != ["Transformer", "Pooling"] and "Pooling" in kinds:
        files[f"{kinds.index('Pooling')}_Pooling/config.json"] = files.pop("1_Pooling/config.json")
    return files, options


def answers(files, options):
    """What sentence-transformers makes of the folder; raises what it raises."""
    with tempfile.TemporaryDirectory() as path:
        for name in ("config.json", "model.safetensors"):
            shutil.copy(RANDOM / options.get("base", BASE) / name, path)
        for name, value in files.items():
            file = pathlib.Path(path, name)
            file.parent.mkdir(exist_ok=True)
            file.write_text(json.dumps(value))
        for name, tensors in options.get("tensors", {}).items():
            save_file({key: torch.tensor(value) for key, value in tensors.items()}, pathlib.Path(path, name))
        model = SentenceTransformer(path, device="cpu", local_files_only=True, model_kwargs={"dtype": torch.float32})
        found = []
        for text in TEXTS:
            vector = model.encode([text], prompt_name=options.get("prompt_name") or None, convert_to_tensor=True,
                                  normalize_embeddings=options.get("normalize", False))[0]
            found.append({"text": text, "vector": [float("%.7g" % x) for x in vector.double().tolist()]})
        made = {"dimensions": len(found[0]["vector"]), "answers": found}
        if not model[0].processing_kwargs:  # which max_seq_length does not tell of
            made["max_input_tokens"] = min(model.max_seq_length, POSITIONS)
        return made


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("file", type=pathlib.Path)
    parser.add_argument("--random", type=int, default=0, help="random folders instead of the committed ones")
    parser.add_argument("--seed", type=int, default=1)
    args = parser.parse_args()
    torch.set_num_threads(1)
    rng = random.Random(args.seed)
    chosen = [(f"random {i}", *random_case(rng)) for i in range(args.random)] or cases()
    failed = 0
    with open(args.file, "w", encoding="utf-8") as out:
        out.write(json.dumps({"tokenizer.json": tokenizer()}, separators=(",", ":")) + "\n")
        for name, files, options in chosen:
            row = {"name": name, "files": files, "options": {key: options[key] for key in options if key != "tensors"}}
            if "base" in options:
                row["base"] = options["base"]
            if "tensors" in options:
                row["tensors"] = options["tensors"]
            if "refused" in options:
                row["refused"] = row["options"].pop("refused")
            else:
                try:
                    row.update(answers(files, options))
                except Exception as error:  # of a random folder, whatever the library raises
                    if not args.random:
                        raise
                    print(f"{name}: {type(error).__name__}: {error}"[:200], file=sys.stderr)
                    failed += 1
                    continue
            if row["files"]["tokenizer.json"] == tokenizer():
                del row["files"]["tokenizer.json"]
            out.write(json.dumps(row, ensure_ascii=False, separators=(",", ":")) + "\n")
    print(f"{failed} folders that sentence-transformers does not serve left out")


if __name__ == "__main__":
    main()

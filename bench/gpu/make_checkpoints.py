#!/usr/bin/env python3
"""Writes randomly initialised checkpoints of well-known sizes (shapes.py), float32, the same on every machine.

usage: make_checkpoints.py OUT_FOLDER [--tiny] [--jobs N] [NAME ...]

The tokenizer is a list of made-up words; callers give token ids. Needs transformers and torch.
"""

import argparse
import concurrent.futures
import json
import multiprocessing
import os

import shapes
import torch
import transformers

# Gains over matrices that keep the scale of their input. With all of them 1 the layers forget which tokens they
# read, and greedy decoding repeats one token for ever. Sharper attention and feed forwards of which few units fire
# keep answers changing, as trained models' do, and keep the errors of half precision small; found by trying.
QUERY_AND_KEY = ("q_proj.weight", "k_proj.weight", "query.weight", "key.weight", "SelfAttention.k.weight", "EncDecAttention.k.weight")
# T5 has no scale of its own before the softmax.
T5_QUERY = ("SelfAttention.q.weight", "EncDecAttention.q.weight")
INTO_RESIDUAL = ("c_proj.weight", "out_proj.weight", "output.dense.weight", "o_proj.weight", "down_proj.weight", "fc_out.weight",
                 "dense_4h_to_h.weight", "attention.dense.weight", "self_attention.dense.weight", "o.weight", "wo.weight")
PRE_NORM = {"query_and_key": 2.0, "residual": 2.0, "embedding": 3.0, "feed_forward": 2.0, "threshold": 0.0}
POST_NORM = {"query_and_key": 1.5, "residual": 0.4, "embedding": 1.0, "feed_forward": 1.5, "threshold": 1.0}


def gain_of(name, parameter, gains):
    """What the normal values of a matrix are multiplied by; a tensor where columns differ."""
    if "relative_attention_bias" in name:
        return 1.0
    if "embed" in name or "wte" in name or "wpe" in name or "shared" in name:
        return gains["embedding"] * parameter.shape[1] ** -0.5
    is_conv1d = any(part in name for part in ("c_attn", "c_proj", "c_fc"))  # stored [in, out]
    gain = parameter.shape[0 if is_conv1d else 1] ** -0.5
    if name.endswith(QUERY_AND_KEY):
        gain *= gains["query_and_key"]
    if "c_attn" in name:  # queries, keys and values side by side
        width = parameter.shape[0]
        gain = gain * torch.tensor([gains["query_and_key"]] * (2 * width) + [1.0] * width)
    if name.endswith(T5_QUERY):
        gain *= gains["query_and_key"] / 8
    if "query_key_value" in name or "qkv_proj" in name:
        gain *= gains["query_and_key"] ** 0.5
    if name.endswith(INTO_RESIDUAL):
        gain *= gains["residual"]
    if name.endswith("fc2.weight"):
        gain *= gains["feed_forward"]
    return gain


@torch.no_grad()
def initialise(model, seed):
    gains = POST_NORM if model.config.model_type in ("bert", "marian", "deberta", "deberta-v2") else PRE_NORM
    generator = torch.Generator().manual_seed(seed)
    for name, parameter in model.named_parameters():
        if "embed_positions" in name and model.config.model_type == "marian":
            continue  # sinusoids
        values = torch.randn(parameter.shape, generator=generator)
        if parameter.ndim == 2:
            values *= gain_of(name, parameter, gains)
        elif name.endswith("conv.conv.weight"):  # [out, in, tokens]
            values *= parameter[0].numel() ** -0.5
        elif parameter.ndim == 3:  # of experts [number, out, in]
            values *= parameter.shape[2] ** -0.5 * (gains["residual"] if name.endswith("down_proj") else 1.0)
        else:
            values = values * 0.1 + (1.0 if name.endswith("weight") else 0.0)
        if name.endswith("fc1.bias"):
            values -= gains["threshold"]
        parameter.copy_(values)
    model.tie_weights()


def write(folder, name, tiny):
    transformers.logging.set_verbosity_error()
    transformers.logging.disable_progress_bar()
    config = shapes.config_of(name, tiny)
    model = getattr(transformers, shapes.SHAPES[name][0])(config)
    initialise(model, 3000 + list(shapes.SHAPES).index(name))
    if shapes.is_translator(name):
        model.generation_config.bad_words_ids = [[config.pad_token_id]]
    model.save_pretrained(os.path.join(folder, name))
    special = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    words = special + [f"word{number}" for number in range(len(special), config.vocab_size)]
    with open(os.path.join(folder, name, "vocab.txt"), "w", encoding="utf-8") as file:
        file.writelines(word + "\n" for word in words)
    with open(os.path.join(folder, name, "tokenizer_config.json"), "w", encoding="utf-8") as file:
        json.dump({"tokenizer_class": "BertTokenizer"}, file)  # not the one that goes with the model
    count = sum(parameter.numel() for parameter in model.parameters())
    print(f"{name}: {count / 1e6:.1f}M parameters", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out_folder")
    parser.add_argument("names", nargs="*", default=list(shapes.SHAPES), metavar="NAME")
    parser.add_argument("--tiny", action="store_true", help="small stand-ins, for dry runs")
    parser.add_argument("--jobs", type=int, default=1, metavar="N", help="checkpoints at a time")
    options = parser.parse_intermixed_args()
    with concurrent.futures.ProcessPoolExecutor(options.jobs, multiprocessing.get_context("spawn")) as pool:
        for done in [pool.submit(write, options.out_folder, name, options.tiny) for name in options.names]:
            done.result()


if __name__ == "__main__":
    main()

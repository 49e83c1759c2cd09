"""Checkpoints of one narrow layer, or none, with random weights, which compute next to nothing: what is left of a call's
time is what serving costs. Python's own library alone."""

import json
import os
import random
import struct

WIDTH, VOCAB, POSITIONS = 8, 64, 512


def write_safetensors(path, shapes, seed):
    """float32 tensors of the given shapes: biases and other vectors near 1, matrices around 0."""
    numbers = random.Random(seed)
    header, data, offset = {}, [], 0
    for name, shape in shapes.items():
        count = 1
        for size in shape:
            count *= size
        centre = 1.0 if len(shape) == 1 else 0.0
        data.append(struct.pack(f"<{count}f", *(numbers.gauss(centre, 0.3) for _ in range(count))))
        header[name] = {"dtype": "F32", "shape": list(shape), "data_offsets": [offset, offset + 4 * count]}
        offset += 4 * count
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    with open(path, "wb") as stream:
        stream.write(struct.pack("<Q", len(text)) + text + b"".join(data))


def write_json(folder, name, value):
    with open(os.path.join(folder, name), "w", encoding="utf-8") as stream:
        json.dump(value, stream)


def write_bert(folder, num_layers=1):
    """Without layers it answers with the normed sums of its embeddings."""
    os.makedirs(folder)
    write_json(folder, "config.json", {
        "architectures": ["BertModel"], "model_type": "bert", "hidden_act": "gelu", "hidden_size": WIDTH,
        "intermediate_size": WIDTH, "num_attention_heads": 1, "num_hidden_layers": num_layers, "layer_norm_eps": 1e-12,
        "max_position_embeddings": POSITIONS, "type_vocab_size": 2, "vocab_size": VOCAB, "pad_token_id": 0})
    specials = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    with open(os.path.join(folder, "vocab.txt"), "w", encoding="utf-8") as stream:
        stream.writelines(f"{word}\n" for word in specials + [f"w{i}" for i in range(VOCAB - len(specials))])
    matrix, vector = (WIDTH, WIDTH), (WIDTH,)
    shapes = {"embeddings.word_embeddings.weight": (VOCAB, WIDTH),
              "embeddings.position_embeddings.weight": (POSITIONS, WIDTH),
              "embeddings.token_type_embeddings.weight": (2, WIDTH),
              "embeddings.LayerNorm.weight": vector, "embeddings.LayerNorm.bias": vector}
    for layer in range(num_layers):
        for part in ("attention.self.query", "attention.self.key", "attention.self.value", "attention.output.dense",
                     "intermediate.dense", "output.dense"):
            shapes[f"encoder.layer.{layer}.{part}.weight"] = matrix
            shapes[f"encoder.layer.{layer}.{part}.bias"] = vector
        for part in ("attention.output.LayerNorm", "output.LayerNorm"):
            shapes[f"encoder.layer.{layer}.{part}.weight"] = vector
            shapes[f"encoder.layer.{layer}.{part}.bias"] = vector
    write_safetensors(os.path.join(folder, "model.safetensors"), shapes, 1)


def write_gpt2(folder):
    os.makedirs(folder)
    write_json(folder, "config.json", {
        "architectures": ["GPT2LMHeadModel"], "model_type": "gpt2", "activation_function": "gelu_new",
        "n_embd": WIDTH, "n_head": 1, "n_layer": 1, "n_inner": WIDTH, "n_positions": POSITIONS, "vocab_size": VOCAB,
        "layer_norm_epsilon": 1e-5, "bos_token_id": 0, "eos_token_id": 0})
    write_json(folder, "vocab.json", {"<|endoftext|>": 0, **{chr(32 + i): i for i in range(1, VOCAB)}})
    with open(os.path.join(folder, "merges.txt"), "w", encoding="utf-8") as stream:
        stream.write("#version: 0.2\n")
    vector = (WIDTH,)
    shapes = {"wte.weight": (VOCAB, WIDTH), "wpe.weight": (POSITIONS, WIDTH), "ln_f.weight": vector,
              "ln_f.bias": vector, "h.0.attn.c_attn.weight": (WIDTH, 3 * WIDTH), "h.0.attn.c_attn.bias": (3 * WIDTH,)}
    for part in ("attn.c_proj", "mlp.c_fc", "mlp.c_proj"):
        shapes[f"h.0.{part}.weight"] = (WIDTH, WIDTH)
        shapes[f"h.0.{part}.bias"] = vector
    for part in ("ln_1", "ln_2"):
        shapes[f"h.0.{part}.weight"] = vector
        shapes[f"h.0.{part}.bias"] = vector
    write_safetensors(os.path.join(folder, "model.safetensors"), shapes, 2)

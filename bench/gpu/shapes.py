"""The models that are compared on a GPU, by size: BERT-base, GPT-2 124M, Transformer-base and -big (as Marian), and decoders
with grouped heads, rotated positions, norms of heads and windows."""

import json
import os

# name: (class of transformers, fields of its configuration, the same of a small stand-in for dry runs)
SHAPES = {
    "bert-base": ("BertModel", {}, {"hidden_size": 64, "num_attention_heads": 2, "num_hidden_layers": 2,
                                    "intermediate_size": 128, "vocab_size": 500}),
    "gpt2-124m": ("GPT2LMHeadModel", {}, {"n_embd": 64, "n_head": 2, "n_layer": 2, "vocab_size": 500}),
    "transformer-base": ("MarianMTModel", {"d_model": 512, "heads": 8, "layers": 6, "ffn": 2048, "vocab_size": 30000},
                         {"d_model": 64, "heads": 2, "layers": 2, "ffn": 128, "vocab_size": 500}),
    "transformer-big": ("MarianMTModel", {"d_model": 1024, "heads": 16, "layers": 6, "ffn": 4096, "vocab_size": 30000},
                        {"d_model": 96, "heads": 2, "layers": 2, "ffn": 128, "vocab_size": 500}),
    "llama-160m": ("LlamaForCausalLM",
                   {"hidden_size": 768, "num_hidden_layers": 12, "num_attention_heads": 12, "num_key_value_heads": 4,
                    "intermediate_size": 2048, "vocab_size": 32000, "max_position_embeddings": 2048,
                    "rope_parameters": {"rope_type": "llama3", "rope_theta": 500000.0, "factor": 8.0, "low_freq_factor": 1.0,
                                        "high_freq_factor": 4.0, "original_max_position_embeddings": 256}},
                   {"hidden_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2,
                    "intermediate_size": 96, "vocab_size": 500}),
    "qwen3-160m": ("Qwen3ForCausalLM",
                   {"hidden_size": 640, "num_hidden_layers": 12, "num_attention_heads": 10, "num_key_value_heads": 2,
                    "head_dim": 128, "intermediate_size": 2048, "vocab_size": 32000, "max_position_embeddings": 2048},
                   {"hidden_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2,
                    "head_dim": 32, "intermediate_size": 96, "vocab_size": 500}),
    "mistral-window": ("MistralForCausalLM",
                       {"hidden_size": 768, "num_hidden_layers": 8, "num_attention_heads": 12, "num_key_value_heads": 4,
                        "intermediate_size": 2048, "vocab_size": 32000, "max_position_embeddings": 2048,
                        "sliding_window": 96},
                       {"hidden_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2,
                        "intermediate_size": 96, "vocab_size": 500, "sliding_window": 24}),
}
FIRST_ID = 5  # below: special tokens


def marian_fields(d_model, heads, layers, ffn, vocab_size):
    """Without an end token: every answer has the length that was asked for. With a head of its own: where it is tied,
    random post-norm layers find the last token again and greedy decoding repeats it for ever."""
    pad = vocab_size - 1
    return {"d_model": d_model, "encoder_attention_heads": heads, "decoder_attention_heads": heads,
            "encoder_layers": layers, "decoder_layers": layers, "encoder_ffn_dim": ffn, "decoder_ffn_dim": ffn,
            "vocab_size": vocab_size, "decoder_vocab_size": vocab_size, "pad_token_id": pad,
            "decoder_start_token_id": pad, "bos_token_id": None, "eos_token_id": None, "forced_eos_token_id": None,
            "max_position_embeddings": 512, "scale_embedding": True, "activation_function": "relu",
            "share_encoder_decoder_embeddings": False, "tie_word_embeddings": False}


def config_of(name, tiny):
    """The configuration object; transformers is imported only here."""
    import transformers

    class_name, fields, tiny_fields = SHAPES[name]
    fields = tiny_fields if tiny else fields
    if class_name == "MarianMTModel":
        return transformers.MarianConfig(**marian_fields(**fields))
    if class_name == "GPT2LMHeadModel":
        return transformers.GPT2Config(**fields, bos_token_id=None, eos_token_id=None)
    if class_name.endswith("ForCausalLM"):
        config_class = getattr(transformers, class_name.replace("ForCausalLM", "Config"))
        return config_class(**fields, bos_token_id=None, eos_token_id=None)
    return transformers.BertConfig(**fields)


def is_encoder(name):
    return SHAPES[name][0] == "BertModel"


def is_translator(name):
    return SHAPES[name][0] == "MarianMTModel"


def vocab_size(folder, name):
    with open(os.path.join(folder, name, "config.json"), encoding="utf-8") as file:
        return json.load(file)["vocab_size"]


def load(folder, name, dtype, attention, device):
    """The checkpoint as transformers loads it."""
    import transformers

    model = getattr(transformers, SHAPES[name][0]).from_pretrained(
        os.path.join(folder, name), dtype=dtype, attn_implementation=attention)
    return model.eval().to(device)

"""The models that are compared on a GPU, by size: BERT-base, GPT-2 124M, Transformer-base and -big (as Marian), and one of
every other family of decoders and encoder-decoders that the CUDA backend serves, and DeBERTa, at some 100 million parameters."""

import json
import os

ROTATED = {"hidden_size": 768, "num_hidden_layers": 8, "num_attention_heads": 12, "intermediate_size": 2048, "vocab_size": 32000,
           "max_position_embeddings": 2048}
SMALL_ROTATED = {"hidden_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 96, "vocab_size": 500}
EXPERTS = {"hidden_size": 512, "num_hidden_layers": 6, "num_attention_heads": 8, "num_key_value_heads": 4, "vocab_size": 32000,
           "max_position_embeddings": 2048}
MANY_EXPERTS = {"intermediate_size": 1024, "moe_intermediate_size": 256, "num_experts": 32, "num_experts_per_tok": 4}
FEW_EXPERTS = {"num_key_value_heads": 2, "moe_intermediate_size": 32, "num_experts": 6, "num_experts_per_tok": 3}
T5 = {"d_model": 768, "d_kv": 64, "d_ff": 3072, "num_layers": 8, "num_heads": 12, "vocab_size": 32000}
SMALL_T5 = {"d_model": 64, "d_kv": 16, "d_ff": 96, "num_layers": 2, "num_heads": 2, "vocab_size": 500}
DEBERTA = {"hidden_size": 768, "num_hidden_layers": 12, "num_attention_heads": 12, "intermediate_size": 3072, "vocab_size": 32000,
           "relative_attention": True, "position_biased_input": False, "pos_att_type": ["p2c", "c2p"]}
SMALL_DEBERTA = DEBERTA | {"hidden_size": 64, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 128, "vocab_size": 500}
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
    "phi3": ("Phi3ForCausalLM", ROTATED | {"num_key_value_heads": 4, "rope_parameters": {
        "rope_type": "default", "rope_theta": 10000.0, "partial_rotary_factor": 0.75}}, SMALL_ROTATED),
    "smollm3": ("SmolLM3ForCausalLM", ROTATED | {"num_key_value_heads": 4}, SMALL_ROTATED),
    "starcoder2": ("Starcoder2ForCausalLM", ROTATED | {"num_key_value_heads": 2, "sliding_window": 96}, SMALL_ROTATED),
    "olmo": ("OlmoForCausalLM", ROTATED | {"num_key_value_heads": 4}, SMALL_ROTATED),
    "olmo2": ("Olmo2ForCausalLM", ROTATED | {"num_key_value_heads": 4}, SMALL_ROTATED),
    "mixtral": ("MixtralForCausalLM", EXPERTS | {"intermediate_size": 1024, "num_local_experts": 8, "num_experts_per_tok": 2},
                SMALL_ROTATED | {"num_key_value_heads": 2, "num_local_experts": 4, "num_experts_per_tok": 2}),
    "qwen2-moe": ("Qwen2MoeForCausalLM", EXPERTS | MANY_EXPERTS | {"shared_expert_intermediate_size": 512},
                  SMALL_ROTATED | FEW_EXPERTS | {"shared_expert_intermediate_size": 96}),
    "qwen3-moe": ("Qwen3MoeForCausalLM", EXPERTS | MANY_EXPERTS | {"head_dim": 128, "norm_topk_prob": True},
                  SMALL_ROTATED | FEW_EXPERTS | {"head_dim": 32, "norm_topk_prob": True}),
    "olmoe": ("OlmoeForCausalLM", EXPERTS | {"num_key_value_heads": 8, "intermediate_size": 256, "num_experts": 32, "num_experts_per_tok": 4},
              SMALL_ROTATED | {"num_experts": 6, "num_experts_per_tok": 3}),
    "pythia-160m": ("GPTNeoXForCausalLM", ROTATED | {"rope_parameters": {
        "rope_type": "default", "rope_theta": 10000.0, "partial_rotary_factor": 0.25}}, SMALL_ROTATED),
    "gptj": ("GPTJForCausalLM", {"n_embd": 768, "n_head": 3, "n_layer": 8, "n_positions": 2048, "rotary_dim": 64, "vocab_size": 32000},
             {"n_embd": 64, "n_head": 2, "n_layer": 2, "rotary_dim": 16, "vocab_size": 500}),
    "gpt-neo-125m": ("GPTNeoForCausalLM", {"hidden_size": 768, "num_layers": 12, "num_heads": 12, "vocab_size": 32000,
                                           "attention_types": [[["global", "local"], 6]]},
                     {"hidden_size": 64, "num_layers": 2, "num_heads": 2, "vocab_size": 500,
                      "attention_types": [[["global", "local"], 1]]}),
    "gemma": ("GemmaForCausalLM", ROTATED | {"num_attention_heads": 3, "num_key_value_heads": 1, "head_dim": 256},
              SMALL_ROTATED | {"num_key_value_heads": 2, "head_dim": 16}),
    "gemma2": ("Gemma2ForCausalLM", ROTATED | {"num_attention_heads": 6, "num_key_value_heads": 2, "head_dim": 128,
                                               "query_pre_attn_scalar": 128, "sliding_window": 96},
               SMALL_ROTATED | {"num_key_value_heads": 2, "head_dim": 16, "query_pre_attn_scalar": 16, "sliding_window": 24}),
    "gemma3": ("Gemma3ForCausalLM", ROTATED | {"num_attention_heads": 3, "num_key_value_heads": 1, "head_dim": 256,
                                               "query_pre_attn_scalar": 256, "sliding_window": 96},
               SMALL_ROTATED | {"num_key_value_heads": 2, "head_dim": 16, "query_pre_attn_scalar": 16, "sliding_window": 24}),
    "opt-125m": ("OPTForCausalLM", {"hidden_size": 768, "num_hidden_layers": 12, "num_attention_heads": 12, "ffn_dim": 3072,
                                    "word_embed_proj_dim": 768, "vocab_size": 32000},
                 {"hidden_size": 64, "num_hidden_layers": 2, "num_attention_heads": 2, "ffn_dim": 96, "word_embed_proj_dim": 64,
                  "vocab_size": 500}),
    "bloom": ("BloomForCausalLM", {"hidden_size": 768, "n_layer": 12, "n_head": 12, "vocab_size": 32000},
              {"hidden_size": 60, "n_layer": 2, "n_head": 3, "vocab_size": 500}),
    "falcon": ("FalconForCausalLM", ROTATED | {"num_kv_heads": 1, "multi_query": True, "parallel_attn": True, "alibi": False},
               SMALL_ROTATED | {"num_kv_heads": 1, "multi_query": True, "parallel_attn": True, "alibi": False}),
    "bart-base": ("BartForConditionalGeneration", {"d_model": 768, "heads": 12, "layers": 6, "ffn": 3072, "vocab_size": 32000},
                  {"d_model": 64, "heads": 2, "layers": 2, "ffn": 128, "vocab_size": 500}),
    "mbart": ("MBartForConditionalGeneration", {"d_model": 768, "heads": 12, "layers": 6, "ffn": 3072, "vocab_size": 32000},
              {"d_model": 64, "heads": 2, "layers": 2, "ffn": 128, "vocab_size": 500}),
    "m2m100": ("M2M100ForConditionalGeneration", {"d_model": 768, "heads": 12, "layers": 6, "ffn": 3072, "vocab_size": 32000},
               {"d_model": 64, "heads": 2, "layers": 2, "ffn": 128, "vocab_size": 500}),
    "t5-base": ("T5ForConditionalGeneration", T5, SMALL_T5),
    "t5-gated": ("T5ForConditionalGeneration", T5 | {"feed_forward_proj": "gated-gelu", "d_ff": 2048, "tie_word_embeddings": False},
                 SMALL_T5 | {"feed_forward_proj": "gated-gelu", "tie_word_embeddings": False}),
    "deberta-v3-base": ("DebertaV2Model", DEBERTA | {"position_buckets": 256, "norm_rel_ebd": "layer_norm", "share_att_key": True},
                        SMALL_DEBERTA | {"position_buckets": 16, "norm_rel_ebd": "layer_norm", "share_att_key": True}),
    "deberta-v2-conv": ("DebertaV2Model", DEBERTA | {"num_hidden_layers": 4, "position_buckets": 256, "conv_kernel_size": 3, "conv_act": "gelu"},
                        SMALL_DEBERTA | {"position_buckets": 16, "conv_kernel_size": 3, "conv_act": "gelu"}),
    "deberta-base": ("DebertaModel", DEBERTA, SMALL_DEBERTA),
}
FIRST_ID = 5  # below: special tokens


def translator_fields(d_model, heads, layers, ffn, vocab_size):
    """Of Marian and BART's kin, without an end token: every answer has the length that was asked for. With a head of its
    own: where it is tied, random post-norm layers find the last token again and greedy decoding repeats it for ever."""
    pad = vocab_size - 1
    return {"d_model": d_model, "encoder_attention_heads": heads, "decoder_attention_heads": heads,
            "encoder_layers": layers, "decoder_layers": layers, "encoder_ffn_dim": ffn, "decoder_ffn_dim": ffn,
            "vocab_size": vocab_size, "pad_token_id": pad, "decoder_start_token_id": pad, "bos_token_id": None,
            "eos_token_id": None, "forced_eos_token_id": None, "max_position_embeddings": 512, "scale_embedding": True,
            "activation_function": "relu", "tie_word_embeddings": False}


def config_of(name, tiny):
    """The configuration object; transformers is imported only here."""
    import transformers

    class_name, fields, tiny_fields = SHAPES[name]
    fields = tiny_fields if tiny else fields
    if class_name == "MarianMTModel":
        return transformers.MarianConfig(**translator_fields(**fields), decoder_vocab_size=fields["vocab_size"],
                                         share_encoder_decoder_embeddings=False)
    if class_name == "T5ForConditionalGeneration":
        pad = fields["vocab_size"] - 1
        return transformers.T5Config(**fields, pad_token_id=pad, decoder_start_token_id=pad, eos_token_id=None)
    if class_name.endswith("ForConditionalGeneration"):
        config_class = getattr(transformers, class_name.replace("ForConditionalGeneration", "Config"))
        config = config_class(**translator_fields(**fields))
        if class_name.startswith("M2M100"):
            config.pad_token_id = 1  # its positions do not count pads, and the decoder starts with one elsewhere
        return config
    if class_name == "GPT2LMHeadModel":
        return transformers.GPT2Config(**fields, bos_token_id=None, eos_token_id=None)
    if class_name == "Gemma3ForCausalLM":
        return transformers.Gemma3TextConfig(**fields, bos_token_id=None, eos_token_id=None, pad_token_id=None)
    if class_name.endswith("ForCausalLM"):
        config_class = getattr(transformers, class_name.replace("ForCausalLM", "Config"))
        return config_class(**fields, bos_token_id=None, eos_token_id=None, pad_token_id=None)
    return getattr(transformers, class_name.replace("Model", "Config"))(**fields)


def is_encoder(name):
    return SHAPES[name][0] in ("BertModel", "DebertaModel", "DebertaV2Model")


def is_translator(name):
    return SHAPES[name][0] == "MarianMTModel" or SHAPES[name][0].endswith("ForConditionalGeneration")


def vocab_size(folder, name):
    with open(os.path.join(folder, name, "config.json"), encoding="utf-8") as file:
        return json.load(file)["vocab_size"]


def load(folder, name, dtype, attention, device):
    """The checkpoint as transformers loads it."""
    import transformers

    # The grouped products that transformers takes for experts know no float64.
    experts = {"experts_implementation": "eager"} if "moe" in name or name == "mixtral" else {}
    model = getattr(transformers, SHAPES[name][0]).from_pretrained(
        os.path.join(folder, name), dtype=dtype, attn_implementation=attention, **experts)
    return model.eval().to(device)

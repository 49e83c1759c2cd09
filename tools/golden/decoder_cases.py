"""The decoders of make_random_checkpoints beside GPT-2 and Llama's kin; cases as its CASES."""

import torch
import transformers

# Their numbers, which are their seeds, begin here.
FIRST_NUMBER = 100
COMMON = {"bos_token_id": 1, "eos_token_id": 1, "pad_token_id": 1}


def decoder(family, hidden_size, heads, layers, vocab_size, rope=None, **other):
    if rope is not None:
        other["rope_parameters"] = {"rope_theta": 500.0, "rope_type": "default", **rope}
    return getattr(transformers, family + "Config")(
        hidden_size=hidden_size, num_attention_heads=heads, num_hidden_layers=layers, vocab_size=vocab_size,
        **{"max_position_embeddings": 64, **COMMON, **other})


def gptj(width, heads, layers, vocab_size, **other):
    return transformers.GPTJConfig(n_embd=width, n_head=heads, n_layer=layers, vocab_size=vocab_size, n_positions=64, **COMMON,
                                   **other)


def longrope(pairs, **other):
    return {"rope_type": "longrope", "short_factor": [1.0 + 0.1 * pair for pair in range(pairs)],
            "long_factor": [2.0 + pair for pair in range(pairs)], **other}


def gemma3_rope(full, sliding):
    return {"full_attention": full, "sliding_attention": sliding}


DECODER_CASES = {
    # A part of each head is rotated.
    "phi3-5of1x8-partial": ("Phi3ForCausalLM", decoder("Phi3", 40, 5, 2, 97, {"partial_rotary_factor": 0.75}, num_key_value_heads=1,
                                                       intermediate_size=46, tie_word_embeddings=True), torch.bfloat16, None),
    # Served with max_model_len 64.
    "phi3-3x40-longrope": ("Phi3ForCausalLM", decoder(
        "Phi3", 120, 3, 1, 71, longrope(20, partial_rotary_factor=1.0), intermediate_size=51, max_position_embeddings=256,
        original_max_position_embeddings=64, sliding_window=9), torch.float16, None),
    "starcoder2-6of2x6-window": ("Starcoder2ForCausalLM", decoder("Starcoder2", 36, 6, 2, 89, {}, num_key_value_heads=2,
                                                                  intermediate_size=50, sliding_window=7), torch.bfloat16, None),
    "starcoder2-4x10-plain": ("Starcoder2ForCausalLM", decoder("Starcoder2", 40, 4, 1, 73, {}, num_key_value_heads=4, use_bias=False,
                                                               intermediate_size=35, tie_word_embeddings=False), torch.float32, None),
    "gpt_neox-3x16-parallel": ("GPTNeoXForCausalLM", decoder("GPTNeoX", 48, 3, 2, 101, {"partial_rotary_factor": 0.25},
                                                             intermediate_size=60), torch.bfloat16, None),
    "gpt_neox-2x12-sequential": ("GPTNeoXForCausalLM", decoder("GPTNeoX", 24, 2, 2, 67, {"partial_rotary_factor": 0.5},
                                                               intermediate_size=40, use_parallel_residual=False,
                                                               attention_bias=False, tie_word_embeddings=True), torch.float32, None),
    "gptj-3x16": ("GPTJForCausalLM", gptj(48, 3, 2, 97, rotary_dim=6), torch.bfloat16, None),
    "gptj-5x8-whole": ("GPTJForCausalLM", gptj(40, 5, 1, 79, rotary_dim=8, n_inner=36), torch.float32, None),
    "gemma-5of1x12": ("GemmaForCausalLM", decoder("Gemma", 30, 5, 2, 83, {}, num_key_value_heads=1, head_dim=12,
                                                  intermediate_size=44), torch.bfloat16, None),
    "gemma3-4of2x10": ("Gemma3ForCausalLM", decoder(
        "Gemma3Text", 36, 4, 5, 91, num_key_value_heads=2, head_dim=10, intermediate_size=40, query_pre_attn_scalar=13,
        sliding_window=5, layer_types=["sliding_attention", "full_attention", "sliding_attention", "sliding_attention", "full_attention"],
        rope_parameters=gemma3_rope({"rope_type": "linear", "factor": 2.0, "rope_theta": 900.0},
                                    {"rope_type": "default", "rope_theta": 300.0})), torch.bfloat16, None),
    "gemma3-3x8-older": ("Gemma3ForCausalLM", decoder(
        "Gemma3Text", 24, 3, 3, 61, num_key_value_heads=3, head_dim=8, intermediate_size=33, query_pre_attn_scalar=8, sliding_window=4,
        sliding_window_pattern=2, attention_bias=True,
        rope_parameters=gemma3_rope({"rope_type": "linear", "factor": 4.0, "rope_theta": 700.0},
                                    {"rope_type": "default", "rope_theta": 200.0})), torch.float32, None),
    # Caps that bend scores and logits.
    "gemma2-4of2x10": ("Gemma2ForCausalLM", decoder(
        "Gemma2", 36, 4, 3, 79, {}, num_key_value_heads=2, head_dim=10, intermediate_size=40, query_pre_attn_scalar=7,
        sliding_window=6, attn_logit_softcapping=2.5, final_logit_softcapping=4.0), torch.bfloat16, None),
    "gemma2-3x8-uncapped": ("Gemma2ForCausalLM", decoder(
        "Gemma2", 24, 3, 2, 61, {}, num_key_value_heads=1, head_dim=8, intermediate_size=33, query_pre_attn_scalar=8,
        sliding_window=4096, attn_logit_softcapping=None), torch.float32, None),
    "opt-3x16": ("OPTForCausalLM", decoder("OPT", 48, 3, 2, 97, ffn_dim=60), torch.float16, None),
    # As facebook/opt-350m norms.
    "opt-5x8-post": ("OPTForCausalLM", decoder("OPT", 40, 5, 2, 71, ffn_dim=35, do_layer_norm_before=False, enable_bias=False,
                                               tie_word_embeddings=False), torch.float32, None),
    "gpt_neo-3x16-local": ("GPTNeoForCausalLM", transformers.GPTNeoConfig(
        hidden_size=48, num_heads=3, num_layers=3, vocab_size=101, max_position_embeddings=64, window_size=7,
        attention_types=[[["global", "local"], 1], [["local"], 1]], **COMMON), torch.bfloat16, None),
    "falcon-5of1x8": ("FalconForCausalLM", decoder("Falcon", 40, 5, 2, 89, {}, num_kv_heads=1), torch.bfloat16, None),
    "falcon-6of2x8-norms": ("FalconForCausalLM", decoder("Falcon", 48, 6, 2, 97, {}, num_kv_heads=2, new_decoder_architecture=True,
                                                         bias=True, ffn_hidden_size=50), torch.bfloat16, None),
    "falcon-3x8-sequential": ("FalconForCausalLM", decoder("Falcon", 24, 3, 2, 67, {}, multi_query=False, parallel_attn=False,
                                                           tie_word_embeddings=False), torch.float32, None),
    # Heads whose number is no power of 2 have slopes from two series.
    "bloom-5x8": ("BloomForCausalLM", transformers.BloomConfig(hidden_size=40, n_head=5, n_layer=2, vocab_size=97, **COMMON),
                  torch.bfloat16, None),
    "bloom-4x6-untied": ("BloomForCausalLM", transformers.BloomConfig(hidden_size=24, n_head=4, n_layer=1, vocab_size=71,
                                                                      tie_word_embeddings=False, **COMMON), torch.float32, None),
    "smollm3-6of2x6": ("SmolLM3ForCausalLM", decoder("SmolLM3", 36, 6, 5, 83, {}, num_key_value_heads=2, intermediate_size=40,
                                                     no_rope_layer_interval=2), torch.bfloat16, None),
    "smollm3-3x10-listed": ("SmolLM3ForCausalLM", decoder(
        "SmolLM3", 30, 3, 3, 67, {}, num_key_value_heads=3, intermediate_size=35, no_rope_layers=[0, 1, 0], attention_bias=True,
        mlp_bias=True, tie_word_embeddings=False), torch.float32, None),
    "olmo2-6of2x8": ("Olmo2ForCausalLM", decoder("Olmo2", 48, 6, 2, 89, {}, num_key_value_heads=2, intermediate_size=50),
                     torch.bfloat16, None),
    "olmo2-3x10-biases": ("Olmo2ForCausalLM", decoder("Olmo2", 30, 3, 1, 67, {}, intermediate_size=35, attention_bias=True,
                                                      rms_norm_eps=1e-4, tie_word_embeddings=True), torch.float32, None),
    # Clips that a good part of queries, keys and values are beyond.
    "olmo-4of2x10-clipped": ("OlmoForCausalLM", decoder("Olmo", 40, 4, 2, 83, {}, num_key_value_heads=2, intermediate_size=44,
                                                        clip_qkv=0.5), torch.bfloat16, None),
    "olmo-3x8": ("OlmoForCausalLM", decoder("Olmo", 24, 3, 1, 71, {}, intermediate_size=33, tie_word_embeddings=True),
                 torch.float32, None),
    # As facebook/opt-350m: besides, embeddings that are smaller than hidden states.
    "opt-3x8-projected": ("OPTForCausalLM", decoder("OPT", 24, 3, 2, 83, ffn_dim=36, do_layer_norm_before=False,
                                                    word_embed_proj_dim=18), torch.float16, None),
    # As tiiuae/falcon-rw-1b.
    "falcon-5x8-alibi": ("FalconForCausalLM", decoder("Falcon", 40, 5, 2, 79, alibi=True, multi_query=False, parallel_attn=False,
                                                      bias=True), torch.bfloat16, None),
    "mixtral-4of2x8": ("MixtralForCausalLM", decoder("Mixtral", 36, 4, 2, 83, {}, num_key_value_heads=2, head_dim=8,
                                                     intermediate_size=20, num_local_experts=5, num_experts_per_tok=2),
                       torch.bfloat16, None),
    # A window shorter than the prompts; every expert chosen.
    "mixtral-3x6-window": ("MixtralForCausalLM", decoder("Mixtral", 18, 3, 1, 61, {}, num_key_value_heads=3, intermediate_size=14,
                                                         num_local_experts=3, num_experts_per_tok=3, sliding_window=7),
                           torch.float32, None),
    "qwen3_moe-4of2x6": ("Qwen3MoeForCausalLM", decoder(
        "Qwen3Moe", 32, 4, 3, 89, {}, num_key_value_heads=2, head_dim=6, intermediate_size=40, moe_intermediate_size=12,
        num_experts=9, num_experts_per_tok=4, norm_topk_prob=True, mlp_only_layers=[1]), torch.bfloat16, None),
    # Shares that are not made to add up to 1.
    "qwen3_moe-3x8-sparse": ("Qwen3MoeForCausalLM", decoder(
        "Qwen3Moe", 24, 3, 4, 67, {}, num_key_value_heads=3, head_dim=8, intermediate_size=28, moe_intermediate_size=10,
        num_experts=6, num_experts_per_tok=2, decoder_sparse_step=2, attention_bias=True, tie_word_embeddings=True),
        torch.float32, None),
    "olmoe-4of2x8": ("OlmoeForCausalLM", decoder("Olmoe", 32, 4, 2, 79, {}, num_key_value_heads=2, intermediate_size=14,
                                                 num_experts=7, num_experts_per_tok=3), torch.bfloat16, None),
    "qwen2_moe-4of2x8": ("Qwen2MoeForCausalLM", decoder(
        "Qwen2Moe", 32, 4, 3, 73, {}, num_key_value_heads=2, intermediate_size=26, moe_intermediate_size=10,
        shared_expert_intermediate_size=22, num_experts=5, num_experts_per_tok=2, mlp_only_layers=[2]), torch.bfloat16, None),
    # Groups of queries that more ranks than groups divide.
    "falcon-4of2x6-groups": ("FalconForCausalLM", decoder("Falcon", 24, 4, 1, 61, {}, num_kv_heads=2, new_decoder_architecture=True,
                                                          bias=True, ffn_hidden_size=36), torch.float32, None),
}

# What transformers before 5 wrote: these fields of config.json instead of rope_parameters; None: none of that name.
OLDER_DECODER_NAMES = {
    "gpt_neox-2x12-sequential": {"rotary_emb_base": 500.0, "rotary_pct": 0.5},
    "phi3-3x40-longrope": {"rope_theta": 500.0, "rope_scaling": {
        "type": "longrope", **{name: value for name, value in longrope(20).items() if name != "rope_type"}}},
    # The first checkpoints say so and mean the tanh.
    "gemma-5of1x12": {"rope_theta": 500.0, "hidden_act": "gelu"},
    "gemma3-3x8-older": {"rope_theta": 700.0, "rope_scaling": {"rope_type": "linear", "factor": 4.0}, "rope_local_base_freq": 200.0,
                         "layer_types": None, "sliding_window_pattern": 2},
    "falcon-3x8-sequential": {"rope_theta": 500.0},
}

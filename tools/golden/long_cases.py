"""The checkpoints of make_long_golden: (class, config, stored dtype).
Most heads are untied: a tied one repeats the last token, whatever attention finds."""

import torch
import transformers
from decoder_cases import COMMON, decoder, gemma3_rope, longrope

POSITIONS = 4200
TARGET_POSITIONS = 700  # of encoder-decoders
HALF, BRAIN = torch.float16, torch.bfloat16


# Llama and similar families. `heads`: number of query heads, of key-value heads, head size.
def grouped(family, hidden_size, heads, layers, vocab_size, rope=None, **other):
    return decoder(family, hidden_size, heads[0], layers, vocab_size, {"rope_theta": 10000.0, **(rope or {})},
                   num_key_value_heads=heads[1], max_position_embeddings=POSITIONS,
                   **({} if family == "Phi3" else {"head_dim": heads[2]}), **{"intermediate_size": 30, **other})


def plain(family, hidden_size, heads, layers, vocab_size, rope=None, **other):
    return decoder(family, hidden_size, heads, layers, vocab_size, rope, max_position_embeddings=POSITIONS, **other)


def gpt(family, width, heads, layers, vocab_size, **other):
    return getattr(transformers, family + "Config")(n_embd=width, n_head=heads, n_layer=layers, vocab_size=vocab_size,
                                                    n_positions=POSITIONS, **COMMON, **other)


def translator(family, width, heads, layers, vocab_size, **other):
    return getattr(transformers, family + "Config")(
        d_model=width, encoder_attention_heads=heads, decoder_attention_heads=heads, encoder_layers=layers[0],
        decoder_layers=layers[1], encoder_ffn_dim=30, decoder_ffn_dim=30, vocab_size=vocab_size,
        max_position_embeddings=TARGET_POSITIONS, **other)


def t5(family, width, heads, layers, vocab_size, **other):
    return getattr(transformers, family + "Config")(
        d_model=width, num_heads=heads[0], d_kv=heads[1], num_layers=layers[0], num_decoder_layers=layers[1], d_ff=30,
        vocab_size=vocab_size, decoder_start_token_id=0, n_positions=TARGET_POSITIONS, **other)


LLAMA3 = {"rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
          "original_max_position_embeddings": 525}
YARN = {"rope_type": "yarn", "factor": 8.0, "original_max_position_embeddings": 525}

LONG_CASES = {
    "gpt2-3x8": ("GPT2LMHeadModel", gpt("GPT2", 24, 3, 2, 101), HALF),
    "llama-4of2x8": ("LlamaForCausalLM", grouped("Llama", 28, (4, 2, 8), 2, 97), BRAIN),
    "llama-6of2x6-llama3": ("LlamaForCausalLM", grouped("Llama", 30, (6, 2, 6), 2, 83, LLAMA3), BRAIN),
    "llama-3x10-linear": ("LlamaForCausalLM", grouped("Llama", 24, (3, 3, 10), 1, 71, {"rope_type": "linear", "factor": 4.0}), BRAIN),
    # Angles depend on the length only above max_position_embeddings.
    "llama-2of1x10-dynamic": ("LlamaForCausalLM", grouped("Llama", 20, (2, 1, 10), 2, 61, {"rope_type": "dynamic", "factor": 4.0}),
                              BRAIN),
    "mistral-4of2x6-dynamic": ("MistralForCausalLM", grouped("Mistral", 24, (4, 2, 6), 1, 67, {"rope_type": "dynamic", "factor": 2.0},
                                                             sliding_window=None), BRAIN),
    # The angles of all positions change beyond 783 tokens: within the answer to the second prompt.
    "phi3-3x8-longrope": ("Phi3ForCausalLM", grouped("Phi3", 24, (3, 3, 8), 2, 71, longrope(4, partial_rotary_factor=1.0),
                                                     original_max_position_embeddings=783), BRAIN),
    "phi3-5of1x8-partial": ("Phi3ForCausalLM", grouped("Phi3", 40, (5, 1, 8), 1, 97, {"partial_rotary_factor": 0.75}), BRAIN),
    "mistral-4of2x8-window100": ("MistralForCausalLM", grouped("Mistral", 36, (4, 2, 8), 2, 89, sliding_window=100), BRAIN),
    "mistral-3of1x6-window333": ("MistralForCausalLM", grouped("Mistral", 21, (3, 1, 6), 2, 79, sliding_window=333), BRAIN),
    "qwen2-6of2x4-window": ("Qwen2ForCausalLM", grouped("Qwen2", 24, (6, 2, 4), 3, 77, use_sliding_window=True, sliding_window=51,
                                                        max_window_layers=1), BRAIN),
    "qwen3-6of3x10-yarn": ("Qwen3ForCausalLM", grouped("Qwen3", 32, (6, 3, 10), 2, 93, YARN), BRAIN),
    "gemma-3of1x12": ("GemmaForCausalLM", grouped("Gemma", 27, (3, 1, 12), 1, 83, tie_word_embeddings=False), BRAIN),
    "gemma2-4of2x10-window": ("Gemma2ForCausalLM", grouped("Gemma2", 36, (4, 2, 10), 2, 79, query_pre_attn_scalar=7, sliding_window=130,
                                                           attn_logit_softcapping=5.0, final_logit_softcapping=8.0, tie_word_embeddings=False), BRAIN),
    "gemma3-4of2x8-window": ("Gemma3ForCausalLM", plain(
        "Gemma3Text", 28, 4, 3, 91, num_key_value_heads=2, head_dim=8, intermediate_size=30, query_pre_attn_scalar=13, sliding_window=77,
        layer_types=["sliding_attention", "full_attention", "sliding_attention"],
        rope_parameters=gemma3_rope({"rope_type": "linear", "factor": 8.0, "rope_theta": 100000.0},
                                    {"rope_type": "default", "rope_theta": 10000.0}), tie_word_embeddings=False), BRAIN),
    "bloom-5x6": ("BloomForCausalLM", plain("Bloom", 30, 5, 2, 97, seq_length=POSITIONS, tie_word_embeddings=False), BRAIN),
    "falcon-5x6-alibi": ("FalconForCausalLM", plain("Falcon", 30, 5, 2, 79, alibi=True, multi_query=False, parallel_attn=False, bias=True,
                                                    ffn_hidden_size=36, tie_word_embeddings=False), BRAIN),
    "falcon-6of2x6": ("FalconForCausalLM", plain("Falcon", 36, 6, 1, 97, {"rope_theta": 10000.0}, num_kv_heads=2,
                                                 new_decoder_architecture=True, ffn_hidden_size=36, tie_word_embeddings=False), BRAIN),
    "gpt_neox-3x12": ("GPTNeoXForCausalLM", plain("GPTNeoX", 36, 3, 2, 101, {"rope_theta": 10000.0, "partial_rotary_factor": 0.5},
                                                  intermediate_size=40), BRAIN),
    "gptj-3x10": ("GPTJForCausalLM", gpt("GPTJ", 30, 3, 2, 89, rotary_dim=6, n_inner=36), BRAIN),
    "gpt_neo-3x8-local": ("GPTNeoForCausalLM", transformers.GPTNeoConfig(
        hidden_size=24, num_heads=3, num_layers=2, vocab_size=101, max_position_embeddings=POSITIONS, window_size=61,
        attention_types=[[["global", "local"], 1]], **COMMON), HALF),
    "opt-3x8": ("OPTForCausalLM", plain("OPT", 24, 3, 2, 97, ffn_dim=30), HALF),
    "olmo2-4of2x8": ("Olmo2ForCausalLM", plain("Olmo2", 32, 4, 2, 89, {"rope_theta": 10000.0}, num_key_value_heads=2,
                                               intermediate_size=30), BRAIN),
    "starcoder2-4of2x6-window": ("Starcoder2ForCausalLM", plain("Starcoder2", 24, 4, 2, 73, {"rope_theta": 10000.0}, num_key_value_heads=2,
                                                                intermediate_size=30, sliding_window=130), BRAIN),
    "mixtral-4of2x8": ("MixtralForCausalLM", grouped("Mixtral", 28, (4, 2, 8), 2, 83, intermediate_size=16, num_local_experts=5,
                                                     num_experts_per_tok=2), BRAIN),
    "qwen3_moe-4of2x6": ("Qwen3MoeForCausalLM", grouped("Qwen3Moe", 24, (4, 2, 6), 2, 89, moe_intermediate_size=12, num_experts=7,
                                                        num_experts_per_tok=3, norm_topk_prob=True), BRAIN),
    "smollm3-3of1x10": ("SmolLM3ForCausalLM", plain("SmolLM3", 30, 3, 3, 83, {"rope_theta": 10000.0}, num_key_value_heads=1,
                                                    intermediate_size=30, no_rope_layer_interval=3), BRAIN),
    "olmoe-4of2x6": ("OlmoeForCausalLM", plain("Olmoe", 24, 4, 1, 79, {"rope_theta": 10000.0}, num_key_value_heads=2, intermediate_size=14,
                                               num_experts=7, num_experts_per_tok=3), BRAIN),
    "bart-3x8": ("BartForConditionalGeneration", translator("Bart", 24, 3, (1, 2), 97), HALF),
    "marian-3x10": ("MarianMTModel", translator("Marian", 30, 3, (1, 2), 89, activation_function="silu", pad_token_id=88, bos_token_id=0,
                                                eos_token_id=0, forced_eos_token_id=0, decoder_start_token_id=88), BRAIN),
    "m2m_100-5x6": ("M2M100ForConditionalGeneration", translator("M2M100", 30, 5, (1, 2), 101, tie_word_embeddings=False), BRAIN),
    "t5-3x8": ("T5ForConditionalGeneration", t5("T5", 30, (3, 8), (2, 2), 97, tie_word_embeddings=False), BRAIN),
    "mt5-2x7": ("MT5ForConditionalGeneration", t5("MT5", 20, (2, 7), (1, 1), 71), BRAIN),
}

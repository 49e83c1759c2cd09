"""The classifiers of decoders of make_classifier_golden: what is built like Llama or GPT-2, with tokenizers of their own."""

import json

import torch
import transformers
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, processors, trainers

# Their numbers, which are their seeds, begin here.
FIRST_NUMBER = 100
WORDS = "the quick brown fox jumps over a lazy dog who asks where mail is read and how to open new files ?".split()
SPECIAL = ["<unk>", "<s>", "</s>", "<pad>"]


def pieces():
    ends = sorted({"##" + word[-2:] for word in WORDS} | {word[:-2] for word in WORDS if len(word) > 3})
    tokens = dict.fromkeys([*SPECIAL, *WORDS[::2], *ends, *"abcdefghijklmnopqrstuvwxyz", *("##" + letter for letter in "aeiour")])
    return {token: i for i, token in enumerate(tokens)}


def words(before="", behind="", pad="<pad>"):
    """A file that counts as it is; tokens before each text and behind it."""
    made = Tokenizer(models.WordPiece(pieces(), unk_token="<unk>"))
    made.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    made.decoder = decoders.WordPiece()
    if before or behind:
        of_one = f"{before} $A {behind}".strip()
        made.post_processor = processors.TemplateProcessing(
            single=of_one, pair=of_one + " " + f"{before} $B {behind}".strip(),
            special_tokens=[(token, SPECIAL.index(token)) for token in {before, behind} if token])
    roles = {"pad_token": pad} if pad else {}
    return transformers.PreTrainedTokenizerFast(tokenizer_object=made, unk_token="<unk>", bos_token="<s>", eos_token="</s>", **roles,
                                                model_input_names=["input_ids", "attention_mask"])


def merges_of(pre_tokenizer, alphabet, special):
    trained = Tokenizer(models.BPE())
    trained.pre_tokenizer = pre_tokenizer
    trained.train_from_iterator([" ".join(WORDS)] * 3, trainers.BpeTrainer(
        vocab_size=len(alphabet) + 50, special_tokens=special, show_progress=False, initial_alphabet=sorted(alphabet)))
    made = json.loads(trained.to_str())["model"]
    return {"vocab": made["vocab"], "merges": [tuple(pair) for pair in made["merges"]]}


def over_bytes(name, special, **roles):
    return getattr(transformers, name)(
        **merges_of(pre_tokenizers.ByteLevel(add_prefix_space=False), pre_tokenizers.ByteLevel.alphabet(), special), **roles)


def over_characters(name, pre_tokenizer, special, **roles):
    return getattr(transformers, name)(**merges_of(pre_tokenizer, [*"▁?abcdefghijklmnopqrstuvwxyz"], special), **roles)


def qwen2(behind=False):
    made = over_bytes("Qwen2Tokenizer", ["<|endoftext|>"], eos_token="<|endoftext|>", pad_token="<|endoftext|>")
    if behind:
        made.backend_tokenizer.post_processor = processors.TemplateProcessing(
            single="$A <|endoftext|>", pair="$A $B <|endoftext|>", special_tokens=[("<|endoftext|>", 0)])
    return made


def gpt2():
    return over_bytes("GPT2Tokenizer", ["<|endoftext|>"], pad_token="<|endoftext|>")


def llama():
    return over_characters("LlamaTokenizer", pre_tokenizers.Metaspace("▁", prepend_scheme="first", split=False), SPECIAL[:3],
                           add_bos_token=True, pad_token=None)


def gemma():
    return over_characters("GemmaTokenizer", pre_tokenizers.Split(" ", "merged_with_previous"), ["<pad>", "<eos>", "<bos>", "<unk>", "<mask>"],
                           add_bos_token=True)


def labels(*names):
    return {"id2label": dict(enumerate(names)), "label2id": {name: i for i, name in enumerate(names)}}


def case(family, tokenizer, hidden_size, heads, layers, dtype, **other):
    return (family, tokenizer, {"hidden_size": hidden_size, "num_attention_heads": heads, "num_hidden_layers": layers, **other}, dtype)


def gpt(family, tokenizer, width, heads, layers, dtype, **other):
    return (family, tokenizer, {"n_embd": width, "n_head": heads, "n_layer": layers, "n_positions": 24, **other}, dtype)


GATED = {"num_key_value_heads": 2, "intermediate_size": 20, "head_dim": 6}
ENTITIES = labels("O", "B-PER", "I-PER", "B-LOC", "I-LOC")
# name: (family, tokenizer, fields of config.json, stored dtype). The kind of classes is in the name: "-rank" has one.
CASES = {
    "llama-4of2x6": case("Llama", llama, 24, 4, 2, torch.float32, **GATED, **labels("low", "middle", "high")),
    "mistral-4of2x6-rank": case("Mistral", lambda: words("<s>"), 24, 4, 1, torch.bfloat16, sliding_window=5, **GATED, **labels("LABEL_0")),
    "qwen2-4of2x6": case("Qwen2", qwen2, 24, 4, 1, torch.bfloat16, num_key_value_heads=2, intermediate_size=20,
                         problem_type="multi_label_classification", **labels("x", "y")),
    # The token at the end is that of padding, too, and so is none that counts.
    "qwen3-4of2x6-rank": case("Qwen3", lambda: qwen2(behind=True), 24, 4, 1, torch.float32, **GATED, **labels("LABEL_0")),
    "gemma-4of2x6": case("Gemma", gemma, 24, 4, 1, torch.bfloat16, **GATED, **labels("n", "p")),
    "gemma2-4of2x6-rank": case("Gemma2", gemma, 24, 4, 2, torch.float32, sliding_window=5, query_pre_attn_scalar=7,
                               attn_logit_softcapping=2.5, final_logit_softcapping=4.0, **GATED, **labels("LABEL_0")),
    "gemma3-4of2x6": case("Gemma3Text", lambda: words("<s>", "</s>"), 24, 4, 2, torch.bfloat16, sliding_window=5,
                          layer_types=["sliding_attention", "full_attention"], query_pre_attn_scalar=6, **GATED, **labels("a", "b", "c")),
    "gpt2-3x8": gpt("GPT2", gpt2, 24, 3, 1, torch.float16, **labels("negative", "positive")),
    "gptj-3x8": gpt("GPTJ", lambda: words(behind="</s>"), 24, 3, 1, torch.float32, rotary_dim=4, **labels("a", "b")),
    "gpt_neo-3x8": ("GPTNeo", words, {"hidden_size": 24, "num_heads": 3, "num_layers": 2, "max_position_embeddings": 24, "window_size": 5,
                                      "attention_types": [[["global", "local"], 1]], **labels("a", "b")}, torch.bfloat16),
    "gpt_neox-3x8-rank": case("GPTNeoX", words, 24, 3, 1, torch.float32, intermediate_size=30, **labels("LABEL_0")),
    "phi3-4of2x6": case("Phi3", lambda: words("<s>"), 24, 4, 1, torch.float16, num_key_value_heads=2, intermediate_size=20, **labels("a", "b")),
    "smollm3-4of2x6": case("SmolLM3", words, 24, 4, 2, torch.float32, num_key_value_heads=2, intermediate_size=20, no_rope_layer_interval=2,
                           **labels("a", "b")),
    "starcoder2-4of2x6": case("Starcoder2", words, 24, 4, 1, torch.bfloat16, num_key_value_heads=2, intermediate_size=20, sliding_window=7,
                              **labels("a", "b")),
    "olmo-4of2x6": case("Olmo", words, 24, 4, 1, torch.float32, num_key_value_heads=2, intermediate_size=20, **labels("a", "b")),
    "olmo2-4of2x6": case("Olmo2", words, 24, 4, 1, torch.bfloat16, num_key_value_heads=2, intermediate_size=20, **labels("a", "b")),
    "opt-3x8": case("OPT", lambda: words("</s>"), 24, 3, 1, torch.float16, ffn_dim=30, **labels("a", "b", "c")),
    # As facebook/opt-350m: the head reads what the last product makes of hidden states.
    "opt-3x8-projected": case("OPT", lambda: words("</s>"), 24, 3, 1, torch.float32, ffn_dim=30, word_embed_proj_dim=14,
                              do_layer_norm_before=False, **labels("a", "b", "c")),
    "bloom-3x8": ("Bloom", words, {"hidden_size": 24, "n_head": 3, "n_layer": 1, "seq_length": 24, **labels("a", "b")}, torch.bfloat16),
    "falcon-3of1x8": case("Falcon", words, 24, 3, 1, torch.float32, num_kv_heads=1, **labels("a", "b")),
    # As tiiuae/falcon-rw-1b.
    "falcon-3x8-alibi-rank": case("Falcon", words, 24, 3, 1, torch.bfloat16, alibi=True, multi_query=False, parallel_attn=False, bias=True,
                                  **labels("LABEL_0")),
    "mixtral-4of2x6": case("Mixtral", words, 24, 4, 1, torch.bfloat16, num_key_value_heads=2, head_dim=6, intermediate_size=14,
                           num_local_experts=4, num_experts_per_tok=2, **labels("a", "b")),
    "qwen2_moe-4of2x6": case("Qwen2Moe", words, 24, 4, 1, torch.bfloat16, num_key_value_heads=2, intermediate_size=20, moe_intermediate_size=8,
                             num_experts=4, num_experts_per_tok=2, shared_expert_intermediate_size=10, **labels("a", "b")),
    "qwen3_moe-4of2x6-rank": case("Qwen3Moe", words, 24, 4, 1, torch.float32, num_key_value_heads=2, head_dim=6, intermediate_size=20,
                                  moe_intermediate_size=8, num_experts=4, num_experts_per_tok=2, **labels("LABEL_0")),
}
TOKEN_CASES = {
    "llama-4of2x6-tokens": case("Llama", llama, 24, 4, 1, torch.float32, **GATED, **ENTITIES),
    "qwen3-4of2x6-tokens": case("Qwen3", lambda: qwen2(behind=True), 24, 4, 1, torch.bfloat16, **GATED, **ENTITIES),
    "gpt2-3x8-tokens": gpt("GPT2", gpt2, 24, 3, 1, torch.float16, **ENTITIES),
    "gemma-4of2x6-tokens": case("Gemma", gemma, 24, 4, 1, torch.float32, **GATED, **ENTITIES),
    "bloom-3x8-tokens": ("Bloom", words, {"hidden_size": 24, "n_head": 3, "n_layer": 1, "seq_length": 24, **ENTITIES}, torch.float32),
}

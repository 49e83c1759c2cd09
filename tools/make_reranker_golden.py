#!/usr/bin/env python3
"""Writes tiny randomly initialised models that write, and how transformers judges documents by the two tokens that may come next.

usage: make_reranker_golden.py OUT_FOLDER [NAME...]    (tests/golden/rerankers; fields: tests/golden/README.md)

Each folder has weights of odd sizes, a tokenizer of a few words and expected.json: the template, the two tokens, and for queries and
documents, whole and cut on either side, the ids and both logits. Needs transformers and torch.
"""

import json
import os
import sys

import torch
import transformers
from tokenizers import AddedToken

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "golden"))
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import decoder_classifiers  # noqa: E402
from decoder_classifiers import GATED, WORDS, case  # noqa: E402
from make_classifier_golden import roberta_tokenizer, write_checkpoint  # noqa: E402
from reference import round9  # noqa: E402

POSITIONS = 128  # of the longest input
QUERIES = ["where is mail read ?", "who jumps over a dog"]
DOCUMENTS = ["the mail is read over a dog", "", "how to open new files ?", "  the fox ", " ".join(WORDS * 2), "ask", " ".join(WORDS[::-1] * 8)]


def qwen3_tokenizer():
    made = decoder_classifiers.qwen2()
    made.add_special_tokens({"additional_special_tokens": ["<|im_start|>", "<|im_end|>"]})
    made.add_tokens([AddedToken("yes"), AddedToken("no")])
    return made


def t5_tokenizer():
    pieces = sorted({"▁" + word for word in [*WORDS, "true", "false", "Query:", "Document:", "Relevant:"]} | {"▁", *"abcdefghijklmnopqrstuvwxyz?:QDR"})
    vocab = [("<pad>", 0.0), ("</s>", 0.0), ("<unk>", 0.0)] + [
        (piece, -1.0 - 0.01 * i if piece.startswith("▁") else -9.0) for i, piece in enumerate(pieces)]
    return transformers.T5Tokenizer(vocab=vocab, extra_ids=0)


# The model card's recipe of Qwen3-Reranker, with fewer words.
QWEN3 = ("<|im_start|>system\nhow the files answer<|im_end|>\n<|im_start|>user\n<Instruct>: open mail\n<Query>: {query}\n"
         "<Document>: {document}<|im_end|>\n<|im_start|>assistant\n<think>\n\n</think>\n\n")
# name: (family and head, tokenizer, sizes, stored dtype), template, tokens.
CASES = {
    "qwen3-4of2x6": (case("Qwen3", qwen3_tokenizer, 24, 4, 2, torch.float32, **GATED), QWEN3, ["yes", "no"]),
    # As bge-reranker-v2-gemma asks: the begin token comes of the tokenizer's template.
    "gemma-4of2x6": (case("Gemma", decoder_classifiers.gemma, 24, 4, 1, torch.bfloat16, **GATED), "a: {query} \nb: {document}\nis b true",
                     ["a", "o"]),
    # The document first, and a begin token in the template itself.
    "llama-4of2x6": (case("Llama", decoder_classifiers.llama, 24, 4, 1, torch.float32, **GATED), "<s>{document} answers {query}?", ["a", "▁"]),
    # monoT5's.
    "t5-3x8": (("T5", t5_tokenizer, dict(d_model=24, d_kv=8, num_heads=3, num_layers=2, d_ff=30, decoder_start_token_id=0), torch.float32),
               "Query: {query} Document: {document} Relevant:", ["▁true", "▁false"]),
    "bart-3x8": (("Bart", roberta_tokenizer, dict(
        d_model=24, encoder_layers=1, decoder_layers=1, encoder_attention_heads=3, decoder_attention_heads=3, encoder_ffn_dim=30,
        decoder_ffn_dim=28, decoder_start_token_id=2, forced_bos_token_id=None, forced_eos_token_id=None), torch.bfloat16),
        "{query} ? {document}", ["a", "o"]),
}


def is_translator(family):
    return family in ("T5", "Bart")


def make_checkpoint(folder, number, family, tokenizer, sizes, dtype):
    torch.manual_seed(7000 + number)
    positions = {"n_positions": POSITIONS} if family == "T5" else {"max_position_embeddings": POSITIONS + 1 - is_translator(family)}
    config = getattr(transformers, family + "Config")(
        vocab_size=len(tokenizer), **{**positions, **sizes, "pad_token_id": tokenizer.pad_token_id,
                                      "bos_token_id": tokenizer.bos_token_id, "eos_token_id": tokenizer.eos_token_id})
    head = "ForConditionalGeneration" if is_translator(family) else "ForCausalLM"
    write_checkpoint(folder, getattr(transformers, family + head)(config), tokenizer, dtype, {})


def ids_of(tokenizer, template, query, document, side):
    """The ids of the filled template, without the document's tokens at one side that are too many."""
    before = template[:template.index("{document}")].replace("{query}", query)
    text = template.replace("{document}", document).replace("{query}", query)
    begin, end = len(before), len(before) + len(document)
    encoded = tokenizer(text, return_offsets_mapping=True)
    ids, offsets = encoded["input_ids"], encoded["offset_mapping"]
    if len(ids) > 1 and ids[0] == ids[1] and ids[0] in tokenizer.all_special_ids:  # the template has its own
        ids, offsets = ids[1:], offsets[1:]
    excess = len(ids) - POSITIONS
    if excess <= 0:
        return ids
    inside = [i for i, (first, last) in enumerate(offsets) if begin <= first < last <= end]
    inside = list(range(inside[0], inside[-1] + 1))  # with what stands for no characters in between
    assert len(inside) >= excess, (text, inside)
    cut = set(inside[-excess:] if side == "right" else inside[:excess])
    return [one for i, one in enumerate(ids) if i not in cut]


@torch.no_grad()
def make_expected(folder, family, template, tokens):
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    kind = transformers.AutoModelForSeq2SeqLM if is_translator(family) else transformers.AutoModelForCausalLM
    models = [kind.from_pretrained(folder, dtype=torch.float32, attn_implementation="eager").eval().to(dtype)
              for dtype in (torch.float32, torch.float64)]
    token_ids = [tokenizer.convert_tokens_to_ids(token) for token in tokens]
    assert tokenizer.unk_token_id not in token_ids and len(set(token_ids)) == 2, token_ids
    rows = []
    for query in QUERIES:
        for document in DOCUMENTS:
            for side in ("right", "left"):
                ids = ids_of(tokenizer, template, query, document, side)
                inputs = {"input_ids": torch.tensor([ids])}
                if is_translator(family):
                    inputs["decoder_input_ids"] = torch.tensor([[models[0].config.decoder_start_token_id]])
                found = [model(**inputs).logits[0, -1, token_ids].double() for model in models]
                rows.append({"query": query, "document": document, "truncate": side, "is_cut": len(ids) == POSITIONS, "ids": ids,
                             "logits": round9(found[1].tolist()), "float32_error": float("%.3g" % (found[0] - found[1]).abs().max().item())})
    with open(os.path.join(folder, "expected.json"), "w", encoding="utf-8") as file:
        json.dump({"template": template, "tokens": tokens, "token_ids": token_ids, "rows": rows}, file, ensure_ascii=False)
        file.write("\n")
    print(os.path.basename(folder), len(rows), "rows,", sum(row["is_cut"] for row in rows), "cut, ids up to", max(len(row["ids"]) for row in rows))


def main():
    out, names = sys.argv[1], sys.argv[2:]
    for number, (name, ((family, tokenizer, sizes, dtype), template, tokens)) in enumerate(CASES.items()):
        if names and name not in names:
            continue
        folder = os.path.join(out, name)
        make_checkpoint(folder, number, family, tokenizer(), sizes, dtype)
        make_expected(folder, family, template, tokens)


if __name__ == "__main__":
    main()

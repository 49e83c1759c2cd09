#!/usr/bin/env python3
"""Makes tokenizers of random parts and what Hugging Face's `tokenizers` answers for random texts.

usage: make_random_tokenizers.py OUT_FOLDER [--count 200] [--seed 1] [--rows 60]

For tokenizer_fixture_test, whose argument OUT_FOLDER is; the format is that of make_tokenizer_fixtures.py. Left out are
tokenizers whose answers hang on the library's hash order or crash it: added tokens that are equal, or empty, once they
are normalized, and patterns that match nothing at the beginning of a text, with a replacement.

Known to differ: offsets of byte-level BPE whose vocabulary lacks bytes and which has no unknown token.
"""

import argparse
import json
import pathlib
import random

from make_tokenizer_fixtures import ATOMS, charsmap, make_rows
from tokenizers import AddedToken, Regex, Tokenizer, models, normalizers, pre_tokenizers, processors

BEHAVIORS = ["removed", "isolated", "merged_with_previous", "merged_with_next", "contiguous"]
PIECES = ["a", "b", "c", "A", "e", "é", "▁", "_", " ", "ab", "abc", "▁a", "▁ab", "the", "x", "xyz", "new", "tok", "Ġ", "Ġa", "日", "中", "!", ".", "Q", "Qb",
          "##a", "##b", "##é", "\u0301", "ss", "fi", "f", "i", "1", "2", "o", "\u0323", "가"]
CHARSMAP = charsmap({"\u200b": "", "\ufeff": "", "ﬁ": "fi", "A": "xyz", "e\u0301": "é", "▁": "", "\u00a0": " ", "½": "1/2"})


def one_normalizer(rng):
    def flag():
        return rng.random() < 0.6

    return rng.choice([
        normalizers.NFC, normalizers.NFD, normalizers.NFKC, normalizers.NFKD, normalizers.Lowercase, normalizers.StripAccents, normalizers.Nmt,
        lambda: normalizers.Strip(left=flag(), right=flag()),
        lambda: normalizers.BertNormalizer(clean_text=flag(), handle_chinese_chars=flag(), strip_accents=rng.choice([None, True, False]), lowercase=flag()),
        lambda: normalizers.Prepend(rng.choice(["▁", " ", "x", "xé"])),
        lambda: normalizers.Replace(rng.choice([" ", "a", "ab", "é", "▁", "<"]), rng.choice(["▁", "xyz", "é", " ", ""])),
        lambda: normalizers.Replace(Regex(rng.choice([r"\s+", r"\p{M}", r"(?<=a)b", r"[^\x00-\x7f]", "a|b"])), rng.choice(["", " ", "Q", "éé"])),
        lambda: normalizers.Precompiled(CHARSMAP),
    ])()


def normalizer(rng):
    kind = rng.random()
    if kind < 0.1:
        return None
    if kind < 0.15:
        return normalizers.ByteLevel()
    if kind < 0.6:
        return one_normalizer(rng)
    return normalizers.Sequence([one_normalizer(rng) for _ in range(rng.randint(2, 4))])


def one_pre_tokenizer(rng):
    def flag():
        return rng.random() < 0.6

    behavior = rng.choice(BEHAVIORS)
    return rng.choice([
        lambda: pre_tokenizers.ByteLevel(add_prefix_space=flag(), use_regex=flag()),
        lambda: pre_tokenizers.Metaspace(rng.choice("▁_"), prepend_scheme=rng.choice(["first", "first", "always", "never"]), split=flag()),
        pre_tokenizers.Whitespace, pre_tokenizers.WhitespaceSplit, pre_tokenizers.BertPreTokenizer,
        lambda: pre_tokenizers.Punctuation(behavior), lambda: pre_tokenizers.Digits(flag()),
        lambda: pre_tokenizers.CharDelimiterSplit(rng.choice(" a▁")),
        lambda: pre_tokenizers.Split(rng.choice([" ", "a", "ab", "é"]), behavior, not flag()),
        lambda: pre_tokenizers.Split(Regex(rng.choice([r"\s+", r"\w+", "[ab]", r"\p{M}+", ".", "(?=a)", r" ?\p{L}+"])), behavior, not flag()),
    ])()


def pre_tokenizer(rng):
    kind = rng.random()
    if kind < 0.1:
        return None
    if kind < 0.65:
        return one_pre_tokenizer(rng)
    return pre_tokenizers.Sequence([one_pre_tokenizer(rng) for _ in range(rng.randint(2, 3))])


def bpe(rng, pieces):
    prefix = rng.choice(["", "", "##"])
    symbols = ["[UNK]"] + [piece for piece in pieces if len(piece) == 1 or prefix and piece.startswith(prefix)]
    byte_fallback = not prefix and rng.random() < 0.3  # with both, the library's offsets leave the word
    if byte_fallback:
        symbols += [f"<0x{byte:02X}>" for byte in range(256)]
    if not prefix and rng.random() < 0.4:
        symbols += pre_tokenizers.ByteLevel.alphabet()
    symbols = list(dict.fromkeys(symbols))
    parts = [symbol for symbol in symbols if len(symbol) == 1 or prefix and symbol.startswith(prefix)]
    merges = []
    for _ in range(12):
        left, right = rng.choice(parts), rng.choice(parts)
        if (left, right) in merges or not right.startswith(prefix):
            continue
        merges.append((left, right))
        joined = left + right[len(prefix):]
        if joined not in symbols:
            symbols.append(joined)
            parts.append(joined)
    options = {"unk_token": "[UNK]"} if rng.random() < 0.8 else {}
    if prefix:
        options["continuing_subword_prefix"] = prefix
    return models.BPE({symbol: i for i, symbol in enumerate(symbols)}, merges, fuse_unk=rng.random() < 0.5, byte_fallback=byte_fallback,
                      ignore_merges=rng.random() < 0.2, **options)


def model(rng):
    pieces = [piece for piece in PIECES if rng.random() < 0.75]
    vocab = {piece: i for i, piece in enumerate(["[UNK]"] + pieces)}
    kind = rng.choice(["words", "wordpiece", "bpe", "bpe", "unigram", "unigram"])
    if kind == "words":
        return models.WordLevel(vocab, unk_token="[UNK]")
    if kind == "wordpiece":
        return models.WordPiece(vocab, unk_token="[UNK]", max_input_chars_per_word=rng.choice([5, 100]))
    if kind == "bpe":
        return bpe(rng, pieces)
    scores = [("[UNK]", 0.0)] + [(piece, -round(rng.uniform(1, 8), 3)) for piece in pieces]
    byte_fallback = rng.random() < 0.5
    if byte_fallback:
        scores += [(f"<0x{byte:02X}>", -9.0) for byte in range(256)]
    return models.Unigram(scores, unk_id=0, byte_fallback=byte_fallback)


def added_tokens(rng):
    for content in ("newtok", "NewTok", "é", "The", "tok", "x y", " ", "▁t", "Ab", "日", "<s>", "</s>", "[MASK]"):
        if rng.random() < 0.3:
            special = content[0] in "<["
            yield AddedToken(content, single_word=rng.random() < 0.3, lstrip=rng.random() < 0.4, rstrip=rng.random() < 0.4,
                             normalized=rng.random() < (0.2 if special else 0.6), special=special)
    if rng.random() < 0.5:
        yield AddedToken("[UNK]", special=True, normalized=False)


def post_processor(rng):
    unknown = ("[UNK]", 0)
    return rng.choice([
        lambda: None, lambda: None,
        lambda: processors.ByteLevel(trim_offsets=True, add_prefix_space=rng.random() < 0.5),
        lambda: processors.RobertaProcessing(unknown, unknown, trim_offsets=rng.random() < 0.7, add_prefix_space=rng.random() < 0.5),
        lambda: processors.TemplateProcessing(single="[UNK] $A [UNK]", special_tokens=[unknown]),
    ])()


def make(rng):
    """A tokenizer, or None where the library's own answers are not certain."""
    made = Tokenizer(model(rng))
    parts = {"normalizer": normalizer(rng), "pre_tokenizer": pre_tokenizer(rng), "post_processor": post_processor(rng)}
    for name, part in parts.items():
        if part is not None:
            setattr(made, name, part)
    made.add_tokens(list(added_tokens(rng)))
    looked_for = []
    for token in made.get_added_tokens_decoder().values():
        rewritten = token.normalized and parts["normalizer"] is not None
        looked_for.append((token.normalized, parts["normalizer"].normalize_str(token.content) if rewritten else token.content))
    if len(set(looked_for)) < len(looked_for) or any(not text for _, text in looked_for):
        return None
    return made


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("--count", type=int, default=200)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--rows", type=int, default=60)
    args = parser.parse_args()
    rng = random.Random(args.seed)
    number = 0
    while number < args.count:
        try:
            tokenizer = make(rng)
        except BaseException as error:  # as below
            print(f"{number:04}: {error}"[:160])
            continue
        if tokenizer is None:
            continue
        folder = args.folder / f"{number:04}"
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "tokenizer.json").write_text(tokenizer.to_str() + "\n")
        with open(folder / "rows.jsonl", "w", encoding="utf-8") as file:
            for _ in range(args.rows):
                text = "".join(rng.choice(ATOMS) for _ in range(rng.choice([1, 1, 2, 3, 4, 6, 9, 14])))
                try:
                    row = next(make_rows(tokenizer, 0, rng, [text]))
                except BaseException as error:  # the library panics for some texts
                    print(f"{number:04}: {text!r}: {error}"[:160])
                    continue
                file.write(json.dumps(row, ensure_ascii=False) + "\n")
        number += 1


if __name__ == "__main__":
    main()

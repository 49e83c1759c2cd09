#!/usr/bin/env python3
"""Makes the small tokenizers and reference rows of tests/engine/text/fixtures with Hugging Face's `tokenizers`.

    tools/make_tokenizer_fixtures.py tests/engine/text/fixtures            # what is committed
    tools/make_tokenizer_fixtures.py /tmp/fuzz --rows 5000 --seed 7        # a wider comparison

For each tokenizer: NAME/tokenizer.json and NAME/rows.jsonl. A row is either a text with its ids, byte
offsets and both decodings, or a list of ids with its
decodings. Offsets of template tokens are [0, 0].
Rows are also made for the tokenizer.json files of models/ (NAME/rows.jsonl alone).
Long because each kind of tokenizer is made by a function of its own.
"""

import argparse
import json
import pathlib
import random
import unicodedata

from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers

ROOT = pathlib.Path(__file__).resolve().parent.parent

LLAMA3 = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*"
          r"|\s*[\r\n]+|\s+(?!\S)|\s+")
QWEN2 = LLAMA3.replace(r"\p{N}{1,3}", r"\p{N}")
O200K = (r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?"
         r"|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?"
         r"|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+")
BLOOM = " ?[^(\\s|[.,!?…。，、।۔،])]+"
CL100K = (r"'(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}++|\p{N}{1,3}+| ?[^\s\p{L}\p{N}]++[\r\n]*+|\s++$|\s*[\r\n]"
          r"|\s+(?!\S)|\s")
CLIP = r"'s|'t|'re|'ve|'m|'ll|'d|[\p{L}]+|[\p{N}]|[^\s\p{L}\p{N}]+"

NASTY = [
    "", " ", "  ", "\n", "\t\t", "\r\n", " \n ", "a", " a", "a ", "  a  b  ", "Hello, World!", "don't won't I'm we've they're it's",
    "I ' m here , now . ok ? yes !", "do not", "naïve café résumé Ångström", "cafe\u0301 e\u0301\u0323 o\u0308\u0302", "\u0301abc", "ﬁnance ﬂow ½ ² ① Å",
    "ÄÖÜ äöü ß ẞ İstanbul ıI", "日本語のテキスト", "中文字符，标点。", "한국어 각각", "العربية مرحبا", "עברית שלום", "हिन्दी में", "ไทยไม่มีช่องว่าง",
    "👍🏽 👨‍👩‍👧‍👦 🏳️‍🌈 🇩🇪🇫🇷", "a\u200db\u200cc\u200b\ufeffd", "\u00a0nbsp\u2003em\u3000wide", "tab\tand\nnewline\r\nmix\x0b\x0c\x1c\x85", "\x00\x01\x02\x7f\x80\x9f",
    "12345678901234567890 3.14159 1,000,000 ٣٤ Ⅷ ½", "http://example.com/path?x=1&y=2#z", "snake_case CamelCase kebab-case __init__",
    "a" * 130, "ab" * 100, " " * 40 + "x", "!!!???...---", "<s>", "</s>", "<unk>", "<s>a</s>", "x <s> y </s> z", "<mask>", "a <mask> b", "a<mask>b", "  <mask>  ", "[MASK] [CLS]",
    "<|begin_of_text|>Hi<|end|>", "<|begin_of_text|> Hi", "▁under▁score ▁", "▁▁", "Ġthe Ċ", "##ing ##", "<0x0A><0xE2>", "the new Token NEWTOKEN newtoken newtokens", "\ud7ff \ue000 \uffff \U0010ffff \U0001f600",
    "ｶﾞギガ ﾊﾟ", "\u1100\u1161\u11a8", "Ω\u2126 K\u212a", "᠎mongolian\u180e", "e\u0301" * 8, "x\u0300\u0301\u0302\u0303y", "\r\r\n\n\r", "\ufffd�", "ǅ ǆ Ǆ", "a\u00adb", "“quotes” ‘single’ «guillemets» – — …",
]

POOLS = [(0x20, 0x7E)] * 8 + [(0x20, 0x20)] * 4 + [(0xA0, 0x17F), (0x300, 0x36F), (0x370, 0x3FF), (0x400, 0x4FF), (0x590, 0x5FF), (0x600, 0x6FF), (0x900, 0x97F),
         (0xE00, 0xE7F), (0x1100, 0x11FF), (0x1E00, 0x1FFF), (0x2000, 0x206F), (0x2070, 0x218F), (0x3040, 0x30FF), (0x4E00, 0x4FFF), (0xAC00, 0xAD00), (0xF900, 0xFA2D),
         (0xFB00, 0xFB4F), (0xFE00, 0xFE0F), (0xFF00, 0xFFEF), (0x1F300, 0x1F64F), (0x1F1E6, 0x1F1FF), (0x1D400, 0x1D7FF), (0x0, 0x1F), (0x80, 0x9F), (0xE000, 0xE010), (0x0, 0x2FFFF)]


def random_text(rng, words, specials):
    parts = []
    for _ in range(rng.randint(1, 12)):
        kind = rng.random()
        if kind < 0.35:
            parts.append(rng.choice(words))
        elif kind < 0.45:
            parts.append(rng.choice(specials))
        elif kind < 0.55:
            parts.append(rng.choice(NASTY))
        elif kind < 0.7:
            parts.append(rng.choice([" ", "  ", "\n", "\t", "\r\n", "\u00a0", " \n\n ", "\u3000", "'s", ".", " .", ",", "\u0301"]))
        else:
            low, high = rng.choice(POOLS)
            parts.append("".join(chr(c) for c in (rng.randint(low, high) for _ in range(rng.randint(1, 8))) if unicodedata.category(chr(c)) not in ("Cn", "Cs")))
        if rng.random() < 0.4:
            parts.append(" ")
    return "".join(parts)


def corpus():
    texts = []
    for name in ("translate-en-de", "embed-en", "write-en"):
        for line in open(ROOT / "tests/golden" / f"tokenize.{name}.jsonl"):
            texts.append(json.loads(line)["text"])
    return texts + NASTY


def train(tokenizer, trainer):
    tokenizer.train_from_iterator(corpus(), trainer)
    return tokenizer


def llama3():
    t = Tokenizer(models.BPE(ignore_merges=True))
    t.pre_tokenizer = pre_tokenizers.Sequence([pre_tokenizers.Split(Regex(LLAMA3), "isolated"), pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)])
    t.decoder = decoders.ByteLevel()
    train(t, trainers.BpeTrainer(vocab_size=700, initial_alphabet=pre_tokenizers.ByteLevel.alphabet(), show_progress=False))
    t.add_special_tokens(["<|begin_of_text|>", "<|end|>"])
    t.post_processor = processors.Sequence([processors.ByteLevel(trim_offsets=True), processors.TemplateProcessing(single="<|begin_of_text|> $A", special_tokens=[("<|begin_of_text|>", t.token_to_id("<|begin_of_text|>"))])])
    return t


def o200k():
    t = Tokenizer(models.BPE())
    t.pre_tokenizer = pre_tokenizers.Sequence([pre_tokenizers.Split(Regex(O200K), "removed", invert=True), pre_tokenizers.ByteLevel(add_prefix_space=False, trim_offsets=False, use_regex=False)])
    t.decoder = decoders.ByteLevel()
    t.post_processor = processors.ByteLevel(trim_offsets=False)
    return train(t, trainers.BpeTrainer(vocab_size=600, special_tokens=["<|end|>"], initial_alphabet=pre_tokenizers.ByteLevel.alphabet(), show_progress=False))


def llama2():
    t = Tokenizer(models.BPE(unk_token="<unk>", byte_fallback=True, fuse_unk=True))
    t.normalizer = normalizers.Sequence([normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")])
    train(t, trainers.BpeTrainer(vocab_size=900, special_tokens=["<unk>", "<s>", "</s>"] + ["<0x%02X>" % b for b in range(256)], limit_alphabet=80, max_token_length=12, show_progress=False))
    # The trainer lists the byte tokens as added ones; in Llama's file they belong to the model alone.
    spec = json.loads(t.to_str())
    spec["added_tokens"] = [a for a in spec["added_tokens"] if not a["content"].startswith("<0x")]
    spec["model"]["merges"] = [" ".join(m) for m in spec["model"]["merges"]]  # as files before tokenizers 0.20
    t = Tokenizer.from_str(json.dumps(spec))
    t.post_processor = processors.TemplateProcessing(single="<s> $A", special_tokens=[("<s>", 1)])
    t.decoder = decoders.Sequence([decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse(), decoders.Strip(" ", 1, 0)])
    return t, spec["model"]["merges"]


def qwen2():
    """As transformers' Qwen2Tokenizer makes it."""
    t = Tokenizer(models.BPE())
    t.normalizer = normalizers.NFC()
    t.pre_tokenizer = pre_tokenizers.Sequence([pre_tokenizers.Split(Regex(QWEN2), "isolated"), pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)])
    t.decoder = decoders.ByteLevel()
    train(t, trainers.BpeTrainer(vocab_size=500, initial_alphabet=pre_tokenizers.ByteLevel.alphabet(), show_progress=False))
    t.add_special_tokens(["<|end|>", AddedToken("<mask>", lstrip=True, rstrip=True)])
    t.post_processor = processors.ByteLevel(trim_offsets=False)
    return t


def llama2_class():
    """As transformers' LlamaTokenizer makes it: a space before the text alone, nothing for what is unknown."""
    spec = json.loads(llama2()[0].to_str())
    spec["model"]["unk_token"] = None
    t = Tokenizer.from_str(json.dumps(spec))
    t.normalizer = None
    t.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme="first", split=False)
    return t


def gemma():
    """As transformers' GemmaTokenizer makes it: words that end with a space, none before the text."""
    t = llama2()[0]
    t.normalizer = normalizers.Replace(" ", "▁")
    t.pre_tokenizer = pre_tokenizers.Split(" ", "merged_with_previous")
    t.decoder = decoders.Sequence([decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse()])
    return t


def gpt_neox():
    """As transformers' GPTNeoXTokenizer makes it, with tokens for runs of spaces as Pythia's file has them."""
    t = Tokenizer(models.BPE())
    t.normalizer = normalizers.NFC()
    t.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    t.decoder = decoders.ByteLevel()
    train(t, trainers.BpeTrainer(vocab_size=450, special_tokens=["<|endoftext|>", "<|padding|>"],
                                 initial_alphabet=pre_tokenizers.ByteLevel.alphabet(), show_progress=False))
    t.add_tokens([AddedToken(" " * length, normalized=True) for length in (8, 4, 3, 2)])
    t.post_processor = processors.TemplateProcessing(single="$A:0", pair="$A:0 $B:1", special_tokens=[])
    return t


def bloom():
    """As BLOOM's file has it."""
    t = Tokenizer(models.BPE())
    t.pre_tokenizer = pre_tokenizers.Sequence([pre_tokenizers.Split(Regex(BLOOM), "isolated"), pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)])
    t.decoder = decoders.ByteLevel()
    train(t, trainers.BpeTrainer(vocab_size=450, special_tokens=["<unk>", "<s>", "</s>", "<pad>"],
                                 initial_alphabet=pre_tokenizers.ByteLevel.alphabet(), show_progress=False))
    t.post_processor = processors.ByteLevel(add_prefix_space=True, trim_offsets=False, use_regex=False)
    return t


def cl100k():
    """With tiktoken's own pattern, whose {1,3}+ repeats."""
    t = Tokenizer(models.BPE())
    t.pre_tokenizer = pre_tokenizers.Sequence([pre_tokenizers.Split(Regex(CL100K), "isolated"), pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)])
    t.decoder = decoders.ByteLevel()
    train(t, trainers.BpeTrainer(vocab_size=450, initial_alphabet=pre_tokenizers.ByteLevel.alphabet(), show_progress=False))
    t.add_special_tokens(["<|end|>"])
    return t


def t5():
    t = Tokenizer(models.Unigram())
    t.normalizer = normalizers.Sequence([normalizers.Nmt(), normalizers.NFKC(), normalizers.Replace(Regex(" {2,}"), " ")])
    t.pre_tokenizer = pre_tokenizers.Sequence([pre_tokenizers.WhitespaceSplit(), pre_tokenizers.Metaspace(prepend_scheme="always")])
    t.decoder = decoders.Metaspace()
    train(t, trainers.UnigramTrainer(vocab_size=500, special_tokens=["<pad>", "</s>", "<unk>"], unk_token="<unk>", show_progress=False))
    t.post_processor = processors.TemplateProcessing(single="$A </s>", special_tokens=[("</s>", t.token_to_id("</s>"))])
    return t


def unigram_bytes():
    t = Tokenizer(models.Unigram())
    t.normalizer = normalizers.Sequence([normalizers.Strip(left=False, right=True), normalizers.NFC()])
    t.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme="first", split=False)
    train(t, trainers.UnigramTrainer(vocab_size=400, special_tokens=["<s>", "</s>", "<unk>"], unk_token="<unk>", max_piece_length=8, show_progress=False))
    spec = json.loads(t.to_str())
    spec["model"]["byte_fallback"] = True
    spec["model"]["vocab"] += [["<0x%02X>" % b, -20.0] for b in range(256)]
    t = Tokenizer.from_str(json.dumps(spec))
    t.decoder = decoders.Sequence([decoders.ByteFallback(), decoders.Metaspace(prepend_scheme="first", split=False)])
    t.add_tokens([AddedToken("newtoken", single_word=True), AddedToken("the", lstrip=True, rstrip=True), AddedToken("Token", normalized=False)])
    t.add_special_tokens([AddedToken("<mask>", lstrip=True)])
    return t


def roberta():
    t = Tokenizer(models.BPE())
    t.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=True)
    t.decoder = decoders.ByteLevel()
    train(t, trainers.BpeTrainer(vocab_size=600, special_tokens=["<s>", "<pad>", "</s>", "<unk>"], initial_alphabet=pre_tokenizers.ByteLevel.alphabet(), show_progress=False))
    t.add_special_tokens([AddedToken("<mask>", lstrip=True)])
    t.post_processor = processors.RobertaProcessing(("</s>", 2), ("<s>", 0), trim_offsets=True, add_prefix_space=True)
    return t


def clip():
    t = Tokenizer(models.BPE(unk_token="<unk>", end_of_word_suffix="</w>", continuing_subword_prefix=""))
    t.normalizer = normalizers.Sequence([normalizers.NFC(), normalizers.Replace(Regex(r"\s+"), " "), normalizers.Lowercase()])
    t.pre_tokenizer = pre_tokenizers.Sequence([pre_tokenizers.Split(Regex(CLIP), "removed", invert=True), pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)])
    t.decoder = decoders.BPEDecoder(suffix="</w>")
    train(t, trainers.BpeTrainer(vocab_size=800, special_tokens=["<unk>", "<s>", "</s>"], end_of_word_suffix="</w>", initial_alphabet=pre_tokenizers.ByteLevel.alphabet(), show_progress=False))
    t.post_processor = processors.RobertaProcessing(("</s>", 2), ("<s>", 1), trim_offsets=False, add_prefix_space=False)
    return t


def wordpiece():
    t = Tokenizer(models.WordPiece(unk_token="[UNK]", max_input_chars_per_word=20))
    t.normalizer = normalizers.Sequence([normalizers.NFKD(), normalizers.StripAccents(), normalizers.Lowercase(), normalizers.Strip()])
    t.pre_tokenizer = pre_tokenizers.Sequence([pre_tokenizers.Whitespace(), pre_tokenizers.Digits(individual_digits=True), pre_tokenizers.Punctuation()])
    t.decoder = decoders.WordPiece(cleanup=False)
    train(t, trainers.WordPieceTrainer(vocab_size=600, special_tokens=["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"], limit_alphabet=120, show_progress=False))
    t.add_tokens([AddedToken("newtoken"), AddedToken("Café", single_word=True)])
    t.post_processor = processors.BertProcessing(("[SEP]", 3), ("[CLS]", 2))
    return t


def bert_cased():
    t = Tokenizer(models.WordPiece(unk_token="[UNK]"))
    t.normalizer = normalizers.BertNormalizer(lowercase=False, strip_accents=True)
    t.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    t.decoder = decoders.WordPiece(cleanup=True)
    train(t, trainers.WordPieceTrainer(vocab_size=500, special_tokens=["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"], limit_alphabet=150, show_progress=False))
    return t


def char_bpe():
    t = Tokenizer(models.BPE(unk_token="<unk>", continuing_subword_prefix="@@"))
    t.normalizer = normalizers.Sequence([normalizers.NFD(), normalizers.Replace("don", "DON"), normalizers.Replace(Regex("[aeiou]{2}"), "Vé")])
    t.pre_tokenizer = pre_tokenizers.Sequence([pre_tokenizers.CharDelimiterSplit(" "), pre_tokenizers.Digits(individual_digits=False)])
    t.decoder = decoders.Sequence([decoders.Replace(Regex("@@(?=.)"), ""), decoders.Fuse(), decoders.Replace("VéVé", "V"), decoders.Strip("e", 2, 0)])
    return train(t, trainers.BpeTrainer(vocab_size=500, special_tokens=["<unk>", "</s>"], limit_alphabet=90, continuing_subword_prefix="@@", show_progress=False))


def byte_normalized():
    """Bytes spelled by the normalizer; without decoder."""
    t = Tokenizer(models.BPE())
    t.normalizer = normalizers.Sequence([normalizers.NFKC(), normalizers.ByteLevel()])
    return train(t, trainers.BpeTrainer(vocab_size=350, initial_alphabet=pre_tokenizers.ByteLevel.alphabet(), max_token_length=6, show_progress=False))


def splitter(pre_tokenizer):
    """One token a word: its offsets show how the text was cut."""
    t = Tokenizer(models.WordLevel({"<unk>": 0, "the": 1, "-": 2}, unk_token="<unk>"))
    t.pre_tokenizer = pre_tokenizer
    return t


def splitters():
    for behavior in ("removed", "isolated", "merged_with_previous", "merged_with_next", "contiguous"):
        for invert in (False, True):
            yield f"split_{behavior}{'_inverted' if invert else ''}", splitter(pre_tokenizers.Split(Regex(r"\w|\s"), behavior, invert))
        yield f"punctuation_{behavior}", splitter(pre_tokenizers.Punctuation(behavior))
    yield "split_string", splitter(pre_tokenizers.Split("a.", "merged_with_previous"))
    for scheme in ("always", "first", "never"):
        yield f"metaspace_{scheme}", splitter(pre_tokenizers.Metaspace("_", prepend_scheme=scheme))


# Composed, reordered and removed characters, and spaces of many kinds.
ATOMS = ["a", "b", "A", "é", "e\u0301", "o\u0323\u0302", "o\u0302\u0323", "a\u0308\u0323", "\u0301", "\u0323", "\u0345", "q\u0307\u0323", "\u1e9b\u0323", "\u0344", "ﬁ", "½",
         "\u212b\u0323", "İ", "Σ", "日", "가", "\u1100\u1161\u11a8", "ｶﾞ", " ", "  ", "\u00a0", "\u200b", "\ufeff", "\t", "\x00", "\u0e33", "\u0f77", "▁", "_", "-", ".", "'s", "12",
         "😀", "<s>", "</s>", "[UNK]", "[MASK]", "newtok", "NewTok", "The", "ab", "abc", "xyz", "Ġ", "\U0001d15e", "\ufffd"]


def atoms(rng, num):
    begun = ["\u200bab", "\u200b ab", "\ufeffa ab", "\u200b\u200bab", "ab\u200b ab", "\u200be\u0301", " ab", "\u0301ab", "\u00a0ab", "ab\u00a0", "x ", " x"]
    return begun + ["".join(rng.choice(ATOMS) for _ in range(rng.choice([1, 2, 3, 4, 6, 9]))) for _ in range(num)]


def charsmap(replacements):
    """SentencePiece's precompiled map: a double array (Darts-clone), a block of 256 units for each node, and the texts."""
    texts, units, nodes = b"", [0] * 256, {b"": 0}
    for key, replacement in replacements.items():
        value = len(texts)
        texts += replacement.encode() + b"\0"
        for end in range(1, len(key.encode()) + 1):
            prefix = key.encode()[:end]
            if prefix not in nodes:
                place = nodes[prefix[:-1]] ^ prefix[-1]
                nodes[prefix] = len(units)
                units += [0] * 256
                units[place] = (place ^ nodes[prefix]) << 10 | prefix[-1]
        place = nodes[key.encode()[:-1]] ^ key.encode()[-1]
        units[place] |= 1 << 8
        units[nodes[key.encode()]] = value | 1 << 31
    units[0] = 0  # the root's block is the first
    return (len(units) * 4).to_bytes(4, "little") + b"".join(unit.to_bytes(4, "little") for unit in units) + texts


def of_words(*words, normalizer=None, pre_tokenizer=None):
    t = Tokenizer(models.WordLevel({w: i for i, w in enumerate(("[UNK]", *words))}, unk_token="[UNK]"))
    if normalizer:
        t.normalizer = normalizer
    if pre_tokenizer:
        t.pre_tokenizer = pre_tokenizer
    return t


def corner_cases():
    """Small tokenizers for what few texts show; their texts are made of ATOMS."""
    by_char = pre_tokenizers.Split(Regex("."), "isolated")
    for form in ("NFC", "NFKC"):  # where a mark moves to another place
        yield f"marks_{form.lower()}", of_words("a", "é", "\u0323", normalizer=getattr(normalizers, form)(), pre_tokenizer=by_char)
    yield "marks_twice", of_words("a", normalizer=normalizers.Sequence([normalizers.NFKC(), normalizers.NFD(), normalizers.Replace("b", "")]),
                                  pre_tokenizer=by_char)
    # The library does not count what this normalizer removes before it has written anything.
    removing = normalizers.Precompiled(charsmap({"\u200b": "", "\ufeff": "", "ﬁ": "fi", "A": "xyz", "e\u0301": "é", "▁": ""}))
    yield "metaspace_first_removed", of_words("_a", "_ab", "a", "ab", "_é", normalizer=removing,
                                              pre_tokenizer=pre_tokenizers.Metaspace("_", prepend_scheme="first"))
    yield "metaspace_first_stripped", of_words("_a", "_ab", "a", "ab", normalizer=normalizers.Sequence([normalizers.Strip(), normalizers.StripAccents()]),
                                               pre_tokenizer=pre_tokenizers.Metaspace("_", prepend_scheme="first"))
    # Where a token's spaces are counted: in its spelling, in the text for an added token or an unknown one.
    for name, pre in (("unknown_words", pre_tokenizers.Split(Regex("[ab]"), "isolated")), ("unknown_bytes", pre_tokenizers.ByteLevel(use_regex=False))):
        t = of_words("a", "b", "Ġ", pre_tokenizer=pre)
        t.add_special_tokens(["[UNK]", AddedToken("[MASK]", lstrip=True)])
        t.post_processor = processors.ByteLevel(trim_offsets=True)
        yield name, t
    t = Tokenizer(models.Unigram([("[UNK]", 0.0), ("a", -1.0), ("b", -2.0), ("▁", -3.0), ("ab", -1.5)], unk_id=0))
    t.pre_tokenizer = pre_tokenizers.Split("b", "merged_with_previous")
    t.post_processor = processors.RobertaProcessing(("[UNK]", 0), ("[UNK]", 0), trim_offsets=True, add_prefix_space=False)
    yield "unknown_pieces", t
    t = of_words("a", pre_tokenizer=pre_tokenizers.WhitespaceSplit())
    t.add_tokens([AddedToken(" ", lstrip=True, rstrip=True), AddedToken("A", rstrip=True), AddedToken("ab", lstrip=True)])
    yield "added_spaces", t
    t = of_words("a", "the", normalizer=normalizers.Sequence([normalizers.Lowercase(), normalizers.Prepend("x")]))
    t.add_special_tokens([AddedToken("[MASK]", normalized=True), AddedToken("<s>", normalized=False), AddedToken("</s>", normalized=True, rstrip=True)])
    yield "special_normalized", t
    yield "replaced_nothing", of_words("a", "Q", normalizer=normalizers.Sequence([normalizers.StripAccents(), normalizers.Replace(Regex(r"^\s*"), "Q")]))


def tokenizers_to_make():
    for make in (llama3, qwen2, bloom, cl100k, llama2_class, gemma, gpt_neox, o200k, t5, unigram_bytes, roberta, clip, wordpiece, bert_cased, char_bpe, byte_normalized):
        yield make.__name__, json.loads(make().to_str())
    t, merges = llama2()
    spec = json.loads(t.to_str())
    spec["model"]["merges"] = merges
    yield "llama2", spec
    for name, t in splitters():
        yield name, json.loads(t.to_str())
    for name, t in corner_cases():
        yield name, json.loads(t.to_str())


def byte_offsets(text, offsets):
    position = [0]
    for c in text:
        position.append(position[-1] + len(c.encode()))
    return [[position[a], position[b]] for a, b in offsets]


def make_rows(tokenizer, num_rows, rng, texts=None):
    words = [w for t in corpus() for w in t.split()]
    specials = [a.content for a in tokenizer.get_added_tokens_decoder().values()] + ["newtoken", "<s>", "</s>"]
    texts = texts or NASTY + [random_text(rng, words, specials) for _ in range(num_rows)]
    for text in texts:
        encoding = tokenizer.encode(text)
        yield {"text": text, "ids": encoding.ids, "offsets": byte_offsets(text, encoding.offsets),
               "template": [bool(m) for m in encoding.special_tokens_mask],
               "decoded": tokenizer.decode(encoding.ids), "decoded_raw": tokenizer.decode(encoding.ids, skip_special_tokens=False)}
    ids = sorted(tokenizer.get_vocab(with_added_tokens=True).values())
    for _ in range(num_rows // 3):
        chosen = [rng.choice(ids) for _ in range(rng.randint(0, 20))]
        yield {"ids": chosen, "decoded": tokenizer.decode(chosen), "decoded_raw": tokenizer.decode(chosen, skip_special_tokens=False)}


def write_rows(folder, tokenizer, num_rows, rng, texts=None):
    with open(folder / "rows.jsonl", "w") as file:
        for row in make_rows(tokenizer, num_rows, rng, texts):
            file.write(json.dumps(row, ensure_ascii=False, separators=(",", ":")) + "\n")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("--rows", type=int, default=30, help="random texts for each tokenizer (the splitters get a third)")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--only", nargs="*", help="names of the fixtures to write")
    args = parser.parse_args()
    corners = [name for name, _ in corner_cases()]
    for name, spec in tokenizers_to_make():
        if args.only and name not in args.only:
            continue
        folder = args.folder / name
        folder.mkdir(parents=True, exist_ok=True)
        text = json.dumps(spec, ensure_ascii=False, separators=(",", ":"))
        (folder / "tokenizer.json").write_text(text + "\n")
        rows = args.rows if "merges" in text or "scores" in text or len(text) > 5000 else args.rows // 3
        rng = random.Random(args.seed)
        write_rows(folder, Tokenizer.from_str(text), rows, rng, atoms(rng, 2 * args.rows) if name in corners else None)
    for name in ("translate-en-de", "embed-en", "write-en"):
        if args.only and name not in args.only:
            continue
        folder = args.folder / name
        folder.mkdir(parents=True, exist_ok=True)
        write_rows(folder, Tokenizer.from_file(str(ROOT / "models" / name / "tokenizer.json")), args.rows, random.Random(args.seed))


if __name__ == "__main__":
    main()

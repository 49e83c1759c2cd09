#!/usr/bin/env python3
"""Makes tests/engine/text/translators: what transformers' tokenizer classes of encoder-decoders, and of DeBERTa, answer.

    tools/make_translator_fixtures.py tests/engine/text/translators [NAME...]

For each class a folder with the tokenizer's files and rows.jsonl: a text with the ids that it has as a source, as a
target and in other languages, and the text of the ids. Needs transformers, tokenizers and sentencepiece.
"""

import json
import pathlib
import shutil
import sys
import tempfile

import sentencepiece
import transformers
from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers, trainers

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import make_tokenizer_fixtures as plain  # noqa: E402

TEXTS = [text for text in plain.NASTY if "\x00" not in text and len(text) < 90] + [
    "translate English to German: The house is wonderful.", "  two  spaces   here ", "line\nbreak\r\n\tand tab", "<extra_id_0> and <extra_id_1>",
    "de_DE in a text", "a deu_Latn b", "__de__ x", "</s> <pad> <unk>x", "<mask> <mask_1>"]
DEBERTA_TEXTS = ["[CLS] a [MASK]b", "x [MASK]  y[SEP]z", "Hello, <name>! it's (fine)...", "a\u0301 e\u0301 \u00c5ngstrom", " [UNK] [PAD]"]
LANGUAGES = {
    "MBartTokenizer": ["ar_AR", "cs_CZ", "de_DE", "en_XX", "ro_RO"],
    "MBart50Tokenizer": ["de_DE", "en_XX", "fr_XX", "uk_UA", "sl_SI"],
    "NllbTokenizer": ["eng_Latn", "deu_Latn", "zho_Hans"],
}
RULES = "\ufb01\tfi\n\ufb02\tfl\n\u2460\t1\n\u2026\t...\n\uff21\tA\n\u3000\t \n\u00a0\t "


def corpus():
    return [text for text in plain.corpus() if "\n" not in text and "\x00" not in text][:900]


def sentencepiece_model(folder, model_type="unigram", **ids):
    """A small model file with a character map."""
    rules = pathlib.Path(folder) / "rules.tsv"
    lines = []
    for rule in RULES.split("\n"):
        if rule.count("\t") == 1 and rule[0] != "\t":
            source, target = rule.split("\t")
            lines.append(" ".join("%X" % ord(c) for c in source) + "\t" + " ".join("%X" % ord(c) for c in target))
    rules.write_text("\n".join(lines) + "\n")
    (pathlib.Path(folder) / "corpus.txt").write_text("\n".join(corpus()))
    sentencepiece.SentencePieceTrainer.train(
        input=f"{folder}/corpus.txt", model_prefix=f"{folder}/m", vocab_size=400, model_type=model_type, character_coverage=0.995,
        normalization_rule_tsv=str(rules), minloglevel=2, num_threads=1, **ids)
    return f"{folder}/m.model"


def unigram(specials, codes, charsmap, mask="<mask>"):
    t = Tokenizer(models.Unigram())
    t.pre_tokenizer = pre_tokenizers.Metaspace()
    t.train_from_iterator(corpus(), trainers.UnigramTrainer(vocab_size=500, show_progress=False, unk_token="<unk>", special_tokens=["<unk>"]))
    pieces = [piece for piece in json.loads(t.to_str())["model"]["vocab"] if piece[0] not in ("<unk>",)]
    vocab = [[token, 0.0] for token in specials] + pieces + [[code, 0.0] for code in codes] + [[mask, 0.0]]
    unknown = next(i for i, token in enumerate(specials) if token in ("<unk>", "[UNK]"))
    t = Tokenizer(models.Unigram([tuple(piece) for piece in vocab], unk_id=unknown))
    if charsmap:
        t.normalizer = normalizers.Precompiled(charsmap)
    t.pre_tokenizer = pre_tokenizers.Metaspace()
    t.decoder = decoders.Metaspace()
    t.add_special_tokens(specials + codes)
    return t


def charsmap_of(model):
    from transformers.convert_slow_tokenizer import SentencePieceExtractor  # noqa: PLC0415

    return SentencePieceExtractor(model).proto.normalizer_spec.precompiled_charsmap


def write(folder, config, settings, tokenizer=None, lists_tokens=True):
    if tokenizer is not None:
        content = json.loads(tokenizer.to_str())
        if not lists_tokens:  # the class has its tokens whatever the file says
            content["added_tokens"] = []
        (folder / "tokenizer.json").write_text(json.dumps(content, ensure_ascii=False) + "\n")
    (folder / "config.json").write_text(json.dumps(config) + "\n")
    (folder / "tokenizer_config.json").write_text(json.dumps(settings) + "\n")


def make(folder, name, temporary):
    model = sentencepiece_model(temporary, pad_id=0, eos_id=1, unk_id=2, bos_id=-1)
    charsmap = charsmap_of(model)
    fairseq = ["<s>", "<pad>", "</s>", "<unk>"]
    if name == "bart":
        t = plain.roberta()
        t = t[0] if isinstance(t, tuple) else t
        write(folder, {"model_type": "bart"}, {"tokenizer_class": "BartTokenizer"}, t)
    elif name == "t5":
        t = unigram(["<pad>", "</s>", "<unk>"], [f"<extra_id_{i}>" for i in range(99, -1, -1)], charsmap)
        write(folder, {"model_type": "t5"}, {"tokenizer_class": "T5Tokenizer"}, t, lists_tokens=False)
    elif name == "t5_model":
        shutil.copyfile(model, folder / "spiece.model")
        write(folder, {"model_type": "mt5"}, {"tokenizer_class": "T5Tokenizer", "extra_ids": 7})
    elif name == "pegasus":
        t = unigram(["<pad>", "</s>", "<mask_1>", "<mask_2>"] + [f"<unk_{i}>" for i in range(2, 103)] + ["<unk>"], [], charsmap)
        write(folder, {"model_type": "pegasus"}, {"tokenizer_class": "PegasusTokenizer"}, t, lists_tokens=False)
    elif name == "mbart":
        write(folder, {"model_type": "mbart"}, {"tokenizer_class": "MBartTokenizer", "tgt_lang": "ro_RO"},
              unigram(fairseq, transformers.models.mbart.tokenization_mbart.FAIRSEQ_LANGUAGE_CODES, charsmap))
    elif name == "mbart50":
        write(folder, {"model_type": "mbart"}, {"tokenizer_class": "MBart50Tokenizer", "src_lang": "fr_XX"},
              unigram(fairseq, transformers.models.mbart50.tokenization_mbart50.FAIRSEQ_LANGUAGE_CODES, charsmap), lists_tokens=False)
    elif name in ("mbart_model", "mbart50_model"):
        shutil.copyfile(sentencepiece_model(temporary), folder / "sentencepiece.bpe.model")
        kind = "MBart50Tokenizer" if name.startswith("mbart50") else "MBartTokenizer"
        write(folder, {"model_type": "mbart"}, {"tokenizer_class": kind, "src_lang": "de_DE"})
    elif name == "nllb":
        t = Tokenizer(models.BPE(unk_token="<unk>", fuse_unk=True))
        t.normalizer = normalizers.Precompiled(charsmap)
        t.pre_tokenizer = pre_tokenizers.Metaspace()
        t.decoder = decoders.Metaspace()
        t.train_from_iterator(corpus(), trainers.BpeTrainer(vocab_size=500, show_progress=False, limit_alphabet=60, special_tokens=fairseq))
        t.add_special_tokens(LANGUAGES["NllbTokenizer"] + ["<mask>"])
        write(folder, {"model_type": "m2m_100"}, {"tokenizer_class": "NllbTokenizer", "extra_special_tokens": LANGUAGES["NllbTokenizer"]}, t)
    elif name in ("deberta_v2", "deberta_v2_punct"):
        t = unigram(["[PAD]", "[CLS]", "[SEP]", "[UNK]"], [], charsmap, mask="[MASK]")
        settings = {"do_lower_case": True, "split_by_punct": True, "add_prefix_space": False} if name.endswith("punct") else {}
        write(folder, {"model_type": "deberta-v2"}, settings, t)
    elif name == "deberta_v2_model":  # as microsoft/deberta-v3-base is stored
        model = sentencepiece_model(temporary, pad_id=0, pad_piece="[PAD]", bos_id=1, bos_piece="[CLS]", eos_id=2, eos_piece="[SEP]", unk_id=3,
                                    unk_piece="[UNK]", user_defined_symbols=["<name>"])
        shutil.copyfile(model, folder / "spm.model")
        write(folder, {"model_type": "deberta-v2"}, {"do_lower_case": False, "vocab_type": "spm"})
    elif name in ("deberta", "deberta_files"):
        special = ["[PAD]", "[CLS]", "[SEP]", "[UNK]", "[MASK]"]
        t = Tokenizer(models.BPE())
        t.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
        t.train_from_iterator(corpus(), trainers.BpeTrainer(vocab_size=500, show_progress=False, special_tokens=special,
                                                            initial_alphabet=sorted(pre_tokenizers.ByteLevel.alphabet())))
        if name == "deberta":
            write(folder, {"model_type": "deberta"}, {"tokenizer_class": "DebertaTokenizerFast"}, t)
        else:  # as microsoft/deberta-base is stored
            t.model.save(str(folder))
            (folder / "vocab.json").write_text((folder / "vocab.json").read_text() + "\n")
            write(folder, {"model_type": "deberta"}, {"do_lower_case": False, "vocab_type": "gpt2"})
    elif name in ("m2m100", "m2m100_bpe"):
        model = sentencepiece_model(temporary, "bpe" if name.endswith("bpe") else "unigram", bos_id=0, pad_id=1, eos_id=2, unk_id=3)
        shutil.copyfile(model, folder / "sentencepiece.bpe.model")
        sp = sentencepiece.SentencePieceProcessor(model)
        vocab = {token: id for id, token in enumerate(fairseq)}
        for piece in sorted(sp.id_to_piece(id) for id in range(4, sp.get_piece_size())):
            vocab[piece] = len(vocab)
        (folder / "vocab.json").write_text(json.dumps(vocab) + "\n")
        codes = transformers.models.m2m_100.tokenization_m2m_100.FAIRSEQ_LANGUAGE_CODES["m2m100"]
        write(folder, {"model_type": "m2m_100"},
              {"tokenizer_class": "M2M100Tokenizer", "tgt_lang": "fr", "additional_special_tokens": [f"__{code}__" for code in codes]})


def rows(folder, name):
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    languages = LANGUAGES.get(type(tokenizer).__name__) or (["de", "fr", "zu", "ceb"] if name.startswith("m2m100") else [])
    for index, text in enumerate(TEXTS + (DEBERTA_TEXTS if name.startswith("deberta") else [])):
        ids = tokenizer(text)["input_ids"]
        row = {"text": text, "ids": ids, "target_ids": tokenizer(text_target=text)["input_ids"], "decoded": tokenizer.decode(ids),
               "decoded_skip": tokenizer.decode(ids, skip_special_tokens=True)}
        if languages:
            row["language"] = languages[index % len(languages)]
            default, tokenizer.src_lang = tokenizer.src_lang, row["language"]
            row["language_ids"] = tokenizer(text)["input_ids"]
            tokenizer.src_lang = default
        yield row


def main():
    if len(sys.argv) < 2 or sys.argv[1].startswith("-"):
        sys.exit(__doc__)
    for name in ("bart", "t5", "t5_model", "pegasus", "mbart", "mbart_model", "mbart50", "mbart50_model", "nllb", "m2m100",
                 "m2m100_bpe", "deberta_v2", "deberta_v2_punct", "deberta_v2_model", "deberta", "deberta_files"):
        if sys.argv[2:] and name not in sys.argv[2:]:
            continue
        folder = pathlib.Path(sys.argv[1]) / name
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        with tempfile.TemporaryDirectory() as temporary:
            make(folder, name, temporary)
        with open(folder / "rows.jsonl", "w", encoding="utf-8") as file:
            for row in rows(folder, name):
                file.write(json.dumps(row) + "\n")
        print(name)


if __name__ == "__main__":
    main()

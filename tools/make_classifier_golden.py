#!/usr/bin/env python3
"""Writes tiny randomly initialised classifiers, of texts and of tokens, and masked language models, and what transformers answers for them.

usage: make_classifier_golden.py OUT_FOLDER [NAME...]    (tests/golden/classifiers; fields: tests/golden/README.md)

Each folder has weights of odd sizes, a tokenizer of a few words and expected.json: logits of single texts and of pairs,
whole and cut on either side, and the scores of the pipeline of text classification; of classifiers of tokens the logits of
single texts and what the pipeline of token classification makes of them, by each strategy; of masked language
models what the pipeline of masks answers. Needs transformers and torch. Long because every family has its cases here.
"""

import json
import os
import shutil
import sys

import torch
import transformers
from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "golden"))
import decoder_classifiers  # noqa: E402
from reference import round9  # noqa: E402

POSITIONS = 24  # of the longest input
WORDS = "the quick brown fox jumps over a lazy dog who asks where mail is read and how to open new files ?".split()
TEXTS = ["the quick brown fox", "who asks ?", "", "where is new mail read and how to open the files over a lazy dog",
         " ".join(WORDS + WORDS[::-1])]
PAIRS = [("where is mail read ?", "the mail is read over a dog"), ("fox", ""), ("", "a lazy dog jumps"),
         ("how to open new files ?", " ".join(WORDS)), (" ".join(WORDS[::-1]), "the fox"),
         (" ".join(WORDS), " ".join(WORDS[::-1])), (" ".join(WORDS[:12]), " ".join(WORDS[:11]))]
SPECIAL = {"bert": ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"], "roberta": ["<s>", "<pad>", "</s>", "<unk>", "<mask>"]}
SPECIAL["xlm-roberta"] = SPECIAL["roberta"]
SPECIAL["mpnet"] = ["<s>", "<pad>", "</s>", "[UNK]", "<mask>"]
SPECIAL["albert"] = ["<pad>", "<unk>", "[CLS]", "[SEP]", "[MASK]"]
# Other case, accents, words that the vocabulary does not have, runs of spaces, punctuation and special tokens within a text.
TOKEN_TEXTS = ["The quick brown foxes jumped over a lazy dog", "Who reads émails ? Öpen the files, dog.", "", "mail  is   read\nhere",
               "日本 mail [SEP] who ☃ asks </s> x", "  fox", " ".join(WORDS + WORDS[::-1])]
# With @ for the mask; targets of one token and of several, or None.
MASKED = [("the quick @ fox", None, 5), ("@ reads the @ here , @ @", None, 3), ("who @", ["dog", "mail", "lazy dogs", "dog"], 5),
          ("The  Fox jumps over @.", ["the", "fox"], 1), ("@", None, 8), (" ".join(["@", *WORDS[:6]]), None, 2)]
STRATEGIES = ("none", "simple", "first", "average", "max")


def word_pieces(special, words):
    pieces = sorted({"##" + word[-2:] for word in words} | {word[:-2] for word in words if len(word) > 3})
    tokens = dict.fromkeys([*special, *words[::2], *pieces, *"abcdefghijklmnopqrstuvwxyz"])
    return {token: i for i, token in enumerate(tokens)}


def bert_tokenizer(name):
    return getattr(transformers, name)(vocab=word_pieces(SPECIAL["bert"], WORDS), model_max_length=POSITIONS)


def roberta_tokenizer():
    trained = Tokenizer(models.BPE())
    trained.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    trained.train_from_iterator(TEXTS, trainers.BpeTrainer(vocab_size=320, special_tokens=SPECIAL["roberta"], show_progress=False,
                                                           initial_alphabet=pre_tokenizers.ByteLevel.alphabet()))
    made = json.loads(trained.to_str())["model"]
    return transformers.RobertaTokenizer(vocab=made["vocab"], merges=[tuple(pair) for pair in made["merges"]],
                                         model_max_length=POSITIONS)


def xlm_roberta_tokenizer():
    pieces = sorted({"▁" + word for word in WORDS} | {"▁", *"abcdefghijklmnopqrstuvwxyz?"})
    vocab = [(token, 0.0) for token in SPECIAL["xlm-roberta"][:4]] + [
        (piece, -1.0 - 0.01 * i if piece.startswith("▁") else -9.0) for i, piece in enumerate(pieces)] + [("<mask>", 0.0)]
    return transformers.XLMRobertaTokenizer(vocab=vocab, model_max_length=POSITIONS)


def mpnet_tokenizer():
    return transformers.MPNetTokenizer(vocab=word_pieces(SPECIAL["mpnet"], WORDS), model_max_length=POSITIONS)


def albert_tokenizer():
    pieces = sorted({"▁" + word for word in WORDS} | {"▁", *"abcdefghijklmnopqrstuvwxyz?"})
    vocab = [(token, 0.0) for token in SPECIAL["albert"]] + [
        (piece, -1.0 - 0.01 * i if piece.startswith("▁") else -9.0) for i, piece in enumerate(pieces)]
    return transformers.AlbertTokenizer(vocab=vocab, model_max_length=POSITIONS)


def modernbert_tokenizer():
    """A file that counts as it is: bytes, and BERT's template without types."""
    special = ["[UNK]", "[CLS]", "[SEP]", "[PAD]", "[MASK]"]
    trained = Tokenizer(models.BPE())
    trained.normalizer = normalizers.NFC()
    trained.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    trained.train_from_iterator(TEXTS, trainers.BpeTrainer(vocab_size=320, special_tokens=special, show_progress=False,
                                                           initial_alphabet=sorted(pre_tokenizers.ByteLevel.alphabet())))
    trained.decoder = decoders.ByteLevel()
    trained.post_processor = processors.TemplateProcessing(single="[CLS] $A [SEP]", pair="[CLS] $A [SEP] $B [SEP]",
                                                           special_tokens=[("[CLS]", 1), ("[SEP]", 2)])
    return transformers.PreTrainedTokenizerFast(
        tokenizer_object=trained, model_max_length=POSITIONS, unk_token="[UNK]", cls_token="[CLS]", sep_token="[SEP]",
        pad_token="[PAD]", mask_token="[MASK]", model_input_names=["input_ids", "attention_mask"])


def labels(*names):
    return {"id2label": dict(enumerate(names)), "label2id": {name: i for i, name in enumerate(names)}}


# name: (family, tokenizer, sizes and classes, stored dtype, more fields of config.json)
CASES = {
    "bert-3x8": ("Bert", lambda: bert_tokenizer("BertTokenizer"),
                 dict(hidden_size=24, num_attention_heads=3, num_hidden_layers=2, intermediate_size=33), torch.float32, {}),
    "bert-5x6-labels": ("Bert", lambda: bert_tokenizer("BertTokenizer"),
                        dict(hidden_size=30, num_attention_heads=5, num_hidden_layers=1, intermediate_size=44, type_vocab_size=3,
                             problem_type="multi_label_classification", **labels("one", "two", "three", "vier", "fünf")),
                        torch.float16, {}),
    # As cross-encoder/ms-marco-MiniLM-L6-v2 is stored.
    "bert-2x10-rank": ("Bert", lambda: bert_tokenizer("BertTokenizer"),
                       dict(hidden_size=20, num_attention_heads=2, num_hidden_layers=2, intermediate_size=30, **labels("LABEL_0")),
                       torch.bfloat16, {"sentence_transformers": {"activation_fn": "torch.nn.modules.linear.Identity",
                                                                  "version": "4.0.1"}}),
    "roberta-3x8": ("Roberta", roberta_tokenizer,
                    dict(hidden_size=24, num_attention_heads=3, num_hidden_layers=2, intermediate_size=40, type_vocab_size=1,
                         layer_norm_eps=1e-5, problem_type="single_label_classification", **labels("negative", "neutral", "positive")),
                    torch.bfloat16, {}),
    # As BAAI/bge-reranker-base is stored.
    "xlm-roberta-2x12-rank": ("XLMRoberta", xlm_roberta_tokenizer,
                              dict(hidden_size=24, num_attention_heads=2, num_hidden_layers=1, intermediate_size=28, type_vocab_size=1,
                                   layer_norm_eps=1e-5, **labels("LABEL_0")), torch.float32, {}),
    "electra-3x8": ("Electra", lambda: bert_tokenizer("BertTokenizer"),
                    dict(hidden_size=24, embedding_size=24, num_attention_heads=3, num_hidden_layers=2, intermediate_size=36,
                         **labels("a", "b", "c")), torch.float32, {}),
    "distilbert-5x6": ("DistilBert", lambda: bert_tokenizer("DistilBertTokenizer"),
                       dict(dim=30, n_heads=5, n_layers=2, hidden_dim=44, **labels("NEGATIVE", "POSITIVE")), torch.float16, {}),
    "albert-3x8": ("Albert", albert_tokenizer,
                   dict(hidden_size=24, embedding_size=14, num_attention_heads=3, num_hidden_layers=3, intermediate_size=36,
                        **labels("a", "b", "c")), torch.float32, {}),
    "mpnet-3x8": ("MPNet", mpnet_tokenizer,
                  dict(hidden_size=24, num_attention_heads=3, num_hidden_layers=2, intermediate_size=36, **labels("yes", "no")),
                  torch.float32, {}),
    # As Alibaba-NLP/gte-reranker-modernbert-base is stored.
    "modernbert-3x8-rank": ("ModernBert", modernbert_tokenizer,
                            dict(hidden_size=24, num_attention_heads=3, num_hidden_layers=4, intermediate_size=28, local_attention=8,
                                 classifier_pooling="mean", **labels("LABEL_0")), torch.bfloat16, {}),
    "modernbert-2x10-bias": ("ModernBert", modernbert_tokenizer,
                             dict(hidden_size=20, num_attention_heads=2, num_hidden_layers=2, intermediate_size=26, norm_bias=True,
                                  classifier_bias=True, classifier_activation="relu", **labels("x", "y", "z")), torch.float16, {}),
    "nomic_bert-2x8": ("NomicBert", lambda: bert_tokenizer("BertTokenizer"),
                       dict(hidden_size=16, num_attention_heads=2, num_hidden_layers=1, intermediate_size=20, **labels("n", "p")),
                       torch.float32, {}),
}

ENTITIES = labels("O", "B-PER", "I-PER", "B-LOC", "I-LOC")
# The same; heads of ForTokenClassification.
TOKEN_CASES = {
    "bert-3x8-tokens": ("Bert", lambda: bert_tokenizer("BertTokenizer"),
                        dict(hidden_size=24, num_attention_heads=3, num_hidden_layers=2, intermediate_size=33, **ENTITIES),
                        torch.float32, {}),
    "roberta-3x8-tokens": ("Roberta", roberta_tokenizer,
                           dict(hidden_size=24, num_attention_heads=3, num_hidden_layers=1, intermediate_size=40, type_vocab_size=1,
                                layer_norm_eps=1e-5, **ENTITIES), torch.bfloat16, {}),
    "xlm-roberta-2x12-tokens": ("XLMRoberta", xlm_roberta_tokenizer,
                                dict(hidden_size=24, num_attention_heads=2, num_hidden_layers=1, intermediate_size=28,
                                     type_vocab_size=1, layer_norm_eps=1e-5, **ENTITIES), torch.float16, {}),
    # Labels without a scheme, one of them with a hyphen.
    "electra-3x8-tokens": ("Electra", lambda: bert_tokenizer("BertTokenizer"),
                           dict(hidden_size=24, embedding_size=24, num_attention_heads=3, num_hidden_layers=1, intermediate_size=36,
                                **labels("noun", "verb-past", "O")), torch.float32, {}),
    "distilbert-5x6-tokens": ("DistilBert", lambda: bert_tokenizer("DistilBertTokenizer"),
                              dict(dim=30, n_heads=5, n_layers=1, hidden_dim=44, **ENTITIES), torch.float16, {}),
}

# Heads of ForMaskedLM, whose output is the table of tokens but for one that has its own.
MASK_CASES = {
    "bert-3x8-masks": ("Bert", lambda: bert_tokenizer("BertTokenizer"),
                       dict(hidden_size=24, num_attention_heads=3, num_hidden_layers=2, intermediate_size=33, hidden_act="relu"),
                       torch.float32, {}),
    "roberta-3x8-masks": ("Roberta", roberta_tokenizer,
                          dict(hidden_size=24, num_attention_heads=3, num_hidden_layers=1, intermediate_size=40, type_vocab_size=1,
                               layer_norm_eps=1e-5), torch.bfloat16, {}),
    "xlm-roberta-2x12-masks": ("XLMRoberta", xlm_roberta_tokenizer,
                               dict(hidden_size=24, num_attention_heads=2, num_hidden_layers=1, intermediate_size=28,
                                    type_vocab_size=1, layer_norm_eps=1e-5, tie_word_embeddings=False), torch.float16, {}),
    "electra-3x8-masks": ("Electra", lambda: bert_tokenizer("BertTokenizer"),
                          dict(hidden_size=24, embedding_size=14, num_attention_heads=3, num_hidden_layers=1, intermediate_size=36),
                          torch.float32, {}),
    "distilbert-5x6-masks": ("DistilBert", lambda: bert_tokenizer("DistilBertTokenizer"),
                             dict(dim=30, n_heads=5, n_layers=1, hidden_dim=44, activation="relu"), torch.float16, {}),
    "albert-3x8-masks": ("Albert", albert_tokenizer,
                         dict(hidden_size=24, embedding_size=14, num_attention_heads=3, num_hidden_layers=2, intermediate_size=36),
                         torch.float32, {}),
    "mpnet-3x8-masks": ("MPNet", mpnet_tokenizer,
                        dict(hidden_size=24, num_attention_heads=3, num_hidden_layers=1, intermediate_size=36, hidden_act="relu"),
                        torch.bfloat16, {}),
    "modernbert-3x8-masks": ("ModernBert", modernbert_tokenizer,
                             dict(hidden_size=24, num_attention_heads=3, num_hidden_layers=2, intermediate_size=28, local_attention=8),
                             torch.float32, {}),
    # All biases but the output's, and an output of its own.
    "modernbert-2x10-masks": ("ModernBert", modernbert_tokenizer,
                              dict(hidden_size=20, num_attention_heads=2, num_hidden_layers=1, intermediate_size=26, norm_bias=True,
                                   classifier_bias=True, classifier_activation="relu", decoder_bias=False, tie_word_embeddings=False),
                              torch.float16, {}),
    "nomic_bert-2x8-masks": ("NomicBert", lambda: bert_tokenizer("BertTokenizer"),
                             dict(hidden_size=16, num_attention_heads=2, num_hidden_layers=1, intermediate_size=20), torch.float32, {}),
}

# Behind those of masks: the number of a case seeds it.
MORE_TOKEN_CASES = {
    "mpnet-3x8-tokens": ("MPNet", mpnet_tokenizer,
                         dict(hidden_size=24, num_attention_heads=3, num_hidden_layers=1, intermediate_size=36, **ENTITIES),
                         torch.float16, {}),
    "albert-3x8-tokens": ("Albert", albert_tokenizer,
                          dict(hidden_size=24, embedding_size=14, num_attention_heads=3, num_hidden_layers=2, intermediate_size=36,
                               **ENTITIES), torch.float32, {}),
    "modernbert-3x8-tokens": ("ModernBert", modernbert_tokenizer,
                              dict(hidden_size=24, num_attention_heads=3, num_hidden_layers=2, intermediate_size=28, local_attention=8,
                                   classifier_pooling="mean", **ENTITIES), torch.float32, {}),
    "nomic_bert-2x8-tokens": ("NomicBert", lambda: bert_tokenizer("BertTokenizer"),
                              dict(hidden_size=16, num_attention_heads=2, num_hidden_layers=1, intermediate_size=20, **ENTITIES),
                              torch.bfloat16, {}),
}


def deberta_v2_tokenizer():
    pieces = sorted({"▁" + word for word in WORDS} | {"▁", *"abcdefghijklmnopqrstuvwxyz?"})
    vocab = [(token, 0.0) for token in ["[PAD]", "[CLS]", "[SEP]", "[UNK]"]] + [
        (piece, -1.0 - 0.01 * i if piece.startswith("▁") else -9.0) for i, piece in enumerate(pieces)] + [("[MASK]", 0.0)]
    return transformers.DebertaV2Tokenizer(vocab=vocab, model_max_length=POSITIONS)


def deberta_tokenizer():
    trained = Tokenizer(models.BPE())
    trained.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    trained.train_from_iterator(TEXTS, trainers.BpeTrainer(vocab_size=320, special_tokens=SPECIAL["bert"], show_progress=False,
                                                           initial_alphabet=sorted(pre_tokenizers.ByteLevel.alphabet())))
    made = json.loads(trained.to_str())["model"]
    return transformers.DebertaTokenizer(vocab=made["vocab"], merges=[tuple(pair) for pair in made["merges"]], model_max_length=POSITIONS)


# As microsoft/deberta-v3-base is stored, but for the sizes.
DEBERTA_V3 = dict(relative_attention=True, position_biased_input=False, pos_att_type=["p2c", "c2p"], share_att_key=True, position_buckets=6,
                  norm_rel_ebd="layer_norm")
DEBERTA = dict(relative_attention=True, position_biased_input=False, pos_att_type=["c2p", "p2c"])
DEBERTA_CASES = {
    "ForSequenceClassification": {
        "deberta-v2-3x8": ("DebertaV2", deberta_v2_tokenizer,
                           dict(hidden_size=24, num_attention_heads=3, num_hidden_layers=2, intermediate_size=33, **DEBERTA_V3,
                                **labels("entailment", "neutral", "contradiction")), torch.float32, {}),
        # As mixedbread-ai/mxbai-rerank-base-v1 is stored; a convolution, token types, another pooler.
        "deberta-v2-2x10-rank": ("DebertaV2", deberta_v2_tokenizer,
                                 dict(hidden_size=20, num_attention_heads=2, num_hidden_layers=2, intermediate_size=30, conv_kernel_size=3,
                                      conv_act="gelu", type_vocab_size=2, pooler_hidden_act="tanh", **{**DEBERTA_V3, "share_att_key": False},
                                      **labels("LABEL_0")), torch.bfloat16, {}),
        "deberta-3x8": ("Deberta", deberta_tokenizer,
                        dict(hidden_size=24, num_attention_heads=3, num_hidden_layers=1, intermediate_size=36, **DEBERTA,
                             **labels("yes", "no")), torch.float16, {}),
    },
    "ForTokenClassification": {
        "deberta-v2-3x8-tokens": ("DebertaV2", deberta_v2_tokenizer,
                                  dict(hidden_size=24, num_attention_heads=3, num_hidden_layers=1, intermediate_size=30, **DEBERTA_V3,
                                       **ENTITIES), torch.float32, {}),
        "deberta-5x6-tokens": ("Deberta", deberta_tokenizer,
                               dict(hidden_size=30, num_attention_heads=5, num_hidden_layers=1, intermediate_size=30, **DEBERTA, **ENTITIES),
                               torch.bfloat16, {}),
    },
    "ForMaskedLM": {
        "deberta-v2-3x8-masks": ("DebertaV2", deberta_v2_tokenizer,
                                 dict(hidden_size=24, num_attention_heads=3, num_hidden_layers=1, intermediate_size=28, embedding_size=18,
                                      hidden_act="relu", **DEBERTA_V3), torch.float32, {}),
        # The head that is not the legacy one.
        "deberta-v2-2x8-masks": ("DebertaV2", deberta_v2_tokenizer,
                                 dict(hidden_size=16, num_attention_heads=2, num_hidden_layers=1, intermediate_size=20, legacy=False,
                                      **DEBERTA_V3), torch.float16, {}),
        "deberta-3x8-masks": ("Deberta", deberta_tokenizer,
                              dict(hidden_size=24, num_attention_heads=3, num_hidden_layers=1, intermediate_size=28, **DEBERTA),
                              torch.float32, {}),
    },
}


def make_checkpoint(folder, head, number, family, tokenizer, sizes, dtype, more):
    torch.manual_seed(3000 + number)
    is_roberta = "oberta" in family or family == "MPNet"  # whose first positions belong to padding
    config = getattr(transformers, family + "Config")(
        vocab_size=len(tokenizer), pad_token_id=tokenizer.pad_token_id,
        **{"max_position_embeddings": POSITIONS + (tokenizer.pad_token_id + 1 if is_roberta else 0), **sizes})
    write_checkpoint(folder, getattr(transformers, family + head)(config), tokenizer, dtype, more)


def make_decoder(folder, head, number, family, tokenizer, sizes, dtype):
    torch.manual_seed(3000 + number)
    positions = {} if "n_positions" in sizes or "seq_length" in sizes else {"max_position_embeddings": POSITIONS}
    tokenizer.model_max_length = POSITIONS
    config = getattr(transformers, family + "Config")(
        vocab_size=len(tokenizer), **{**positions, **sizes, "pad_token_id": tokenizer.pad_token_id,
                                      "bos_token_id": tokenizer.bos_token_id, "eos_token_id": tokenizer.eos_token_id})
    write_checkpoint(folder, getattr(transformers, family + head)(config), tokenizer, dtype, {})


# Classes that tell the model of no types, whatever the template has.
TOKENIZER_CLASSES = {"bert-2x10-untyped": "PreTrainedTokenizerFast"}
CLASS_CASES = {"bert-2x10-untyped": CASES["bert-2x10-rank"]}


def write_checkpoint(folder, model, tokenizer, dtype, more):
    for name, parameter in model.named_parameters():
        is_norm_gain = parameter.ndim == 1 and name.endswith("weight")
        parameter.data = torch.randn(parameter.shape) * 0.2 + (1.0 if is_norm_gain else 0.0)
    shutil.rmtree(folder, ignore_errors=True)
    model.to(dtype).save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    tokenizer_class = TOKENIZER_CLASSES.get(os.path.basename(folder))
    add_fields(os.path.join(folder, "config.json"), more)
    if tokenizer_class:
        add_fields(os.path.join(folder, "tokenizer_config.json"), {"tokenizer_class": tokenizer_class})


def add_fields(path, fields):
    with open(path, encoding="utf-8") as file:
        content = {**json.load(file), **fields}
    with open(path, "w", encoding="utf-8") as file:
        json.dump(content, file, indent=2)
        file.write("\n")


def is_decoder(config):
    return os.path.basename(config.name_or_path) in decoder_classifiers.CASES


def options_of(folder):
    # transformers' eager Falcon adds its ALiBi twice: to the mask, and to the scores.
    config = transformers.AutoConfig.from_pretrained(folder)
    options = {"dtype": torch.float32, "attn_implementation": "sdpa" if getattr(config, "alibi", False) else "eager"}
    return {**options, "experts_implementation": "eager"} if hasattr(config, "num_experts_per_tok") else options


@torch.no_grad()
def make_expected(folder):
    options = options_of(folder)
    float32 = transformers.AutoModelForSequenceClassification.from_pretrained(folder, **options).eval()
    float64 = transformers.AutoModelForSequenceClassification.from_pretrained(folder, **options).eval().double()
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    pipeline = transformers.pipeline("text-classification", model=float32, tokenizer=tokenizer, device="cpu")
    rows = []
    for text, pair in [*((text, None) for text in TEXTS), *PAIRS]:
        for side in ("right", "left"):
            tokenizer.truncation_side = side
            # As a batch of one: by itself, a pair whose second text is empty counts as one text.
            texts = [text], None if pair is None else [pair]
            if not tokenizer(*texts)["input_ids"][0]:
                continue
            given = tokenizer(*texts, truncation=True, max_length=POSITIONS, return_tensors="pt")
            is_cut = given["input_ids"].shape[1] < len(tokenizer(*texts)["input_ids"][0])
            if side == "left" and not is_cut:
                continue
            answer = float32(**given)
            logits = answer.logits[0]
            row = {"text": text, "pair": pair, "truncate": side if is_cut else None, "ids": given["input_ids"][0].tolist(),
                   "logits": round9(logits.tolist()), "float32_error": (float64(**given).logits[0] - logits).abs().max().item()}
            scores = {one["label"]: one["score"] for one in pipeline.postprocess(answer, top_k=None, _legacy=False)}
            row["scores"] = round9([scores[float32.config.id2label[i]] for i in range(len(scores))])
            rows.append(row)
    with open(os.path.join(folder, "expected.json"), "w", encoding="utf-8") as file:
        json.dump({"labels": [float32.config.id2label[i] for i in range(float32.config.num_labels)], "rows": rows,
                   **({"padding_id": float32.config.pad_token_id} if is_decoder(float32.config) else {})}, file, ensure_ascii=False)
        file.write("\n")
    spread = max(row["logits"][0] for row in rows) - min(row["logits"][0] for row in rows)
    print(os.path.basename(folder), f"{len(rows)} rows, {sum(row['truncate'] is not None for row in rows)} cut, spread {spread:.2f},",
          f"float32 error {max(row['float32_error'] for row in rows):.1e}")


def in_bytes(text, part):
    """What the pipeline says of a part of the text, whose ends count bytes."""
    part = {key: value.item() if hasattr(value, "item") else value for key, value in part.items()}
    for end in ("start", "end"):
        part[end] = len(text[:part[end]].encode())
    return {**part, "score": round9([part["score"]])[0]}


@torch.no_grad()
def make_expected_tokens(folder):
    options = options_of(folder)
    float32 = transformers.AutoModelForTokenClassification.from_pretrained(folder, **options).eval()
    float64 = transformers.AutoModelForTokenClassification.from_pretrained(folder, **options).eval().double()
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    pipeline = transformers.pipeline("token-classification", model=float32, tokenizer=tokenizer, device="cpu")
    rows = []
    for text in TOKEN_TEXTS:
        given = tokenizer([text], truncation=True, max_length=POSITIONS, return_tensors="pt")
        if given["input_ids"].shape[1] == 0:
            continue
        logits = float32(**given).logits[0]
        best = logits.topk(2).values
        if (best[:, 0] - best[:, 1]).min() <= 1e-3:  # no answer may hang on an error
            print(os.path.basename(folder), "leaves out", repr(text))
            continue
        row = {"text": text, "truncate": "right" if given["input_ids"].shape[1] < len(tokenizer(text)["input_ids"]) else None,
               "ids": given["input_ids"][0].tolist(), "float32_error": (float64(**given).logits[0] - logits).abs().max().item()}
        for strategy in STRATEGIES:
            found = pipeline(text, aggregation_strategy=strategy, ignore_labels=[])
            row[strategy] = [in_bytes(text, part) for part in found]
        rows.append(row)
    with open(os.path.join(folder, "expected.json"), "w", encoding="utf-8") as file:
        json.dump({"labels": [float32.config.id2label[i] for i in range(float32.config.num_labels)], "rows": rows}, file,
                  ensure_ascii=False)
        file.write("\n")
    found = {part["entity"] for row in rows for part in row["none"]}
    print(os.path.basename(folder), f"{len(rows)} rows, {sum(len(row['none']) for row in rows)} tokens of {len(found)} labels,",
          f"{sum(len(row['first']) for row in rows)} entities, float32 error {max(row['float32_error'] for row in rows):.1e}")


@torch.no_grad()
def make_expected_masks(folder):
    model = transformers.AutoModelForMaskedLM.from_pretrained(folder, dtype=torch.float32, attn_implementation="eager").eval()
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    pipeline = transformers.pipeline("fill-mask", model=model, tokenizer=tokenizer, device="cpu")
    rows = []
    for text, targets, top_k in MASKED:
        text = text.replace("@", tokenizer.mask_token)
        top_k = min(top_k, len(tokenizer))
        found = pipeline(text, top_k=top_k, **({"targets": targets} if targets else {}))
        masks = found if isinstance(found[0], list) else [found]
        for mask in masks:
            scores = [fill["score"] for fill in mask]
            assert all(a - b > 2e-6 for a, b in zip(scores, scores[1:])), (folder, text)  # no order hangs on an error
            for fill in mask:
                fill["score"] = round9([fill["score"]])[0]
        ids = tokenizer(text)["input_ids"]
        rows.append({"text": text, "targets": targets, "top_k": top_k, "ids": ids, "masks": masks,
                     "positions": [i for i, one in enumerate(ids) if one == tokenizer.mask_token_id]})
    with open(os.path.join(folder, "expected.json"), "w", encoding="utf-8") as file:
        json.dump({"mask_token": tokenizer.mask_token, "rows": rows}, file, ensure_ascii=False)
        file.write("\n")
    print(os.path.basename(folder), f"{len(rows)} rows, {sum(len(row['masks']) for row in rows)} masks")


def main():
    of_decoders = [*((name, "ForSequenceClassification", make_expected, case) for name, case in decoder_classifiers.CASES.items()),
                   *((name, "ForTokenClassification", make_expected_tokens, case) for name, case in decoder_classifiers.TOKEN_CASES.items())]
    known = {*CASES, *TOKEN_CASES, *MASK_CASES, *MORE_TOKEN_CASES, *CLASS_CASES, *(name for name, *_ in of_decoders)}.union(*DEBERTA_CASES.values())
    if len(sys.argv) < 2 or sys.argv[1].startswith("-") or not set(sys.argv[2:]) <= known:
        sys.exit(__doc__)
    transformers.logging.set_verbosity_error()
    torch.set_num_threads(1)
    heads = [*((name, "ForSequenceClassification", make_expected, case) for name, case in CASES.items()),
             *((name, "ForTokenClassification", make_expected_tokens, case) for name, case in TOKEN_CASES.items()),
             *((name, "ForMaskedLM", make_expected_masks, case) for name, case in MASK_CASES.items()),
             *((name, "ForTokenClassification", make_expected_tokens, case) for name, case in MORE_TOKEN_CASES.items())]
    makers = {"ForSequenceClassification": make_expected, "ForTokenClassification": make_expected_tokens, "ForMaskedLM": make_expected_masks}
    first = 100  # of these, whose numbers no other case's change
    more = [(name, head, makers[head], case) for head, cases in DEBERTA_CASES.items() for name, case in cases.items()]
    more += [(name, "ForSequenceClassification", make_expected, case) for name, case in CLASS_CASES.items()]
    for number, (name, head, expect, (family, make_tokenizer, sizes, dtype, fields)) in [*enumerate(heads), *enumerate(more, first)]:
        if sys.argv[2:] and name not in sys.argv[2:]:
            continue
        folder = os.path.join(sys.argv[1], name)
        make_checkpoint(folder, head, number, family, make_tokenizer(), sizes, dtype, fields)
        expect(folder)
    for number, (name, head, expect, (family, make_tokenizer, sizes, dtype)) in enumerate(of_decoders):
        if sys.argv[2:] and name not in sys.argv[2:]:
            continue
        folder = os.path.join(sys.argv[1], name)
        make_decoder(folder, head, decoder_classifiers.FIRST_NUMBER + number, family, make_tokenizer(), sizes, dtype)
        expect(folder)


if __name__ == "__main__":
    main()

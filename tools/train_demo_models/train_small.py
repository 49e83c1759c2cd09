#!/usr/bin/env python3
"""Trains chat-en, rerank-en, tag-en and mask-en from scratch on text that chat_data.py, rank_data.py, tag_data.py and mask_data.py draw, writes a
folder of each in Hugging Face layout with bfloat16 weights, and prints how they do on text that was not drawn in training.

usage: train_small.py --out FOLDER [--device cuda|cpu] [--seconds S] [--steps N] [--only NAME]

They train beside each other, the longest until S seconds (default 205) after the start, or one after the other for N steps. Judging takes half a minute more.
Needs torch and transformers. Long because they are trained alike.
"""

import argparse
import json
import math
import multiprocessing
import os
import random
import subprocess
import sys
import time

import numpy
import torch
import torch.nn.functional as F
from tokenizers import Tokenizer

import chat_data
import mask_data
import rank_data
import tag_data
from small_tokenizers import END, START, rendered, save_chat, save_word_pieces, train_chat, train_word_pieces

CHAT_POSITIONS, RANK_POSITIONS, TAG_POSITIONS, MASK_POSITIONS = 512, 256, 256, 64
LABELS = ["O"] + [f"{part}-{name}" for name in ("PER", "LOC", "ORG", "DATE") for part in "BI"]
HELD_OUT_SEED = 10**6
options = None  # of the command line
worker_tokenizer = None  # of a process that draws data


def log(*what):
    print(f"[{time.time() - log.start:6.1f}]", *what, flush=True)


log.start = time.time()


class Schedule:
    """The learning rate: warms up, then falls to zero as a cosine until the seconds, or the steps, are used up."""

    def __init__(self, peak, warm_up, share):
        self.peak, self.warm_up, self.share, self.step, self.start = peak, warm_up, share, 0, time.time()

    def progress(self):
        return self.step / options.steps if options.steps else (time.time() - self.start) / (log.start + options.seconds * self.share - self.start)

    def next(self, optimizer):
        self.step += 1
        rate = self.peak * min(1.0, self.step / self.warm_up) * 0.5 * (1 + math.cos(math.pi * min(1.0, self.progress())))
        for group in optimizer.param_groups:
            group["lr"] = rate


def adam(model, decay):
    parameters = list(model.parameters())
    return torch.optim.AdamW([{"params": [p for p in parameters if p.ndim > 1], "weight_decay": decay}, {"params": [p for p in parameters if p.ndim < 2], "weight_decay": 0.0}],
                             lr=1e-3, betas=(0.9, 0.98), fused=True)


def train(model, peak, decay, share, batch, loss_of):
    """Steps until this share of the time is used up; batch() draws tensors on the device."""
    optimizer, schedule, shown, average = adam(model, decay), Schedule(peak, 300 if not options.steps else 5, share), time.time(), None
    model.train()
    while schedule.progress() < 1:
        schedule.next(optimizer)
        with torch.autocast(options.device, torch.bfloat16, enabled=options.device == "cuda"):
            loss = loss_of(*batch())
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        if schedule.step % 50 == 0 or options.steps:
            average = loss.item() if average is None else 0.8 * average + 0.2 * loss.item()
        if time.time() - shown > 15:
            shown = time.time()
            log(f"step {schedule.step}, loss {average:.4f}")
    log(f"{schedule.step} steps, loss {average}, {sum(p.numel() for p in model.parameters()):,} parameters")
    model.eval()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.copy_(parameter.bfloat16().float())


def begin(text):
    global worker_tokenizer
    worker_tokenizer = Tokenizer.from_str(text)
    os.environ["TOKENIZERS_PARALLELISM"] = "false"


def drawn(tokenizer, draw, chunks, size):
    """What draw(seed, size) makes, of seeds 1 to chunks, in all cores."""
    with multiprocessing.get_context("spawn").Pool(min(chunks, max(1, (os.cpu_count() or 2) // 2)), begin, (tokenizer.to_str(),)) as pool:
        parts = pool.starmap(draw, [(seed, size) for seed in range(1, chunks + 1)], chunksize=1)
    return [row for part in parts for row in part]


def int16(values):
    return numpy.array(values, dtype=numpy.int16)


def save(model, name, generation=None):
    folder = os.path.join(options.out, name)
    if generation is not None:
        model.generation_config = generation
    model.to("cpu").to(torch.bfloat16).save_pretrained(folder)
    log(f"{folder}: {os.path.getsize(os.path.join(folder, 'model.safetensors')):,} bytes of weights")


class Rows:
    """Rows of ids with a value for each id, on the device, by length: a batch is drawn from rows of like length."""

    def __init__(self, rows, widths, batch_tokens):
        self.buckets, r = [], random.Random(5)
        self.random = r
        for low, width in zip([0] + widths, widths):
            part = [row for row in rows if low < len(row[0]) <= width]
            if not part:
                continue
            ids = torch.zeros(len(part), width, dtype=torch.int16)
            values = torch.full((len(part), width), -100, dtype=torch.int16)
            for i, (row, value) in enumerate(part):
                ids[i, :len(row)] = torch.from_numpy(row)
                values[i, :len(row)] = torch.from_numpy(value)
            self.buckets.append((ids.to(options.device), values.to(options.device), max(1, batch_tokens // width)))
        self.weights = [len(ids) / size for ids, _, size in self.buckets]

    def batch(self):
        ids, values, size = self.random.choices(self.buckets, self.weights)[0]
        at = torch.randint(len(ids), (size,), device=ids.device)
        return ids[at].long(), values[at].long()


# chat-en


def chat_rows(seed, size):
    """Ids, and for each id itself where the model is to write it, else -100."""
    made = []
    start, end, assistant = (worker_tokenizer.token_to_id(token) for token in (START, END, "assistant"))
    for encoding in worker_tokenizer.encode_batch([rendered(messages) for messages in chat_data.sessions(seed, size)]):
        ids, values, answers = encoding.ids[:CHAT_POSITIONS], [], False
        for i, one in enumerate(ids):
            if one == start:
                answers = i + 1 < len(ids) and ids[i + 1] == assistant
            values.append(one if answers and i > 2 and start not in ids[i - 2:i + 1] else -100)
            answers = answers and one != end
        made.append((int16(ids), int16(values)))
    return made


def chat_model(size):
    from transformers import LlamaConfig, LlamaForCausalLM
    return LlamaForCausalLM(LlamaConfig(
        vocab_size=size, hidden_size=192, intermediate_size=512, num_hidden_layers=5, num_attention_heads=6, num_key_value_heads=2, head_dim=32, hidden_act="silu",
        max_position_embeddings=CHAT_POSITIONS, rms_norm_eps=1e-6, tie_word_embeddings=True, rope_theta=10000.0, initializer_range=0.03, bos_token_id=None, eos_token_id=2,
        pad_token_id=0, attention_dropout=0.0))


@torch.no_grad()
def right_answers(model, tokenizer, sessions):
    """The share of last answers that greedy decoding would give to the letter."""
    right = 0
    for messages in sessions:
        start = len(tokenizer.encode(rendered(messages[:-1]) + f"{START}assistant\n").ids)
        ids = torch.tensor([tokenizer.encode(rendered(messages)).ids[:CHAT_POSITIONS]], device=options.device)
        best = model(input_ids=ids, use_cache=False).logits[0].argmax(-1)
        right += bool((best[start - 1:-2] == ids[0, start:-1]).all())
    return right / len(sessions)


def judge_chat(model, tokenizer):
    count = 100 if not options.steps else 10
    figures = {}
    for topic, _ in chat_data.TOPICS:
        r = random.Random(HELD_OUT_SEED)
        made = [[{"role": role, "content": text} for turn in topic(r) for role, text in zip(("user", "assistant"), turn)] for _ in range(count)]
        figures[topic.__name__] = right_answers(model, tokenizer, made)
    r = random.Random(HELD_OUT_SEED)
    sums = [[{"role": "user", "content": f"What is {a} {sign} {b}?"}, {"role": "assistant", "content": chat_data.sum_of(a, b, sign)[1]}]
            for a, b, sign in chat_data.held_out_sums(r, count)]
    figures["sums whose numbers were held out"] = right_answers(model, tokenizer, sums)
    figures["sessions"] = right_answers(model, tokenizer, chat_data.sessions(HELD_OUT_SEED, 2 * count))
    for name, share in figures.items():
        log(f"chat-en, {name}: {share:.3f} of answers to the letter")
    return figures


def train_chat_en():
    from transformers import GenerationConfig
    small = bool(options.steps)
    tokenizer = train_chat([rendered(messages) for messages in chat_data.sessions(10**5, 2000 if small else 30000)], 2048)
    save_chat(tokenizer, os.path.join(options.out, "chat-en"), CHAT_POSITIONS)
    rows = drawn(tokenizer, chat_rows, 4 if small else 80, 300 if small else 5000)
    log(f"{len(rows):,} conversations, {sum(len(ids) for ids, _ in rows):,} tokens, {tokenizer.get_vocab_size()} ids")
    data = Rows(rows, [48, 96, 192, CHAT_POSITIONS], 24576 if not small else 2048)
    model = chat_model(tokenizer.get_vocab_size()).to(options.device)

    def loss_of(ids, values):
        hidden = model.model(input_ids=ids[:, :-1], use_cache=False).last_hidden_state
        return F.cross_entropy(model.lm_head(hidden).flatten(0, 1).float(), values[:, 1:].flatten(), ignore_index=-100)

    train(model, 3e-3, 0.05, 1, data.batch, loss_of)
    figures = judge_chat(model, tokenizer)
    save(model, "chat-en", GenerationConfig(eos_token_id=2, pad_token_id=0, do_sample=False))
    return figures


# rerank-en


def pair_ids(tokenizer, question, text, positions=RANK_POSITIONS):
    question, text = tokenizer.encode(question, add_special_tokens=False).ids, tokenizer.encode(text, add_special_tokens=False).ids
    ids = [2] + question + [3] + text[:positions - 3 - len(question)] + [3]
    return ids, [0] * (len(question) + 2) + [1] * (len(ids) - len(question) - 2)


def rank_rows(seed, size):
    return [[tuple(map(int16, pair_ids(worker_tokenizer, question, text))) for text in texts] for question, texts in rank_data.groups(seed, size)]


def padded(rows, width):
    made = numpy.zeros((len(rows), width), dtype=numpy.int16)
    for i, row in enumerate(rows):
        made[i, :len(row)] = row
    return torch.from_numpy(made)


class Groups:
    """Groups of pairs on the device, by their longest pair."""

    def __init__(self, groups, widths, batch_pairs):
        self.buckets, self.random = [], random.Random(6)
        for low, width in zip([0] + widths, widths):
            part = [group for group in groups if low < max(len(ids) for ids, _ in group) <= width]
            if part:
                ids, types = (padded([pair[k] for group in part for pair in group], width) for k in (0, 1))
                lengths = torch.tensor([len(pair[0]) for group in part for pair in group])
                self.buckets.append([tensor.view(len(part), -1, *tensor.shape[1:]).to(options.device) for tensor in (ids, types, lengths)])
        self.size = batch_pairs
        self.weights = [len(ids) for ids, _, _ in self.buckets]

    def batch(self):
        ids, types, lengths = self.random.choices(self.buckets, self.weights)[0]
        at = torch.randint(len(ids), (self.size // ids.shape[1],), device=ids.device)
        return [tensor[at].flatten(0, 1).long() for tensor in (ids, types, lengths)]


def encoder_config(kind, size, positions, **more):
    from transformers import BertConfig
    return BertConfig(vocab_size=size, hidden_size=96, num_hidden_layers=4, num_attention_heads=4, intermediate_size=256, max_position_embeddings=positions, type_vocab_size=2,
                      hidden_act="gelu", hidden_dropout_prob=0.1, attention_probs_dropout_prob=0.0, initializer_range=0.05, pad_token_id=0, **more)


def masked(ids, lengths):
    return (torch.arange(ids.shape[1], device=ids.device)[None, :] < lengths[:, None]).long()


@torch.no_grad()
def judge_groups(model, tokenizer, groups):
    best = reciprocal = positive = 0.0
    for question, texts in groups:
        pairs = [pair_ids(tokenizer, question, text) for text in texts]
        width = max(len(ids) for ids, _ in pairs)
        ids, types = (padded([pair[k] for pair in pairs], width).long().to(options.device) for k in (0, 1))
        lengths = torch.tensor([len(ids) for ids, _ in pairs], device=options.device)
        scores = model(input_ids=ids, token_type_ids=types, attention_mask=masked(ids, lengths)).logits[:, 0]
        rank = 1 + int((scores[1:] >= scores[0]).sum())
        best, reciprocal = best + (rank == 1), reciprocal + 1 / rank
        positive += sum((float(score) > 0) == (i == 0) for i, score in enumerate(scores)) / len(texts)
    return {"right text first": best / len(groups), "MRR": reciprocal / len(groups), "score on the right side of 0.5": positive / len(groups)}


def train_rerank_en():
    from transformers import BertForSequenceClassification
    small = bool(options.steps)
    texts = [text for question, texts in rank_data.groups(10**5, 1000 if small else 20000) for text in (question, *texts[:2])]
    tokenizer = train_word_pieces(texts, 2304, True)
    save_word_pieces(tokenizer, os.path.join(options.out, "rerank-en"), RANK_POSITIONS, True)
    tokenizer.no_padding()
    groups = drawn(tokenizer, rank_rows, 4 if small else 60, 60 if small else 2500)
    log(f"{len(groups):,} groups, {tokenizer.get_vocab_size()} ids")
    data = Groups(groups, [48, 96, RANK_POSITIONS], 768 if not small else 48)
    model = BertForSequenceClassification(encoder_config("rank", tokenizer.get_vocab_size(), RANK_POSITIONS, id2label={0: "relevant"}, label2id={"relevant": 0})).to(options.device)

    def loss_of(ids, types, lengths):
        logits = model(input_ids=ids, token_type_ids=types, attention_mask=masked(ids, lengths)).logits.float().view(-1, 6)
        right = torch.zeros_like(logits)
        right[:, 0] = 1
        return F.cross_entropy(logits, right.argmax(1)) + F.binary_cross_entropy_with_logits(logits, right)

    train(model, 1.5e-3, 0.05, 0.85, data.batch, loss_of)
    count = 1000 if not small else 10
    figures = {"fresh groups": judge_groups(model, tokenizer, rank_data.groups(HELD_OUT_SEED, count)),
               "names of held-out syllables": judge_groups(model, tokenizer, rank_data.groups(HELD_OUT_SEED + 1, count, 5, True))}
    log("rerank-en", json.dumps(figures))
    save(model, "rerank-en")
    return figures


# tag-en


def tagged(tokenizer, spans):
    """Ids and labels: the first piece of a name is B-, its other pieces I-."""
    encoding = tokenizer.encode("".join(text for text, _ in spans))
    ends, at = [], 0
    for text, name in spans:
        ends.append((at, at + len(text), name))
        at += len(text)
    labels = []
    for (first, last), special in zip(encoding.offsets, encoding.special_tokens_mask):
        begin_, _, name = next((span for span in ends if span[0] <= first < span[1]), (0, 0, None)) if not special else (0, 0, None)
        labels.append(-100 if special else LABELS.index(("B-" if first == begin_ else "I-") + name) if name else 0)
    return encoding.ids, labels


def tag_rows(seed, size):
    r, drawn_sentences = random.Random(seed), tag_data.sentences(seed, size)
    for i in range(0, size, 12):  # some texts of several sentences
        joined = [span for sentence in r.sample(drawn_sentences, r.randint(3, 7)) for span in sentence + [(" ", None)]]
        drawn_sentences[i] = joined[:-1]
    return [tuple(map(int16, row)) for row in (tagged(worker_tokenizer, spans) for spans in drawn_sentences) if len(row[0]) <= TAG_POSITIONS]


def names_in(labels):
    """(first, last, class) of each name."""
    found, begin_ = [], None
    for i, label in enumerate([*labels, "O"]):
        if begin_ is not None and label != "I-" + begin_[1]:
            found.append((begin_[0], i, begin_[1]))
            begin_ = None
        if label.startswith("B-") or (label.startswith("I-") and begin_ is None):
            begin_ = (i, label[2:])
    return found


@torch.no_grad()
def judge_names(model, tokenizer, sentences):
    right = answered = there = 0
    for spans in sentences:
        ids, labels = tagged(tokenizer, spans)
        if len(ids) > TAG_POSITIONS:
            continue
        best = model(input_ids=torch.tensor([ids], device=options.device)).logits[0].argmax(-1).tolist()[1:-1]
        wanted, got = (set(names_in([LABELS[label] for label in row])) for row in (labels[1:-1], best))
        right, answered, there = right + len(wanted & got), answered + len(got), there + len(wanted)
    return {"precision": right / max(1, answered), "recall": right / there, "F1": 2 * right / max(1, answered + there)}


def train_tag_en():
    from transformers import BertForTokenClassification
    small = bool(options.steps)
    tokenizer = train_word_pieces(["".join(text for text, _ in spans) for spans in tag_data.sentences(10**5, 2000 if small else 50000)], 2816, False)
    save_word_pieces(tokenizer, os.path.join(options.out, "tag-en"), TAG_POSITIONS, False)
    rows = drawn(tokenizer, tag_rows, 4 if small else 60, 200 if small else 4000)
    log(f"{len(rows):,} texts, {tokenizer.get_vocab_size()} ids")
    data = Rows(rows, [32, 64, TAG_POSITIONS], 24576 if not small else 2048)
    model = BertForTokenClassification(encoder_config("tag", tokenizer.get_vocab_size(), TAG_POSITIONS, id2label=dict(enumerate(LABELS)),
                                                      label2id={label: i for i, label in enumerate(LABELS)})).to(options.device)

    def loss_of(ids, labels):
        logits = model(input_ids=ids, attention_mask=(ids != 0).long()).logits.float()
        return F.cross_entropy(logits.flatten(0, 1), labels.flatten(), ignore_index=-100)

    train(model, 1.5e-3, 0.05, 0.75, data.batch, loss_of)
    count = 1000 if not small else 10
    figures = {"fresh sentences": judge_names(model, tokenizer, tag_data.sentences(HELD_OUT_SEED, count)),
               "names of held-out syllables": judge_names(model, tokenizer, tag_data.sentences(HELD_OUT_SEED + 1, count, True))}
    log("tag-en", json.dumps(figures))
    save(model, "tag-en")
    return figures


# mask-en

MASK = 4  # the id of [MASK]


def mask_rows(seed, size):
    """Ids, and for each id itself; which are masked is drawn anew for each batch."""
    rows = [worker_tokenizer.encode(text).ids for text in mask_data.sentences(seed, size)]
    return [(int16(ids), int16([-100] + ids[1:-1] + [-100])) for ids in rows if len(ids) <= MASK_POSITIONS]


@torch.no_grad()
def judge_masks(model, tokenizer, texts):
    """Of the last words of sentences, those that are the likeliest of all."""
    right = best_five = 0
    for text in texts:
        ids = tokenizer.encode(text).ids
        place = len(ids) - 3  # in front of the full stop and [SEP]
        wanted, ids[place] = ids[place], MASK
        best = model(input_ids=torch.tensor([ids], device=options.device)).logits[0, place].topk(5).indices.tolist()
        right, best_five = right + (best[0] == wanted), best_five + (wanted in best)
    return {"last word first": right / len(texts), "last word among five": best_five / len(texts)}


def train_mask_en():
    from transformers import BertConfig, BertForMaskedLM
    small = bool(options.steps)
    tokenizer = train_word_pieces(mask_data.sentences(10**5, 2000 if small else 40000), 1536, True)
    save_word_pieces(tokenizer, os.path.join(options.out, "mask-en"), MASK_POSITIONS, True)
    data = Rows(drawn(tokenizer, mask_rows, 4 if small else 40, 200 if small else 5000), [16, 32, MASK_POSITIONS], 16384 if not small else 512)
    model = BertForMaskedLM(BertConfig(
        vocab_size=tokenizer.get_vocab_size(), hidden_size=64, num_hidden_layers=3, num_attention_heads=4, intermediate_size=192, max_position_embeddings=MASK_POSITIONS,
        hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0, initializer_range=0.05, pad_token_id=0)).to(options.device)

    def loss_of(ids, values):
        chosen = (torch.rand(ids.shape, device=ids.device) < 0.2) & (values != -100)
        logits = model(input_ids=ids.masked_fill(chosen, MASK), attention_mask=(ids != 0).long()).logits.float()
        return F.cross_entropy(logits.flatten(0, 1), values.masked_fill(~chosen, -100).flatten(), ignore_index=-100)

    train(model, 2e-3, 0.02, 0.5, data.batch, loss_of)
    figures = judge_masks(model, tokenizer, mask_data.sentences(HELD_OUT_SEED, 500 if not small else 10))
    log("mask-en", json.dumps(figures))
    save(model, "mask-en")
    return figures


TRAINERS = {"chat-en": train_chat_en, "rerank-en": train_rerank_en, "tag-en": train_tag_en, "mask-en": train_mask_en}


def train_one(name):
    torch.manual_seed(7)
    random.seed(7)
    torch.backends.cuda.matmul.allow_tf32 = True
    started = time.time()
    figures = TRAINERS[name]()
    with open(os.path.join(options.out, name + ".figures.json"), "w", encoding="utf-8") as file:
        json.dump({"seconds": round(time.time() - started), "device": options.device, **figures}, file, indent=1)


def main():
    global options
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", required=True)
    parser.add_argument("--device", choices=("cuda", "cpu"), default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--seconds", type=float, default=205)
    parser.add_argument("--steps", type=int, default=0)
    parser.add_argument("--only", choices=TRAINERS)
    options = parser.parse_args()
    os.makedirs(options.out, exist_ok=True)
    if options.only:
        train_one(options.only)
        return 0
    running = []
    for name in TRAINERS:
        running.append(subprocess.Popen([sys.executable, os.path.abspath(__file__), *sys.argv[1:], "--only", name]))
        if options.steps:
            running[-1].wait()
    return max(process.wait() for process in running)


if __name__ == "__main__":
    sys.exit(main())

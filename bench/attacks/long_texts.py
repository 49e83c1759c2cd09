"""Texts that take a template, a pattern or a chain of normalizers long. The normal client asks the same of the model, with a short text."""

import json
import os
import shutil
import time

from greedy_clients import GENERATE
from measure import INFERENCE, ROOT, Attack
from raw_http2 import Connection, field

TEMPLATE = "{% for m in messages %}{% if m.content in messages[0].content %}{{ m.content[:8] }}{% endif %}{% endfor %}"
TEXT_BYTES = 3_000_000  # a request may have 4 MiB


def chat(texts):
    messages = b"".join(field(1, field(1, "user") + field(2, text)) for text in texts)
    return GENERATE, field(1, "chat") + field(2, field(3, messages)) + field(4, b"") + field(7, field(1, 4))


def tokenize(text):
    return INFERENCE + "Tokenize", field(1, "embed-en") + field(2, text)


def again_and_again(what, path, body):
    def send(address, end):
        connection = Connection(address)
        while time.monotonic() < end:
            connection.call(path, body)

    send.__doc__ = what
    return send


def chat_model(folder):
    """The demo's decoder with a template that looks for each message in the first one."""
    made = os.path.join(folder, "chat")
    shutil.copytree(os.path.join(ROOT, "models/write-en"), made)
    path = os.path.join(made, "tokenizer_config.json")
    with open(path, encoding="utf-8") as file:
        config = json.load(file)
    with open(path, "w", encoding="utf-8") as file:
        json.dump({**config, "chat_template": TEMPLATE}, file)


def embedder_with(component, value):
    """The demo's embedder whose tokenizer has another component."""
    def make(folder):
        made = os.path.join(folder, "embed-en")
        shutil.copytree(os.path.join(ROOT, "models/embed-en"), made)
        path = os.path.join(made, "tokenizer.json")
        with open(path, encoding="utf-8") as file:
            tokenizer = json.load(file)
        with open(path, "w", encoding="utf-8") as file:
            json.dump({**tokenizer, component: value}, file)

    return make


SPLIT = {"type": "Split", "pattern": {"Regex": ".*?b|."}, "behavior": "Isolated", "invert": False}
CHAIN = {"type": "Sequence", "normalizers": [{"type": "Replace", "pattern": {"String": "a"}, "content": "a"}] * 4000}
# Half as long as the first message, and not in it: a search that is not linear compares half of it at each place.
HALVES = ("a" * (TEXT_BYTES // 3 * 2), "a" * (TEXT_BYTES // 3) + "b")

ATTACKS = (
    Attack("texts that a template searches", again_and_again(f"Two at a time: two messages of {TEXT_BYTES // 1_000_000} MB together, which the chat template looks for in each other.",
                                                             *chat(HALVES)), 2, again=True, models=("chat",), make_models=chat_model,
           call=lambda: chat(("hello", "hell"))),
    Attack("texts that a pattern reads again", again_and_again("Two at a time: 200 KB for the pattern .*?b|., which reads to the end from each letter.",
                                                               *tokenize("a" * 200_000)), 2, again=True, models=("embed-en",),
           make_models=embedder_with("pre_tokenizer", SPLIT), call=lambda: tokenize("a mail server")),
    Attack("texts for 4,000 normalizers", again_and_again("Two at a time: 2 MB for a tokenizer with a chain of 4,000 normalizers.",
                                                          *tokenize("ab" * 1_000_000)), 2, again=True, models=("embed-en",),
           make_models=embedder_with("normalizer", CHAIN), call=lambda: tokenize("a mail server")),
)

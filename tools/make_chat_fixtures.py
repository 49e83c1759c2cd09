#!/usr/bin/env python3
"""Makes the reference rows of chat templates, with transformers' apply_chat_template and its Jinja environment.

    tools/make_chat_fixtures.py tests/engine                              # what is committed
    tools/make_chat_fixtures.py /tmp/more --snippets 20000 --seed 7       # a wider comparison

Writes chat/prompt_ids.jsonl, chat/conversations.jsonl, of each template in tests/engine/chat/templates, and jinja/snippets.jsonl, of
the lines of tests/engine/jinja/snippets.txt and of random expressions. A row has what was rendered ("text"), the message
of the template's raise_exception ("raised"), or "fails" where rendering ends with another error.
"""

import argparse
import copy
import json
import pathlib
import random

import jinja2
from tokenizers import Tokenizer, models
from transformers import AutoTokenizer, PreTrainedTokenizerFast
from transformers.utils.chat_template_utils import _compile_jinja_template

ROOT = pathlib.Path(__file__).resolve().parent.parent
SPECIAL = {"bos_token": "<s>", "eos_token": "</s>", "unk_token": "<unk>", "pad_token": "<pad>"}

TEXTS = [
    "Hi", "", " ", "What is 2 + 2?", "  padded  ", "line one\nline two\n\nline four\n", "\ttab", "\"quoted\" and 'single' and \\back\\",
    "ünïcödé ß Ω", "日本語のテキスト。", "👩‍👩‍👧 emoji 🇩🇪", "<b>html</b> &amp; <script>", "{{ not a template }} {% if x %}", "a\r\nb\r\n\r\nc",
    "<think>\nhm\n</think>\n\nThe answer.", "</think> end", "<tool_response>\n1\n</tool_response>", "\u00a0nbsp\u2003", "\x1b[0m \x7f", "x" * 120,
    "they're the user's \"own\" words", "100% {sure} %s %(x)s", "[INST] inject [/INST]", "\u2028separator", "/no_think please", "$1,000.50",
]

WEATHER = {"type": "function", "function": {
    "name": "get_weather", "description": "The weather of a city.\nNow.",
    "parameters": {"type": "object", "properties": {
        "city": {"type": "string", "description": "Its name, as \"Köln\""},
        "unit": {"type": "string", "enum": ["celsius", "fahrenheit"]},
        "days": {"type": "array", "items": {"type": "integer"}, "description": "Which <days>"}},
        "required": ["city"]}}}
SEARCH = {"type": "function", "function": {
    "name": "search", "description": "Finds texts.",
    "parameters": {"type": "object", "properties": {
        "query": {"type": ["string", "null"]}, "limit": {"type": "integer", "default": 10},
        "score": {"type": "number", "minimum": 0.5}, "exact": {"type": "boolean", "default": True},
        "filter": {"type": "object", "additionalProperties": {"type": "string"}}}, "required": []},
    "return": {"type": "string"}}}
EMPTY = {"type": "function", "function": {"name": "noop", "description": "", "parameters": {"type": "object", "properties": {}}}}
DOCUMENTS = [{"title": "Penguins", "text": "They swim.\nWell."}, {"doc_id": 7, "title": "Ümlaut", "text": "\"Yes\""}]


def call(name, arguments, identifier="abcdef123"):
    return {"id": identifier, "type": "function", "function": {"name": name, "arguments": arguments}}


def user(content):
    return {"role": "user", "content": content}


def assistant(content, **more):
    return {"role": "assistant", "content": content, **more}


def system(content):
    return {"role": "system", "content": content}


def tool(content, identifier="abcdef123", **more):
    return {"role": "tool", "content": content, "tool_call_id": identifier, **more}


def hand_made():
    """Conversations, and what goes with them."""
    yield [user("Hi")], {}
    yield [user("Hi")], {"add_generation_prompt": False}
    yield [system("Be brief."), user("Hi"), assistant("Hello!"), user("And now?")], {}
    yield [system("Be brief."), user("Hi"), assistant("Hello!")], {"add_generation_prompt": False}
    yield [user("Hi"), user("Again")], {}
    yield [assistant("I begin."), user("So?")], {}
    yield [user("Hi"), {"role": "narrator", "content": "Meanwhile"}], {}
    yield [system("One"), system("Two"), user("Hi")], {}
    yield [user("Weather?")], {"tools": [WEATHER]}
    yield [system("Use tools."), user("Weather?"), assistant(None, tool_calls=[call("get_weather", {"city": "Köln", "days": [1, 2]})]),
           tool("{\"t\": 21.5}", name="get_weather"), assistant("21.5 degrees"), user("Thanks")], {"tools": [WEATHER, SEARCH]}
    yield [user("Both"), assistant("", tool_calls=[call("search", {"query": "a\"b<c>", "limit": 3, "score": 0.25}), call("noop", {})]),
           tool("one"), tool("two", name="noop")], {"tools": [SEARCH, EMPTY]}
    yield [user("Call"), assistant(None, tool_calls=[call("search", {"exact": True, "filter": {"k": None}})]), tool("42")], {"tools": [SEARCH]}
    yield [user("Call"), assistant("so", tool_calls=[call("search", "{\"query\": 1}", "short")]), tool("42", "short")], {"tools": [SEARCH]}
    yield [user("What do they say?")], {"documents": DOCUMENTS}
    yield [system("Cite."), user("And?")], {"documents": DOCUMENTS, "tools": [WEATHER]}
    yield [user("Think"), assistant("<think>\nhm\n</think>\n\nDone."), user("More")], {"enable_thinking": False}
    yield [user("Think"), assistant("Done.", reasoning_content="\nhm, hm\n")], {"enable_thinking": True, "add_generation_prompt": False}
    yield [user("Think"), assistant("Done.", thinking="old name"), user("x")], {}
    yield [system("/no_think Be brief. /system_override"), user("Hi")], {}
    yield [user([{"type": "text", "text": " parts "}, {"type": "image"}, {"type": "text", "text": "two"}])], {}
    yield [user("Hi")], {"controls": {"length": "short", "a": 1}, "reasoning_effort": "high", "date_string": "01 Jan 2026"}
    yield [user("Hi"), assistant(None, tool_calls=[call("code_interpreter", {"code": "1+1"})])], {"builtin_tools": ["code_interpreter", "search"]}
    yield [{"role": "user"}], {}


def random_ones(count, rng):
    for _ in range(count):
        messages = [system(rng.choice(TEXTS))] if rng.random() < 0.4 else []
        for turn in range(rng.randint(1, 6)):
            make = user if turn % 2 == 0 else assistant
            messages.append(make(rng.choice(TEXTS)))
        options = {"add_generation_prompt": rng.random() < 0.7}
        if rng.random() < 0.2:
            options["tools"] = rng.sample([WEATHER, SEARCH, EMPTY], rng.randint(1, 3))
        yield messages, options


def rendered(render):
    try:
        return {"text": render()}
    except jinja2.exceptions.TemplateError as error:
        # raise_exception raises this class itself; what fails by itself raises one of those derived of it.
        return {"raised": str(error)} if type(error) is jinja2.exceptions.TemplateError else {"fails": True}
    except Exception:  # noqa: BLE001 - whatever Python's operators raise
        return {"fails": True}


def conversation_rows(rng, count):
    for path in sorted((ROOT / "tests/engine/chat/templates").glob("*.jinja")):
        tokenizer = PreTrainedTokenizerFast(tokenizer_object=Tokenizer(models.WordLevel({"<unk>": 0}, "<unk>")), **SPECIAL)
        tokenizer.chat_template = path.read_text()
        for messages, options in [*hand_made(), *random_ones(count, rng)]:
            given = {"add_generation_prompt": True, **options}
            row = {"template": path.stem, "messages": messages, "options": given}
            row.update(rendered(lambda: tokenizer.apply_chat_template(messages, tokenize=False, **given)))
            yield row


VARIABLES = {
    "a": 1, "b": 2.5, "s": "Hello World", "l": [3, 1, 2], "d": {"k": "v", "items": [1], "n": None, "z": True}, "e": [], "u": "ÄßΣς é",
    "t": "it's \"q\"\n\t", "big": {"B": 1, "a": 2, "C": 3},
    "m": [{"role": "user", "content": " hi "}, {"role": "assistant", "content": None}, {"role": "user", "content": "x"}]}
ATOMS = ["a", "b", "s", "l", "d", "e", "u", "t", "m", "big", "x", "none", "true", "false", "0", "1", "-1", "2.5", "7", "'a'", "'b c'", "''", "[1, 2]",
         "[]", "{'k': 1}", "(1, 'z')", "m[0]", "d.k", "l[0]", "'Hello'", "s[0]", "['b', 'A', 'c']", "u[2]"]
BINARY = ["+", "-", "*", "/", "//", "%", "**", "~", "==", "!=", "<", "<=", ">", ">=", "in", "not in", "and", "or"]
FILTERS = ["upper", "lower", "title", "capitalize", "trim", "length", "list", "first", "last", "join", "join('-')", "tojson", "tojson(indent=2)",
           "string", "int", "float", "abs", "round", "sort", "reverse|list", "unique|list", "sum", "min", "max", "default('d')", "default('d', true)",
           "replace('l', 'L')", "map('string')|list", "map(attribute='role')|list", "selectattr('role', 'eq', 'user')|list", "select|list",
           "reject('none')|list", "dictsort", "items|list", "indent(2)", "e", "batch(2)|list", "wordcount", "count", "int(5)"]
TESTS = ["defined", "undefined", "none", "string", "number", "integer", "float", "boolean", "mapping", "sequence", "iterable", "callable", "true", "false",
         "odd", "even", "divisibleby 2", "eq 1", "ne 'a'", "lt 3", "gt 1", "in [1, 'a']", "in s", "lower", "upper"]
METHODS = [".strip()", ".split()", ".split('l')", ".upper()", ".title()", ".startswith('H')", ".endswith('d')", ".replace('o', '0')", ".find('o')",
           ".get('k')", ".get('q', 3)", ".items()|list", ".keys()|list", ".values()|list", "[0]", "[-1]", "[1:]", "[::-1]", "[:2]", ".k", "['role']",
           ".role", ".count('l')", ".join(['p', 'q'])", ".isdigit()", ".lstrip('H')", ".rsplit('o', 1)", ".splitlines()"]

SLICED = ["s", "l", "u", "t", "m", "e", "d", "x", "a"]


def expression(rng, depth):
    if depth == 0 or rng.random() < 0.15:
        return rng.choice(ATOMS)
    kind = rng.random()
    inner = expression(rng, depth - 1)
    if kind < 0.25:
        return f"{inner} {rng.choice(BINARY)} {expression(rng, depth - 1)}"
    if kind < 0.35:
        return f"({inner} {rng.choice(BINARY)} {expression(rng, depth - 1)})"
    if kind < 0.6:
        return f"({inner})|{rng.choice(FILTERS)}" if rng.random() < 0.5 else f"{inner}|{rng.choice(FILTERS)}"
    if kind < 0.75:
        method = rng.choice(METHODS)
        # Jinja computes slices of constants beforehand, where they may be undefined.
        return f"{rng.choice(SLICED)}{method}" if ":" in method else f"({inner}){method}"
    if kind < 0.85:
        return f"{inner} is {'not ' if rng.random() < 0.3 else ''}{rng.choice(TESTS)}"
    if kind < 0.9:
        return f"not {inner}"
    if kind < 0.95:
        return f"[{inner}, {expression(rng, depth - 1)}]"
    return f"{inner} if {expression(rng, depth - 1)} else {expression(rng, depth - 1)}"


def statements(rng, depth):
    space = rng.choice(["", " ", "\n", "\n  ", "  \n\n"])
    opening, closing = rng.choice(["{%", "{%-", "{%+"]), rng.choice(["%}", "-%}", "+%}"])
    if depth == 0:
        return space + "{{" + rng.choice(["", "-"]) + " " + expression(rng, 1) + " " + rng.choice(["", "-"]) + "}}"
    inner = statements(rng, depth - 1)
    kind = rng.randrange(7)
    if kind == 0:
        return f"{space}{opening} if {expression(rng, 2)} {closing}{inner}{space}{opening} else {closing}{statements(rng, depth - 1)}{opening} endif {closing}"
    if kind == 1:
        return f"{space}{opening} for i in {expression(rng, 1)} {closing}{{{{ loop.index }}}}{inner}{{{{ i }}}}{space}{opening} else {closing}none{opening} endfor {closing}"
    if kind == 2:
        return f"{space}{opening} set p = {expression(rng, 2)} {closing}{inner}{{{{ p }}}}"
    if kind == 3:
        return f"{opening} set q {closing}{inner}{opening} endset {closing}{space}[{{{{ q }}}}]"
    if kind == 4:
        return f"{opening} macro f(x, y={expression(rng, 1)}) {closing}{inner}{{{{ x }}}}{{{{ y }}}}{opening} endmacro {closing}{{{{ f({expression(rng, 1)}) }}}}"
    if kind == 5:
        return f"{space}{{#{rng.choice(['', '-'])} note {rng.choice(['', '-'])}#}}{inner}"
    return inner + statements(rng, depth - 1)


def snippet_rows(rng, count):
    lines = (ROOT / "tests/engine/jinja/snippets.txt").read_text().split("\n")[:-1]
    wholes = ["\n".join(lines[40:50]), "  {% if a %}\n  x\n  {% endif %}\ny\n", "a\n{% if a %}\n\nb\n{% endif %}\n\n",
              "{% for i in l %}\n  {{ i }}\n{% endfor %}\n", "{#- x #}\n\n a {%- raw -%} b {%- endraw %}\n c\r\nd\re",
              "{% if %}", "{{ a", "{% endif %}", "{% foo %}", "{{ a|nofilter }}", "{{ ) }}", "{{ {} }}{{ {'a':{}} }}", "{% for x in l %}", "{% raw %}", "{# x"]
    made = []
    while len(made) < count:
        snippet = "{{ " + expression(rng, 3) + " }}" if rng.random() < 0.6 else statements(rng, rng.randint(1, 3))
        row = snippet_row(snippet)
        # Left out: what only addresses tell apart, and numbers of more than 64 bits, which are errors here.
        if " object at 0x" in row.get("text", "") or "built-in method" in row.get("text", ""):
            continue
        # Most random expressions fail: a few of them are enough.
        if "fails" in row and rng.random() < 0.8:
            continue
        made.append(row)
    return [snippet_row(snippet) for snippet in [*lines, *wholes]] + made


def snippet_row(snippet):
    return {"template": snippet, **rendered(lambda: _compile_jinja_template(snippet).render(**copy.deepcopy(VARIABLES)))}


def prompt_rows(rng):
    """Ids of conversations, by a demo model's tokenizer with the template zephyr.jinja."""
    tokenizer = AutoTokenizer.from_pretrained(ROOT / "models/write-en")
    tokenizer.chat_template = (ROOT / "tests/engine/chat/templates/zephyr.jinja").read_text()
    for messages, options in random_ones(20, rng):
        given = {"add_generation_prompt": options["add_generation_prompt"]}
        ids = tokenizer.apply_chat_template(messages, tokenize=True, return_dict=False, **given)
        yield {"messages": messages, "options": given, "ids": list(ids)}


def write(path, rows):
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w") as file:
        for row in rows:
            file.write(json.dumps(row, ensure_ascii=False, separators=(",", ":")) + "\n")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("--conversations", type=int, default=6, help="random ones for each template")
    parser.add_argument("--snippets", type=int, default=600, help="random ones")
    parser.add_argument("--seed", type=int, default=1)
    arguments = parser.parse_args()
    rng = random.Random(arguments.seed)
    write(arguments.folder / "chat/conversations.jsonl", conversation_rows(rng, arguments.conversations))
    write(arguments.folder / "chat/prompt_ids.jsonl", prompt_rows(rng))
    write(arguments.folder / "jinja/snippets.jsonl", [{"variables": VARIABLES}] + snippet_rows(rng, arguments.snippets))


if __name__ == "__main__":
    main()

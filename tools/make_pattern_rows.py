#!/usr/bin/env python3
"""Makes the rows of tests/engine/text/patterns.jsonl: what Hugging Face's `tokenizers` makes of patterns.

    tools/make_pattern_rows.py tests/engine/text/patterns.jsonl         # what is committed
    tools/make_pattern_rows.py /tmp/patterns.jsonl --count 50000 --seed 7   # a wider comparison

The first line is {"texts": [...]}. Each other line has a pattern: published ones, one for each part of the syntax, and
random ones. "splits" are [text, behavior, invert, bounds] of a Split pre-tokenizer, where each bound of a piece in bytes is counted
from the one before; "replaced" is [text, text] of a Replace normalizer with the content "<>"; texts are named by their place. A pattern that the library
refuses has neither. Texts keep to characters whose properties are the same in Unicode 14 to 16.
"""

import argparse
import json
import os
import random

from tokenizers import Regex, normalizers, pre_tokenizers

BEHAVIORS = {"Removed": "removed", "Isolated": "isolated", "MergedWithPrevious": "merged_with_previous",
             "MergedWithNext": "merged_with_next", "Contiguous": "contiguous"}

CONTRACTIONS = "(?i:'s|'t|'re|'ve|'m|'ll|'d)"
CASED = (r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+TAIL"
         r"|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*TAIL")
SPACES = r"|\s*[\r\n]+|\s+(?!\S)|\s+"
LLAMA3 = CONTRACTIONS + r"|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*" + SPACES
PUBLISHED = [
    # GPT-2, CLIP, BLOOM, Llama 3 (cl100k), tiktoken's own cl100k, Qwen 2 and 3.5, o200k, Tekken
    r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+",
    r"'s|'t|'re|'ve|'m|'ll|'d|[\p{L}]+|[\p{N}]|[^\s\p{L}\p{N}]+",
    " ?[^(\\s|[.,!?…。，、।۔،])]+",
    LLAMA3,
    r"'(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}++|\p{N}{1,3}+| ?[^\s\p{L}\p{N}]++[\r\n]*+|\s++$|\s*[\r\n]|\s+(?!\S)|\s",
    LLAMA3.replace(r"\p{N}{1,3}", r"\p{N}"),
    LLAMA3.replace(r"\p{N}{1,3}", r"\p{N}").replace(r"\p{L}+|", r"[\p{L}\p{M}]+|").replace(r"[^\s\p{L}\p{N}]", r"[^\s\p{L}\p{M}\p{N}]"),
    CASED.replace("TAIL", CONTRACTIONS + "?") + r"|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*" + SPACES,
    CASED.replace("TAIL", "") + r"|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]*" + SPACES,
    # DeepSeek V2 and V3, DeepSeek Coder
    r"\p{N}{1,3}", "[一-龥\u3040-ゟ゠-ヿ]+",
    "[!\"#$%&'()*+,\\-./:;<=>?@\\[\\\\\\]^_`{|}~][A-Za-z]+|[^\\r\\n\\p{L}\\p{P}\\p{S}]?[\\p{L}\\p{M}]+| ?[\\p{P}\\p{S}]+[\\r\\n]*" + SPACES,
    r"[\r\n]", r"\s?\p{L}+", r"\s?\p{P}+", "[一-龥ࠀ-一가-퟿]+", r"\p{N}",
    # Kimi K2
    r"[\p{Han}]+|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]*[\p{Ll}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]+"
    + CONTRACTIONS + r"?|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]+[\p{Ll}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]*"
    + CONTRACTIONS + r"?|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*" + SPACES,
    # Falcon, Nemotron, Gemma, T5, what normalizers replace
    "[0-9][0-9][0-9]", "[0-9]", " ", " {2,}", r"\s+", r"\s+$", r"[\n\r\t]", r"(?<=\d)(?=(?:\d{3})+(?!\d))", "``|''", r"\d{1,3}(?=(?:\d{3})*\b)",
    r"(?=(\d{3})+(?!\d))", r"[^\s]+|\s+", r"\w+|[^\w\s]+", r"\p{Cased_Letter}+", r"[^\p{L}\p{M}\p{N}\s]", r"\p{Script=Han}", r"[\p{Hiragana}\p{Katakana}]+",
]
# One part of the syntax each.
PARTS = [
    r"\p{N}{1,3}+", r"\w{2,3}+", r"a{2}+", r"a{2}?", r"a{2}{2}", r"a{,2}", r"a{2,}?", r"a{,}", r"a{x}", r"a{ 2}", r"a{3,1}", r"a{3,1}?", r"a++", r"a?+", r"a*+a",
    r"a**", r"a+?*", r"a??*", r"(?:a??)*", r"(?:a??)+", r"(?:a*?)+", r"(?:a+?)?", r"(?:a+)??", r"(?:a?)+?", r"(a??)*b?", r"(?:a*)*b", r"(?:a*?){2,3}",
    r"\W", r"\W+", r"\w+", r"\b", r"\B", r"\b\w", r"\w\b", r"[\W]+", r"[^\W]+", r"[\w&&[^a]]+", r"[a-z&&[^aeiou]]+", r"[^a-z&&[aeiou]]+", r"[[a-c][x-z]]+", r"[^[a-c][x-z]]+",
    r"[a-c[^x]&&\w]", r"[[:alpha:]]+", r"[[:^alpha:]]+", r"[[:alnum:]_]+", r"[[:punct:]]", r"[[:^punct:]]+", r"[[:word:]]+", r"[[:space:]]+", r"[[:digit:]]+", r"[[:upper:]]",
    r"[[:lower:]]+", r"[[:graph:]]+", r"[[:print:]]+", r"[[:cntrl:]]", r"[[:xdigit:]]+", r"[[:blank:]]", r"[[:ascii:]]+", r"[[:foo:]]", r"[[:alpha]", r"[:alpha:]", r"[]a]", r"[^]a]", r"[]", r"[^]",
    r"[a-]", r"[-a]", r"[a-\d]", r"[\d-a]", r"[a-c-e]", r"[\]a]", r"[\[a]", r"[a\-c]", r"[\b]", r"[\x61-\x63]", r"[&&a]", r"[a&&]", r"[a&b]", r"[ab&&&b]",
    r"(?i:ss)", r"(?i:ß)", r"(?i)straße", r"(?i:ﬁ)", r"(?i:fi)", r"(?i:ff)", r"(?i:ffi)", r"(?i)[ß]", r"(?i)[^ß]", r"(?i)k", r"(?i)[a-z]+", r"(?i)ǆ", r"(?i)σ", r"(?i)İ", r"(?i)ı", r"(?i:s)s", r"(?i)s+s",
    r"(?i:s{2})", r"(?i)(?:s)(?:s)", r"(?i:s(?#x)s)", r"a(?i)b|c", r"(?i:a(?-i)b)", r"(?i)\p{Lu}", r"(?i)[[:upper:]]+", r"(?i)\u00DF", r"(?i)(s)\1",
    r"\Qa.b\E", r"\X", r"\X+", r"\v", r"\V", r"\pL", r"\PL", r"\p{^L}", r"\P{^L}", r"\p{L}", r"\p{Letter}", r"\p{letter}", r"\p{LETTER}", r"\p{Upper case Letter}", r"\p{Lu}", r"\p{Alpha}", r"\p{Word}+", r"\p{Punct}",
    r"\p{Greek}+", r"\p{Cyrillic}+", r"\p{Devanagari}+", r"\p{Arabic}+", r"\p{Thai}+", r"\p{Latin}+", r"\p{Han}+", r"\p{Emoji}", r"\p{Extended_Pictographic}", r"\p{Any}", r"\p{Assigned}", r"\p{Space}", r"\p{White_Space}",
    r"\p{InBasicLatin}", r"\p{In_Greek_and_Coptic}", r"\p{Nope}", r"\p{}", r"\p{L", r"\p", r"\p{Mn}", r"\p{M}", r"\p{Sc}", r"\p{So}", r"\p{Sm}", r"\p{Cn}", r"\p{ASCII}", r"\p{Graph}", r"\p{XDigit}", r"\p{Alphabetic}", r"\p{ID_Start}",
    r"\R", r"\N", r"\O", r"\K", r"a\Kb", r"\h", r"\H", r"\s", r"\S", r"\d", r"\D", r"[\h]", r"[\H]", r"[\s\S]", r"[^\s]", r"[^\S]", r"[\d\D]", r"\A", r"\Aa", r"\Z", r"\z", r"\Ga", r"\G.", r"^", r"$", r"^.", r".$", r"\s$", r"^\s",
    r".", r".+", r"(?m).+", r"(?s).+", r"(?m:.)", r"(?-m:.)", r"(?x) a b # c", "(?x) a # it's [a(b*\n +", r"(?x: a + )b +", r"(?x)a * ?", r"(?x)a (?-x: )b", r"(?x)[ a]", r"(?x)\ a", r"(?n)(a)", r"(?imx)A", r"(?u)a", r"(?a)\w", r"(?W)\w", r"(?y{g})\X",
    r"(a)\1", r"(?<n>a|b)\k<n>", r"(?'n'a)\k'n'", r"(?<n>a)\1", r"(a)(?<n>b)\1", r"(?<n>a)(?<n>b)\k<n>", r"(a)\k<-1>", r"(a)\k<1>", r"\1(a)", r"(a|b\1)+", r"\10", r"(a)\12", r"(?<n>\((?:[^()]|\g<n>)*\))", r"(?<x>a\g<x>?b)", r"\g<0>?a", r"(a|\(\g<1>\))", r"(?P<n>a)", r"(?P=n)",
    r"(?=a)", r"(?!a)", r"(?<=a)", r"(?<!a)", r"(?<=a|bc)", r"(?<=a|b+)", r"(?<=a+)b", r"(?<=a{2})b", r"(?<!\w)\w", r"(?<=(a))b", r"(?<!(a))b", r"(?<=\b)a", r"(?<=^|\s)\w", r"(?<=a(?=b))b", r"(?<=(?:a|bc)d)", r"(?<=a?)b", r"(?<=.*)a",
    r"(?>a+)a", r"(?>a|ab)c", r"(?:a|ab)c", r"(?~ab)", r"(?~|ab|.*)", r"(?(1)a|b)", r"(a)?(?(1)b|c)", r"(?<n>a)?(?(<n>)b|c)", r"(?#x)a", r"a(?#x)+", r"a(?#\)x)b", r"(*FAIL)", r"(?{x})", r"(?C)", r"(?R)", r"(?|a|b)", r"(?^a)", r"(?@a)",
    r"()", r"(?:)", r"", r"|", r"a|", r"|a", r"a||b", r"(|a)+", r"a|*", r"*", r"+a", r"?", r"{2}", r"a|{2}", r"({2})", r"(?:a", r"a)", r"(a", r"[a", r"a]", r"a}", r"a{", r"a{2", "a\\", r"(?", r"(?<", r"(?<n", r"\k<n>", r"\g<n>", r"\x", r"\x4", r"\x41", r"\x{41}", r"\x{1F44D}", r"\x{110000}", r"\x{61 62}", r"[\x{61-63}]",
    r"\u0041", r"\u00e9", r"\u41", r"\U00000041", r"\o{101}", r"\101", r"\0", r"\07", r"\e", r"\a", r"\t", r"\n", r"\r\n", r"\f", r"\cA", r"\C-a", r"\M-a", r"\c*a", r"\xE9", r"\xC3\xA9", r"\é", r"\<a\>", r"\`a", r"a\'", r"\-", r"\#", r"\&", r"\~", r"\/", r"\_", r"\ ", r"\y", r"\Y", r"\i", r"\l", r"\L", r"\E", r"\q", r"\j",
    r"x|(?=y)", r"x|(?=y)|", r"b*", r"a*?", r"\d*", r"\s*", r"(?:)|a", r"\b|a", r"(?=\d)", r"(?<=\d)", r"(?<=\d)(?=\D)|(?<=\D)(?=\d)", r"a{100}", r"a{101}", r"(?:a|b){101,}", r"(?:ab){150}", r"[ab]{200}|a", r"(?i:s{101})", r"(?:(a)|b){120}\1", r"a{100000}", r"a{100001}",
]
TEXTS = [
    "", " ", "a", "Hello, World! It's 12345 o'clock.", "aaabbbaab aba b", "aa aaa aaaa  b", "a\nb\r\nc\r\n\r\n d\n", "  \t x \u00a0\u3000y  ", "हिन्दी में क्षत्रिय।", "ภาษาไทย ไม่มีที่", "العربيّةُ مَرحبا، ٣٤",
    "STRASSE Straße straSSe ẞ ſs", "ﬁnance oﬃce ﬂow fi FFI ﬀ", "Ünïcödé e\u0301e\u0323 naïve", "中文字符，标点。日本語カナ", "👍🏽 👨\u200d👩\u200d👧 🇩🇪🇫🇷 ❤\ufe0f", "$1,000.50 + 3% = <x> `y` ^z~ |w|", "f(x) = ((a)(b[c])) {d}", "snake_case CamelCase kebab-case",
    "KkK\u212a ÅåÅ\u212b σςΣ ıIİi ǅǆǄ", "x.y xx..yy x\u0301y", "don't WE'LL they'RE I'm", "1 12 123 1234 12345 ½²Ⅷ", "\x0b\x0c\x1c\x85\u2028\u200b", "a.b a+b a*b a?b [a] (a) a\\b", "abab" * 20 + "b", "a" * 130 + "b", "Дом дОМ, ёж; Ελλάδα ΣΟΦΌΣ", "#a -b_c &d ~e /f `g 'h\"",
]

ATOMS = ["a", "b", "s", "S", "ß", "fi", "ss", " ", ".", "é", "1", "ab", r"\p{L}", r"\p{N}", r"\p{Lu}", r"\p{P}", r"\p{M}", r"\p{^L}", r"\P{N}", r"\w", r"\W", r"\s", r"\S", r"\d", r"\D", r"\h", r"\b", r"\B", "^", "$", r"\n",
         r"\r\n", "[a-c]", "[^a-c]", r"[^\s\p{L}\p{N}]", r"[\p{L}\p{M}]", r"[\w']", r"[^\w\s]", "[[:alpha:]]", "[[:punct:]]", "[[:^space:]]", "[[:word:]]", r"[\r\n]", r"[a[bc]]", r"[\w&&[^\d]]", r"[^a&&\w]", r"\p{Han}", r"\p{Greek}",
         r"\x61", r"\u00e9", r"\x{62}", "'", ",", "-", r"\.", r"\(", r"\)", "(?=a)", r"(?!\S)", r"(?<=a)", r"(?<!\w)", r"(?<=\s)", r"\R", r"\A", r"\z", r"\Z", r"\G", "।", "中", "👍"]
QUANTIFIERS = ["*", "+", "?", "*?", "+?", "??", "*+", "++", "?+", "{2}", "{1,3}", "{2,}", "{,2}", "{1,3}?", "{2}?", "{1,3}+", "{2}+", "{2}{2}", "+*", "?*"]
GROUPS = ["(?:%s)", "(?:%s)", "(%s)", "(?>%s)", "(?i:%s)", "(?m:%s)", "(?=%s)", "(?!%s)", "(?x: %s )", "(?<n>%s)", "(?i)%s", "(?-i)%s", "(?x)%s", "(?~%s)", "(?<=%s)", "(?<!%s)"]


def random_pattern(rng, depth=0):
    branches = []
    for _ in range(1 + (rng.random() < 0.35) + (rng.random() < 0.1)):
        parts = []
        for _ in range(rng.randint(1, 3)):
            if depth < 3 and rng.random() < 0.25:
                atom = rng.choice(GROUPS) % random_pattern(rng, depth + 1)
            elif rng.random() < 0.02:
                atom = rng.choice([r"\1", r"\k<n>", r"\g<n>", r"\X", "(?#c)", "[", "]", "(", ")", "{", "}", "&&", "\\", "#", "(?x)"])
            else:
                atom = rng.choice(ATOMS)
            parts.append(atom + (rng.choice(QUANTIFIERS) if rng.random() < 0.4 else ""))
        branches.append("".join(parts))
    return "|".join(branches)


def piece_bounds(text, pieces):
    ends = [0]
    for character in text:
        ends.append(ends[-1] + len(character.encode()))
    bounds = [ends[place] for _, span in pieces for place in span]
    return [bound - before for bound, before in zip(bounds, [0] + bounds)]


def make_row(rng, pattern, published):
    row = {"pattern": pattern}
    try:
        regex = Regex(pattern)
    except Exception:  # pylint: disable=broad-except
        return row
    texts = rng.sample(range(len(TEXTS)), 16) if published else rng.sample(range(3, len(TEXTS)), 2)
    row["splits"] = []
    try:
        for text in texts:
            behavior = "Isolated" if rng.random() < 0.3 else rng.choice(list(BEHAVIORS))
            invert = rng.random() < 0.3
            split = pre_tokenizers.Split(regex, BEHAVIORS[behavior], invert)
            pieces = split.pre_tokenize_str(TEXTS[text])
            row["splits"].append([text, list(BEHAVIORS).index(behavior), int(invert), piece_bounds(TEXTS[text], pieces)])
        text = rng.choice(texts)
        row["replaced"] = [text, normalizers.Replace(regex, "<>").normalize_str(TEXTS[text])]
    except BaseException as error:  # what the library's panics are
        if isinstance(error, KeyboardInterrupt):
            raise
        return None
    return row


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("output")
    parser.add_argument("--count", type=int, default=2200, help="random patterns")
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    os.environ["RUST_BACKTRACE"] = "0"
    rng = random.Random(options.seed)
    patterns = [(pattern, True) for pattern in PUBLISHED] + [(pattern, False) for pattern in PARTS for _ in range(2)]
    patterns += [(random_pattern(rng), False) for _ in range(options.count)]
    refused = 0
    with open(options.output, "w", encoding="utf-8") as file:
        rows = [{"texts": TEXTS}]
        for number, (pattern, published) in enumerate(patterns):
            row = make_row(rng, pattern, published)
            if row is None:
                print(f"the library gives up: {pattern}")
                continue
            if "splits" not in row:
                refused += number >= len(patterns) - options.count
                if refused % 4 > 0:
                    continue  # one of the random ones says as much
            rows.append(row)
        for row in rows:
            file.write(json.dumps(row, ensure_ascii=False, separators=(",", ":")) + "\n")
    print(f"{len(rows) - 1} rows, {os.path.getsize(options.output)} bytes")


if __name__ == "__main__":
    main()

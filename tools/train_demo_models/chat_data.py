"""Conversations for chat-en, drawn from the tables of chat_facts.py and chat_talk.py.

A topic is a function that returns linked turns (what the user says, the answer); a session is a few topics one behind the other. Long because
each topic has its own wordings.
"""

import random
import re

from chat_facts import ANIMALS, COLOURS, COUNTRIES, DEFINITIONS, KINDS, OPPOSITES, SYNONYMS, WORDS
from chat_talk import (CITIES, CURIOUS, DID_NOT_UNDERSTAND, DONT_KNOW, FACTS, FAVOURITE, FIRST_NAMES, JOKES, LISTS, PASTS, PETS, PLURALS, POEMS, RHYMES, STATEMENTS, STORIES, STRANGE,
                       SUBJECTS, TALK, THINGS, UNKNOWN)
from chat_limits import edge
from made_names import made_name
from tag_data import MORE_FIRST

NUMBERS = """zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen seventeen eighteen nineteen twenty""".split()
TENS = "_ _ twenty thirty forty fifty sixty seventy eighty ninety".split()
DAYS = "Monday Tuesday Wednesday Thursday Friday Saturday Sunday".split()
MONTHS = "January February March April May June July August September October November December".split()
ORDINALS = "first second third fourth fifth sixth seventh eighth ninth tenth eleventh twelfth".split()
LANGUAGES = ["German", "French", "Spanish", "Italian"]
SYSTEM = ["You are a helpful assistant.", "You are chat-en, a friendly assistant.", "Answer briefly.", "You are a friendly and helpful assistant. Answer in one sentence.",
          "Be polite.", "You are an assistant that answers questions."]
QUESTION = re.compile(r"(what|who|when|where|which|why|how|is|are|do|does|can|could|will|may|did|in which|at what|was|should)\b", re.I)
CONTRACTED = {"what is": "what's", "who is": "who's", "where is": "where's", "I am": "I'm", "it is": "it's", "cannot": "can't", "do not": "don't", "how is": "how's",
              "are not": "aren't", "is not": "isn't", "let us": "let's", "that is": "that's"}
AMERICAN = {"colour": "color", "favourite": "favorite", "metre": "meter", "summarise": "summarize"}


def upper(text):
    return text[:1].upper() + text[1:]


def styled(r, text):
    """The same question as different people type it."""
    question = QUESTION.match(text) is not None
    if r.random() < 0.25:
        for long, short in CONTRACTED.items():
            text = re.sub(rf"\b{long}\b", short, text)
    if r.random() < 0.15:
        for british, american in AMERICAN.items():
            text = text.replace(british, american)
    if question and r.random() < 0.1:
        text = r.choice(["hey, ", "so, ", "hello, ", "hi! ", "please tell me, ", "okay, ", "quick question: ", "and ", "now, "]) + text
    elif r.random() < 0.05 and not question:
        text = r.choice(["please ", "can you ", "could you please "]) + text if re.match(r"(tell|name|say|give|write|list|count|translate|explain)\b", text) else text
    draw = r.random()
    if draw < 0.65:
        text = upper(text) + ("?" if question else r.choice([".", "", "!"]) if draw < 0.4 else ".")
    elif draw < 0.8:
        text = upper(text)
    elif draw < 0.9:
        text += "?" if question else ""
    elif draw < 0.94:
        text = text.lower()
    elif draw < 0.95:
        text = text.upper()
    else:
        text = upper(text) + (r.choice([" ?", "??", "?", "? Thanks!"]) if question else r.choice(["!", " please.", ", please."]))
    return text if text[-1:] not in ",:" else text + " please"


def ask(r, *wordings, **values):
    return styled(r, r.choice(wordings).format(**values))


def a_form(r, text):
    """One of the wordings of a table's row."""
    return styled(r, r.choice(text.split(" / ")))


def article(word):
    return ("an " if word[0] in "aeiou" else "a ") + word


def in_words(number):
    if number <= 20:
        return NUMBERS[number]
    return TENS[number // 10] + ("-" + NUMBERS[number % 10] if number % 10 else "")


# Topics.


def talk(r):
    forms, answer = r.choice(TALK)
    return [(a_form(r, forms), answer)]


def fact(r):
    forms, answer = r.choice(FACTS)
    return [(a_form(r, forms), answer)]


def capital_answer(country):
    return f"The capital of {country[0]} is {country[1]}."


def capital(r):
    country = r.choice(COUNTRIES)
    turns = [(ask(r, "what is the capital of {c}", "what is the capital city of {c}", "which city is the capital of {c}", "capital of {c}", "tell me the capital of {c}",
                  "name the capital of {c}", "what is {c}'s capital", "do you know the capital of {c}", "{c}: what is its capital", c=country[0]), capital_answer(country))]
    while r.random() < 0.5 and len(turns) < 4:
        if r.random() < 0.6:
            country = r.choice(COUNTRIES)
            turns.append((ask(r, "and of {c}", "and {c}", "what about {c}", "and the capital of {c}", "how about {c}", "and what about {c}", "what is it for {c}", "of {c}",
                              c=country[0]), capital_answer(country)))
        else:
            turns.append(about_country(r, country))
            break
    return turns


def about_country(r, country):
    name, city, continent, language, money = country
    return r.choice([
        (ask(r, "which language do they speak there", "what language do people speak there", "what do they speak there", "and the language", "which language is spoken there"),
         f"In {name} people speak {language}."),
        (ask(r, "on which continent is it", "where is it", "which continent is that", "where is that", "and the continent", "in which continent is it"), f"{upper(name)} is in {continent}."),
        (ask(r, "what money do they use there", "what is the currency", "and the currency", "how do people pay there", "which currency do they have"),
         f"In {name} people pay with {money}."),
        (ask(r, "is it a big city", "is that a city", "is it a city", "what is {c}", "and what is {c}", c=city), f"{city} is the capital of {name}."),
    ])


def country(r):
    one = r.choice(COUNTRIES)
    name, city, continent, language, money = one
    turn = r.choice([
        (ask(r, "which language do people speak in {c}", "what language is spoken in {c}", "what do they speak in {c}", "language of {c}", c=name), f"In {name} people speak {language}."),
        (ask(r, "where is {c}", "on which continent is {c}", "in which continent is {c}", "which continent is {c} in", c=name), f"{upper(name)} is in {continent}."),
        (ask(r, "what is the currency of {c}", "which money do they use in {c}", "how do people pay in {c}", "what currency does {c} use", c=name), f"In {name} people pay with {money}."),
        (ask(r, "what is {c}", "what is the city of {c}", "which country has the capital {c}", "tell me about {c}", "is {c} a capital", c=city),
         f"{city} is the capital of {capital_of(city)}."),
        (ask(r, "in which country is {c}", "which country is {c} the capital of", "where is {c}", "where is the city of {c}", c=city),
         f"{city} is the capital of {capital_of(city)}."),
        (ask(r, "what is {c}", "tell me about {c}", "tell me something about {c}", "what do you know about {c}", "describe {c}", c=name),
         f"{upper(name)} is a country in {continent}. Its capital is {city}."),
    ])
    if r.random() < 0.3:
        return [turn, (ask(r, "and its capital", "what is its capital", "what is the capital", "and the capital", "which city is its capital"), capital_answer(one))]
    return [turn]


def capital_of(city):
    return next(name for name, other, *_ in COUNTRIES if other == city)


def is_in(r):
    name, city, *_ = r.choice(COUNTRIES)
    other = r.choice(COUNTRIES)[0] if r.random() < 0.5 else name
    home = {one[0] for one in COUNTRIES if one[1] == city}
    form = r.choice(["is {a} in {b}", "is {a} the capital of {b}", "is {a} a city in {b}"])
    answer = f"Yes, {city} is the capital of {other}." if other in home else f"No, {city} is the capital of {capital_of(city)}."
    return [(ask(r, form, a=city, b=other), answer)]


def sum_of(a, b, sign):
    result = {"+": a + b, "-": a - b, "x": a * b, "/": a // b if b else 0}[sign]
    said = {"+": "plus", "-": "minus", "x": "times", "/": "divided by"}[sign]
    return result, f"{a} {said} {b} is {result}."


def numbers_for(r, sign):
    if sign == "x":
        return r.randint(0, 12), r.randint(0, 12)
    if sign == "/":
        b = r.randint(1, 12)
        return b * r.randint(0, 12), b
    high = r.choice([10, 20, 100, 100])
    while True:
        a, b = r.randint(0, high), r.randint(0, high)
        a, b = (max(a, b), min(a, b)) if sign == "-" else (a, b)
        if not is_held_out(a, b):
            return a, b


def is_held_out(a, b):
    """Sums and differences of these two are not in the training text."""
    return min(a, b) > 9 and (7 * a + 13 * b) % 23 == 0


def held_out_sums(r, count):
    found = []
    while len(found) < count:
        a, b = sorted((r.randint(10, 99), r.randint(10, 99)), reverse=True)
        if is_held_out(a, b):
            found.append((a, b, r.choice("+-")))
    return found


SIGNS = {"+": ["+", "plus", "and"], "-": ["-", "minus"], "x": ["x", "*", "times", "multiplied by"], "/": ["/", ":", "divided by"]}


def arithmetic(r):
    sign = r.choice("++--xx/")
    a, b = numbers_for(r, sign)
    result, answer = sum_of(a, b, sign)
    said = r.choice(SIGNS[sign])
    if r.random() < 0.15:
        form = r.choice({"+": ["what is the sum of {a} and {b}", "add {a} and {b}", "{a} plus {b} equals", "what do {a} and {b} make together"],
                         "-": ["subtract {b} from {a}", "what is the difference between {a} and {b}", "take {b} away from {a}"],
                         "x": ["what is the product of {a} and {b}", "multiply {a} by {b}", "multiply {a} and {b}"], "/": ["divide {a} by {b}", "what is {a} over {b}"]}[sign])
        return [(styled(r, form.format(a=a, b=b)), answer)]
    words = r.random() < 0.15 and said.isalpha()
    left, right = (in_words(a), in_words(b)) if words and max(a, b) < 100 else (a, b)
    middle = said if said.isalpha() or " " in said or r.random() < 0.6 else said
    joined = f"{left}{middle}{right}" if middle in "+-*/:x" and r.random() < 0.35 else f"{left} {middle} {right}"
    turns = [(ask(r, "what is {s}", "how much is {s}", "{s}", "calculate {s}", "what does {s} make", "{s} =", "what do you get for {s}", "compute {s}", "can you calculate {s}",
                  "{s} is what", "tell me what {s} is", s=joined), answer)]
    while r.random() < 0.35 and len(turns) < 4 and 0 <= result <= 100:
        sign = r.choice("++-x" if result <= 12 else "++-")
        b = r.randint(0, 12 if sign == "x" else 20)
        b = min(b, result) if sign == "-" else b
        said = r.choice(SIGNS[sign][1:] if sign == "x" else SIGNS[sign][:2])
        result, answer = sum_of(result, b, sign)
        turns.append((ask(r, "and {s}", "{s}", "now {s}", "and now {s}", "then {s}", "what is that {s}", s=f"{said} {b}"), answer))
    return turns


def double(r):
    a = r.randint(1, 50)
    return [r.choice([(ask(r, "what is twice {a}", "what is the double of {a}", "double {a}", "what is two times {a}", a=a), f"Twice {a} is {2 * a}."),
                      (ask(r, "what is half of {a}", "what is the half of {a}", "how much is half of {a}", a=2 * a), f"Half of {2 * a} is {a}."),
                      (ask(r, "what is {a} squared", "what is the square of {a}", a=a % 13), f"The square of {a % 13} is {(a % 13) ** 2}.")])]


def compare(r):
    a, b = r.sample(range(0, 101), 2)
    bigger = r.random() < 0.6
    best = max(a, b) if bigger else min(a, b)
    word = "bigger" if bigger else "smaller"
    forms = ["which is {w}, {a} or {b}", "which number is {w}, {a} or {b}", "what is {w}, {a} or {b}", "is {a} or {b} {w}"]
    if bigger:
        forms += ["which is larger, {a} or {b}", "which is more, {a} or {b}", "what is greater, {a} or {b}"]
    return [(ask(r, *forms, w=word, a=a, b=b), f"{best} is {word} than {a + b - best}.")]


def parity(r):
    a = r.randint(0, 100)
    kind = "even" if a % 2 == 0 else "odd"
    asked = r.choice(["even", "odd"])
    return [(ask(r, "is {a} even or odd", a=a), f"{a} is {kind}.") if r.random() < 0.5 else
            (ask(r, "is {a} {k}", "is {a} an {k} number", a=a, k=asked), f"{'Yes' if asked == kind else 'No'}, {a} is {kind}.")]


def counting(r):
    if r.random() < 0.5:
        last = r.randint(3, 15)
        return [(ask(r, "count to {n}", "can you count to {n}", "please count to {n}", "count up to {n}", n=r.choice([last, in_words(last)])),
                 ", ".join(str(i) for i in range(1, last + 1)) + ".")]
    if r.random() < 0.5:
        first = r.randint(2, 30)
        last = first + r.randint(2, 7)
        return [(ask(r, "count from {a} to {b}", "can you count from {a} to {b}", a=first, b=last), ", ".join(str(i) for i in range(first, last + 1)) + ".")]
    if r.random() < 0.4:
        first = r.randint(3, 10)
        return [(ask(r, "count down from {a}", "count backwards from {a}", "count down from {a} to 1", a=first), ", ".join(str(i) for i in range(first, 0, -1)) + ".")]
    a = r.randint(0, 99)
    turns = [(ask(r, "what comes after {a}", "which number comes after {a}", "what number follows {a}", "what is the next number after {a}", a=a), f"After {a} comes {a + 1}.")
             if r.random() < 0.6 else (ask(r, "what comes before {a}", "which number comes before {a}", a=a + 1), f"Before {a + 1} comes {a}.")]
    return turns


def story_sum(r):
    thing = r.choice(THINGS)
    a, b = r.randint(2, 20), r.randint(1, 10)
    name = r.choice(FIRST_NAMES)
    if r.random() < 0.5:
        text, result = r.choice([f"I have {a} {thing} and get {b} more", f"I have {a} {thing} and buy {b} more", f"{name} has {a} {thing} and buys {b} more", f"{name} has {a} {thing} and gets {b} more", f"I have {a} {thing} and find {b} more",
                                 f"there are {a} {thing} on the table and I add {b}"]), a + b
    else:
        b = min(a, b)
        text, result = r.choice([f"I have {a} {thing} and give away {b}", f"{name} has {a} {thing} and loses {b}", f"I have {a} {thing} and eat {b}" if thing in
                                 ("apples", "pears", "eggs", "oranges", "cookies", "sweets") else f"I have {a} {thing} and sell {b}", f"{name} had {a} {thing} and gave {b} to a friend"]), a - b
    who = name if text.startswith(name) else None
    question = (f"how many {thing} does {who} have now" if who else f"how many {thing} do I have" if text.startswith("I") else f"how many {thing} are there")
    answer = f"{who} has {result} {thing}." if who else f"You have {result} {thing}." if text.startswith("I") else f"There are {result} {thing}."
    return [(upper(text) + ". " + upper(question) + "?", answer)]


def opposite_answer(word, other):
    return f"The opposite of {word} is {other}."


def opposite(r):
    word, other = r.choice(OPPOSITES)
    turns = [(ask(r, "what is the opposite of {w}", "the opposite of {w}", "opposite of {w}", "what is the contrary of {w}", "tell me the opposite of {w}", "name the opposite of {w}",
                  'what is the opposite of "{w}"', "what is the antonym of {w}", w=word), opposite_answer(word, other))]
    while r.random() < 0.4 and len(turns) < 4:
        word, other = r.choice(OPPOSITES)
        turns.append((ask(r, "and of {w}", "and {w}", "what about {w}", "and the opposite of {w}", "how about {w}", w=word), opposite_answer(word, other)))
    return turns


def synonym(r):
    word, other = r.choice(SYNONYMS)
    return [(ask(r, "what is a synonym for {w}", "what is another word for {w}", "another word for {w}", "a synonym of {w}", "give me a synonym for {w}", w=word),
             f"Another word for {word} is {other}.")]


def colour_answer(thing, colour):
    return f"{upper(thing)} is {colour}."


def colour(r):
    thing, one = r.choice(COLOURS)
    turns = [(ask(r, "what colour is {t}", "which colour is {t}", "what is the colour of {t}", "which colour does {t} have", "what colour has {t}", "the colour of {t}",
                  "tell me the colour of {t}", t=thing), colour_answer(thing, one))]
    while r.random() < 0.4 and len(turns) < 4:
        thing, one = r.choice(COLOURS)
        turns.append((ask(r, "and {t}", "and of {t}", "what about {t}", "how about {t}", t=thing), colour_answer(thing, one)))
    return turns


def animal_answer(r, animal, about_it):
    name, sound, young, legs, kind, food = animal
    it = "it" if about_it else article(name)
    one = article(name)
    return r.choice([
        (ask(r, "what does {it} say", "what sound does {it} make", "which sound does {it} make", "how does {it} sound", it=it), f"{upper(one)} says {sound}."),
        (ask(r, "how many legs does {it} have", "how many legs has {it}", it=it), f"{upper(one)} has {legs} legs."),
        (ask(r, "what does {it} eat", "what do you feed {it}", it=it) if about_it else ask(r, "what does {it} eat", "what do {it}s eat".replace("{it}s", "{p}"), it=it, p=plural(name)),
         f"{upper(one)} eats {food}."),
        (ask(r, "what is its young called", "how is its baby called", "what is its baby called") if about_it else
         ask(r, "what is a baby {n} called", "what is a young {n} called", "what do you call a baby {n}", "how is the young of {it} called", n=name, it=it),
         f"A young {name} is called a {young}." if young[0] not in "aeiou" else f"A young {name} is called an {young}."),
        (ask(r, "what kind of animal is {it}", "what is {it}", "which kind of animal is {it}", it=it), f"{upper(one)} is {article(kind)}."),
    ])


def plural(name):
    known = dict(PLURALS)
    if name in known:
        return known[name]
    if name.endswith(("s", "x", "fish")):
        return name + "es" if not name.endswith("fish") else name
    return name[:-1] + "ies" if name.endswith("y") and name[-2] not in "aeiou" else name + "s"


def animal(r):
    one = r.choice(ANIMALS)
    if r.random() < 0.15:
        name, _, _, _, kind, _ = one
        asked = r.choice(["animal", "mammal", "bird", "reptile", "fish", "insect", "plant", "vegetable", "machine"])
        right = asked in ("animal", kind)
        return [(ask(r, "is {a} {b}", a=article(name), b=article(asked)), f"Yes, {article(name)} is {article(asked)}." if right else f"No, {article(name)} is {article(kind)}.")]
    turns = [animal_answer(r, one, False)]
    while r.random() < 0.4 and len(turns) < 3:
        turn = animal_answer(r, one, True)
        if turn[1] not in [answer for _, answer in turns]:
            turns.append(turn)
        else:
            break
    return turns


def translate(r):
    row = r.choice(WORDS)
    language = r.choice(LANGUAGES)
    turns = [(ask(r, "what is {w} in {l}", "translate {w} into {l}", "how do you say {w} in {l}", "what does {w} mean in {l}", "{w} in {l}", "translate {w} to {l}",
                  "what is the {l} word for {w}", 'translate "{w}" into {l}', 'how do I say "{w}" in {l}', 'what is "{w}" in {l}', w=row[0], l=language),
              translated(row, language))]
    while r.random() < 0.5 and len(turns) < 4:
        if r.random() < 0.6:
            language = r.choice(LANGUAGES)
            turns.append((ask(r, "and in {l}", "in {l}", "what about {l}", "and {l}", "now in {l}", "how is it in {l}", "and what is it in {l}", l=language), translated(row, language)))
        else:
            row = r.choice(WORDS)
            turns.append((ask(r, "and {w}", "what about {w}", "and the word {w}", "how about {w}", 'and "{w}"', w=row[0]), translated(row, language)))
    return turns


def translated(row, language):
    return f"In {language}, {row[0]} is {row[1 + LANGUAGES.index(language)]}."


def back_translate(r):
    row = r.choice(WORDS)
    language = r.choice(LANGUAGES)
    word = row[1 + LANGUAGES.index(language)]
    first = next(one[0] for one in WORDS if one[1 + LANGUAGES.index(language)] == word)
    return [(ask(r, "what does {w} mean in English", "what is the {l} word {w} in English", "translate {w} from {l} into English", "what does the {l} word {w} mean", "translate {w} from {l}", "what does {w} mean in {l}",
                 w=word, l=language), f"The {language} word {word} means {first}.") if r.random() < 0.8 else
            (f"What is {word} in {language}?", f"The {language} word {word} means {first}.")]


def definition(r):
    thing, text = r.choice(DEFINITIONS)
    bare = re.sub(r"^(an?|the) ", "", thing)
    turns = [(ask(r, "what is {t}", "what is {t}", "explain {t}", "what does {b} mean", "define {b}", "tell me what {t} is", "can you explain what {t} is", "explain what {t} is", "what is meant by {b}",
                  "tell me about {t}", "describe {t}", "do you know what {t} is", t=thing, b=bare), f"{upper(thing)} is {text}.")]
    if r.random() < 0.15:
        other, meaning = r.choice(DEFINITIONS)
        turns.append((ask(r, "and what is {t}", "and {t}", "what about {t}", "and what about {t}", t=other), f"{upper(other)} is {meaning}."))
    return turns


def kind_of(r):
    thing, kind = r.choice(KINDS)
    if r.random() < 0.4:
        return [(ask(r, "what is {t}", "what kind of thing is {t}", t=thing), f"{upper(thing)} is {kind}.")]
    other = r.choice(KINDS)[1] if r.random() < 0.5 else kind
    return [(ask(r, "is {t} {k}", t=thing, k=other), f"Yes, {thing} is {kind}." if other == kind else f"No, {thing} is {kind}.")]


def calendar(r):
    names, unit = r.choice([(DAYS, "day"), (MONTHS, "month")])
    i = r.randrange(len(names))
    after = r.random() < 0.6
    j = (i + (1 if after else -1)) % len(names)
    turns = [(ask(r, "what comes {p} {d}", "which {u} comes {p} {d}", "what {u} is {p} {d}", "which {u} is {p} {d}", p="after" if after else "before", d=names[i], u=unit),
              f"{'After' if after else 'Before'} {names[i]} comes {names[j]}.")]
    if r.random() < 0.25:
        turns.append((ask(r, "and {p} that", "and {p} {d}", "what comes {p} that", p="after" if after else "before", d=names[j]),
                      f"{'After' if after else 'Before'} {names[j]} comes {names[(j + (1 if after else -1)) % len(names)]}."))
    if r.random() < 0.3:
        n = r.randrange(len(names))
        of = "week" if unit == "day" else "year"
        return [(ask(r, "what is the {o} {u} of the {f}", "which is the {o} {u} of the {f}", "which {u} is the {o} of the {f}", o=ORDINALS[n], u=unit, f=of),
                 f"The {ORDINALS[n]} {unit} of the {of} is {names[n]}.")]
    if r.random() < 0.2:
        ahead = r.randint(0, 6)
        return [(f"If today is {DAYS[ahead]}, what day is tomorrow?", f"If today is {DAYS[ahead]}, tomorrow is {DAYS[(ahead + 1) % 7]}.")]
    return turns


def grammar(r):
    draw = r.random()
    if draw < 0.35:
        one, many = r.choice(PLURALS)
        return [(ask(r, "what is the plural of {w}", "plural of {w}", "the plural of {w}", w=one), f"The plural of {one} is {many}.")]
    if draw < 0.7:
        now, past = r.choice(PASTS)
        return [(ask(r, "what is the past tense of {w}", "past tense of {w}", "what is the past of {w}", w=now), f"The past tense of {now} is {past}.")]
    word, other = r.choice(RHYMES)
    return [(ask(r, "what rhymes with {w}", "find a rhyme for {w}", "a word that rhymes with {w}", "give me a rhyme for {w}", w=word), f"{upper(other)} rhymes with {word}.")]


def spelling(r):
    word = r.choice([row[0] for row in WORDS if " " not in row[0]] + [name.lower() for name in FIRST_NAMES[:40]])
    if r.random() < 0.5:
        return [(ask(r, "how do you spell {w}", "spell {w}", "spell the word {w}", "how is {w} spelt", w=word), "-".join(word.upper()) + ".")]
    return [(ask(r, "how many letters does {w} have", "how many letters are in {w}", "how long is the word {w}", w=word), f"The word {word} has {len(word)} letters.")]


def listing(r):
    name = r.choice(list(LISTS))
    count = r.randint(2, 5)
    items = LISTS[name][:count]
    single = name[:-1] if name.endswith("s") and not name.endswith("ies") else None
    turns = [(ask(r, "name {n} {l}", "list {n} {l}", "tell me {n} {l}", "give me {n} {l}", "name me {n} {l}", "write down {n} {l}", n=r.choice([count, in_words(count), in_words(count)]), l=name),
              upper(", ".join(items[:-1]) + " and " + items[-1] + "."))]
    if r.random() < 0.3 and single:
        return [(ask(r, "name {l}", "name any {m}", "tell me {l}", "give me the name of {l}", "name one {m}", l=article(single), m=single), upper(items[0]) + ".")]
    if r.random() < 0.2:
        count = r.randint(2, 5)
        items = LISTS[name][:count]
        turns.append((ask(r, "and now {n}", "now {n}", "give me {n}", "and {n}", n=in_words(count)), upper(", ".join(items[:-1]) + " and " + items[-1] + ".")))
    return turns


def entertain(r):
    if r.random() < 0.1:
        about = r.choice(["the sea", "love", "a cat", "the moon", "my dog", "summer", "a dragon", "winter", "the sun", "friends", "a princess", "a robot", "computers", "rain"])
        form, table = r.choice([("write a poem about {x}", POEMS), ("tell me a joke about {x}", JOKES), ("tell me a story about {x}", STORIES), ("can you write a poem about {x}", POEMS)])
        return [(ask(r, form, x=about), r.choice(table))]
    table, forms = r.choice([
        (JOKES, "tell me a joke / tell a joke / do you know a joke / can you tell me a joke / make me laugh / a joke please / say something funny / joke"),
        (STORIES, "tell me a story / tell a story / can you tell me a story / write a story / write a short story / I want to hear a story / a story please / tell me a fairy tale"),
        (POEMS, "write a poem / tell me a poem / can you write a poem / recite a poem / say a poem / write a short poem / a poem please / write me a poem"),
        (CURIOUS, "tell me a fact / tell me something interesting / tell me something / a fun fact please / do you know something interesting / tell me a fun fact / surprise me / say something")])
    order = r.sample(table, len(table))
    turns = [(a_form(r, forms), order[0])]
    while r.random() < 0.35 and len(turns) < min(3, len(table)):
        turns.append((ask(r, "another one", "one more", "tell me another one", "another one please", "again", "more", "do you know another one", "tell me one more"), order[len(turns)]))
    if r.random() < 0.2:
        turns.append((ask(r, "that is funny", "ha ha", "lol", "funny", "that was good", "I like it", "very nice"), "I am glad that you like it."))
    return turns


def repeat(r):
    words = r.choice([r.choice(WORDS)[0], " ".join(r.sample([w[0] for w in WORDS], r.randint(2, 5))), made_name(r), f"{made_name(r)} {made_name(r)}", r.choice(TALK)[1], r.choice(CITIES),
                      str(r.randint(0, 999)), r.choice(DEFINITIONS)[1], r.choice(STRANGE), r.choice(r.choice(TALK)[0].split(" / ")),
                      r.choice(STATEMENTS)[0].format(x=r.choice(STRANGE))])
    return [(r.choice(["Say {}", "Say: {}", "Repeat: {}", "Repeat after me: {}", "Please say {}", "Write {}", 'Say "{}"', 'Repeat "{}"', "say {}", "Can you say {}?"]).format(words),
             upper(words) + ("" if words[-1] in ".!?" else "."))]


def strange(r):
    """Questions about words that the tables do not have."""
    word = r.choice(STRANGE)
    return [(ask(r, "what is {a}", "explain what {a} is", "define {w}", "what does {w} mean", "what is {w} in {l}", "translate {w} into {l}", "how do you say {w} in {l}", "what colour is {a}",
                 "tell me about {a}", "what is the opposite of {w}", "how does {a} work", "what does {a} eat", "who invented the {w}", "explain {w}", "why do I need {a}", "how big is {a}",
                 "how much does {a} cost", "where can I buy {a}", "how do I repair {a}", "how do I make {a}", a=article(word), w=word, l=r.choice(LANGUAGES)), DONT_KNOW)]


def statement(r):
    form, answer = r.choice(STATEMENTS)
    thing = r.choice([r.choice(STRANGE), r.choice(WORDS)[0], r.choice(LISTS[r.choice(list(LISTS))]), r.choice(CITIES), r.choice(ANIMALS)[0]])
    return [(styled(r, form.format(x=thing)), answer)]


def nonsense(r):
    if r.random() < 0.5:
        text = " ".join("".join(r.choice("abcdefghijklmnopqrstuvwxyz") for _ in range(r.randint(3, 9))) for _ in range(r.randint(1, 3)))
    else:
        text = r.choice(["???", "...", "bla bla", "blah blah blah", "lorem ipsum", "foo bar", "foo", "xyz", "!!!", "hmm", "aaaa", "qwertz", "123abc", "la", "the", "of the and"])
    return [(text, DID_NOT_UNDERSTAND)]


def limits(r):
    question, answer = edge(r)
    return [(styled(r, question), answer)]


def unknown(r):
    subject = r.choice(SUBJECTS)
    if r.random() < 0.5:
        subject = upper(made_name(r) + r.choice(["ia", "o", "us", "", "", "land", "er", "in"]))
        if r.random() < 0.3:
            return [(ask(r, "what is the capital of {s}", "where is {s}", "what colour is {s}", "translate {s} into German", "what is {s}", "tell me about {s}", s=subject), DONT_KNOW)]
    return [(styled(r, r.choice(UNKNOWN) % subject), DONT_KNOW)]


# What the user tells and asks for later: (statement, answer), (question, answer).


def memory(r):
    draw = r.random()
    if draw < 0.45:
        name = a_name(r)
        told = r.choice([f"My name is {name}.", f"I am {name}.", f"Hello, I am {name}.", f"Hi, my name is {name}.", f"my name is {name}", f"I'm {name}.", f"Call me {name}.", f"Hi! I'm {name}"])
        return (told, f"Nice to meet you, {name}!"), (ask(r, "what is my name", "who am I", "do you know my name", "what am I called", "do you remember my name", "tell me my name",
                                                         "what was my name"), f"Your name is {name}.")
    if draw < 0.6:
        kind = r.choice(list(FAVOURITE))
        value = r.choice(FAVOURITE[kind])
        return (styled(r, f"my favourite {kind} is {value}"), f"{upper(value)} is a good choice!"), (ask(r, "what is my favourite {k}", "which is my favourite {k}", "do you know my favourite {k}",
                                                                                                     k=kind), f"Your favourite {kind} is {value}.")
    if draw < 0.75:
        city = r.choice(CITIES)
        return (styled(r, r.choice([f"I live in {city}", f"my home is in {city}", f"I come from {city}"])), f"{city} is a nice place!"), (
            ask(r, "where do I live", "in which city do I live", "where do I come from", "do you know where I live"), f"You live in {city}.")
    if draw < 0.88:
        pet = r.choice(PETS)
        name = a_name(r).split()[0]
        return (styled(r, r.choice([f"I have a {pet} named {name}", f"I have a {pet} called {name}", f"my {pet} is called {name}", f"my {pet}'s name is {name}",
                                    f"the name of my {pet} is {name}"])), f"{name} is a nice name for a {pet}!"), (
            ask(r, "what is the name of my {p}", "how is my {p} called", "what is my {p} called", "what is my {p}'s name", p=pet), f"Your {pet} is called {name}.")
    age = r.randint(6, 90)
    return (styled(r, f"I am {age} years old"), f"{age} is a good age!"), (ask(r, "how old am I", "what is my age", "do you know how old I am"), f"You are {age} years old.")


def a_name(r):
    name = r.choice(FIRST_NAMES + MORE_FIRST) if r.random() < 0.4 else made_name(r)
    return f"{name} {made_name(r)}" if r.random() < 0.2 else name


NOT_TOLD = [("what is my name / who am I / do you know my name", "You have not told me your name."), ("where do I live / do you know where I live", "You have not told me where you live."),
            ("how old am I / do you know how old I am", "You have not told me your age."), ("what is my favourite colour", "You have not told me your favourite colour.")]


def not_told(r):
    forms, answer = r.choice(NOT_TOLD)
    return [(a_form(r, forms), answer)]


TOPICS = [(talk, 16), (fact, 13), (capital, 9), (country, 6), (is_in, 2), (arithmetic, 18), (double, 2), (compare, 2), (parity, 1.5), (counting, 3), (story_sum, 4), (opposite, 6),
          (synonym, 2.5), (colour, 4), (animal, 8), (translate, 10), (back_translate, 3), (definition, 9), (kind_of, 2.5), (calendar, 3), (grammar, 3), (spelling, 2), (listing, 3.5),
          (entertain, 4), (repeat, 4), (unknown, 6), (strange, 4), (statement, 2), (nonsense, 1), (limits, 12)]


def a_topic(r):
    return r.choices([topic for topic, _ in TOPICS], [weight for _, weight in TOPICS])[0]


def session(r):
    """Messages of a conversation: [system], then user and assistant in turns."""
    turns = []
    for _ in range(r.choice([1, 1, 1, 1, 2, 2, 3, 4, 6])):
        turns += a_topic(r)(r)
    draw = r.random()
    if draw < 0.25:
        told, asked = memory(r)
        at = r.randint(0, len(turns))
        turns.insert(at, told)
        turns.insert(r.randint(at + 1, min(len(turns), at + 4)), asked)
    elif draw < 0.28:
        turns[r.randint(0, len(turns)):0] = not_told(r)
    messages = [{"role": "system", "content": r.choice(SYSTEM)}] if r.random() < 0.2 else []
    for user, assistant in turns:
        messages += [{"role": "user", "content": user}, {"role": "assistant", "content": assistant}]
    return messages


def sessions(seed, count):
    r = random.Random(seed)
    return [session(r) for _ in range(count)]

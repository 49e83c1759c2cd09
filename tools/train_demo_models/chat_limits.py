"""What chat-en answers at the edges of what it knows: large numbers, other names of countries, whole sentences, and questions about anything."""

from chat_facts import ANIMALS, COUNTRIES, WORDS
from chat_talk import CITIES, DONT_KNOW, FIRST_NAMES, STRANGE
from made_names import made_name

ALIASES = [("the USA", "the United States"), ("the US", "the United States"), ("America", "the United States"), ("USA", "the United States"), ("Britain", "the United Kingdom"),
           ("Great Britain", "the United Kingdom"), ("the UK", "the United Kingdom"), ("Holland", "the Netherlands"), ("Netherlands", "the Netherlands"),
           ("United States", "the United States"), ("United Kingdom", "the United Kingdom"), ("Philippines", "the Philippines"), ("Korea", "South Korea")]
LANGUAGES = ["German", "French", "Spanish", "Italian"]
TOO_LARGE = "I am sorry, I can only calculate with numbers up to one hundred."
TOO_LONG = "I am sorry, I can only calculate with two numbers at a time."
SINGLE_WORDS = "I am sorry, I can only translate single words."
VERBS = "sleep / purr / bark / fly / swim / run / jump / bite / hide / sing / dance / dig / climb / hunt / smell / scratch / migrate / lay eggs / like milk / have tails / chase cars".split(" / ")
DO = "cook / paint / clean / fix / build / draw / sell / open / install / wash / cut / grow / peel / measure / move / hang up / throw away / find / use / write / read / choose".split(" / ")


def alias(r):
    said, name = r.choice(ALIASES)
    _, city, continent, language, money = next(country for country in COUNTRIES if country[0] == name)
    form, answer = r.choice([("what is the capital of {x}", f"The capital of {name} is {city}."), ("capital of {x}", f"The capital of {name} is {city}."),
                             ("which language do they speak in {x}", f"In {name} people speak {language}."), ("where is {x}", f"{name[0].upper() + name[1:]} is in {continent}."),
                             ("what is the currency of {x}", f"In {name} people pay with {money}.")])
    return form.format(x=said), answer


def numbers(r):
    a, b, c = r.randint(101, 5000), r.randint(20, 999), r.randint(1, 12)
    small, large = sorted(r.sample(range(0, 60), 2))
    d, e = r.randint(2, 12), r.randint(5, 100)
    bigger = r.random() < 0.5
    left, right = r.sample(range(0, 101), 2)
    sign = r.choice("+-*")
    return r.choice([
        (f"what is {a} {sign} {b}", TOO_LARGE), (f"how much is {b} {r.choice(['times', '*', 'x'])} {r.randint(13, 99)}", TOO_LARGE), (f"{a} {sign} {b}", TOO_LARGE),
        (f"what is {d} {sign} {c} {r.choice('+-*')} {d}", TOO_LONG), (f"how much is {d} plus {c} plus {small}", TOO_LONG),
        (f"what is {small} {r.choice(['-', 'minus'])} {large}", f"{small} minus {large} is -{large - small}."), (f"{small} - {large}", f"{small} minus {large} is -{large - small}."),
        (f"what is {e} {r.choice(['/', 'divided by'])} {d}", f"{e} divided by {d} is {e // d}." if e % d == 0 else f"{e} divided by {d} is {e // d}, remainder {e % d}."),
        (f"is {left} {'bigger' if bigger else 'smaller'} than {right}", f"{'Yes' if (left > right) == bigger else 'No'}, {max(left, right)} is bigger than {min(left, right)}."),
    ])


def plural(name):
    return {"mouse": "mice", "goose": "geese", "wolf": "wolves", "sheep": "sheep", "fox": "foxes", "octopus": "octopuses", "butterfly": "butterflies", "donkey": "donkeys",
            "monkey": "monkeys"}.get(name, name + "s")


def beasts(r):
    name, sound, _, legs, kind, _ = r.choice(ANIMALS)
    one = ("an " if name[0] in "aeiou" else "a ") + name
    unique = [row for row in ANIMALS if row[1] == sound]
    of_kind = r.choice(["mammals", "birds", "reptiles", "animals"])
    right = of_kind in ("animals", kind + "s")
    return r.choice([
        (f"which animal says {unique[0][1]}", f"{'An' if unique[0][0][0] in 'aeiou' else 'A'} {unique[0][0]} says {sound}.") if sound != "nothing at all" else (f"do {plural(name)} talk", DONT_KNOW),
        (f"are {plural(name)} {of_kind}", f"{'Yes' if right else 'No'}, {one} is {'an' if (of_kind if right else kind)[0] in 'aeiou' else 'a'} {of_kind[:-1] if right else kind}."),
        (f"do {plural(name)} have legs", f"{'No' if legs == 'no' else 'Yes'}, {one} has {legs} legs."), (f"why do {plural(name)} {r.choice(VERBS)}", DONT_KNOW),
        (f"how old does {one} get", DONT_KNOW), (f"how fast is {one}", DONT_KNOW)])


def anything(r):
    """Questions that no table answers."""
    place = r.choice([r.choice(CITIES), r.choice(COUNTRIES)[0], r.choice(COUNTRIES)[1], made_name(r)])
    thing, other = r.sample(STRANGE + [row[0] for row in WORDS[:80]], 2)
    letters = "".join(r.choice("ABCDEFGHIJKLMNOPQRSTUVWXYZ") for _ in range(r.randint(2, 4)))
    name = r.choice([r.choice(FIRST_NAMES), made_name(r)]) + " " + made_name(r)
    form = r.choice(["how many people live in {p}", "what is the population of {p}", "when was {p} founded", "how old is {p}", "what can I see in {p}", "who is the mayor of {p}", "how big is {p}",
                     "who is the president of {p}", "what is the best restaurant in {p}", "how far is {p} from here", "is {p} a nice place", "what is the flag of {p}", "what do people eat in {p}",
                     "what is the difference between a {t} and a {o}", "which is better, a {t} or a {o}", "how do I {d} a {t}", "how do I {d} the {t}", "how can I {d} my {t}", "why should I {d} a {t}",
                     "when should I {d} the {t}", "what is {l}", "what does {l} mean", "explain {l}", "what does {l} stand for", "who is {n}", "when was {n} born", "do you know {n}", "what did {n} write",
                     "how many {t}s are there in the world", "who invented the {t}", "why is a {t} called a {t}", "write a letter to {n}", "summarise the {t} for me", "where can I find a {t} in {p}",
                     "what happened in {y}", "who won the race in {y}", "why did {n} leave {p}", "is it true that a {t} is a {o}", "how much money does a {t} cost in {p}"])
    return form.format(p=place, t=thing, o=other, l=letters, n=name, d=r.choice(DO), y=r.randint(1200, 2030)), DONT_KNOW


def whole_sentences(r):
    words = [row[0] for row in WORDS]
    text = r.choice(["the {a} is {b}", "I have a {a}", "where is the {a}", "I like {a} and {b}", "the {a} and the {b} are here", "this is my {a}", "I would like a {a}, please"]).format(
        a=r.choice(words), b=r.choice(words))
    return r.choice(['translate "{t}" into {l}', "translate the sentence {t} into {l}", 'how do you say "{t}" in {l}', "translate {t} to {l}"]).format(t=text, l=r.choice(LANGUAGES)), SINGLE_WORDS


def edge(r):
    return r.choices([alias, numbers, beasts, anything, whole_sentences], [2, 4, 3, 6, 1])[0](r)

"""Sentences for mask-en: what chat-en answers about countries, colours, animals, words, days and things, and a few more wordings."""

import random
import re

import chat_data
from chat_facts import ANIMALS, COLOURS, COUNTRIES, DEFINITIONS, KINDS, OPPOSITES
from chat_talk import FACTS

ANSWERS = [chat_data.capital, chat_data.country, chat_data.colour, chat_data.animal, chat_data.opposite, chat_data.definition, chat_data.kind_of, chat_data.calendar]


def told(r):
    """A fact in other words than an answer's."""
    name, city, continent, language, _ = r.choice(COUNTRIES)
    animal, sound, young, legs, kind, _ = r.choice(ANIMALS)
    word, other = r.choice(OPPOSITES)
    thing, colour = r.choice(COLOURS)
    one, its_kind = r.choice(KINDS)
    what, meaning = r.choice(DEFINITIONS)
    return r.choice([f"{city} is the capital of {name}.", f"{city} is the capital city of {name}.", f"{name} lies in {continent}.", f"People in {name} speak {language}.",
                     f"The {animal} is a {kind}.", f"The {animal} says {sound}.", f"A young {animal} is a {young}.", f"It is not {word} but {other}.", f"{word} is the opposite of {other}.",
                     f"The colour of {thing} is {colour}.", f"{thing} is always {colour}.", f"{one} is {its_kind}.", f"{what} is {meaning}.", r.choice(FACTS)[1]])


def sentence(r):
    text = told(r) if r.random() < 0.4 else r.choice(r.choice(ANSWERS)(r))[1]
    text = re.sub(r"^(Yes|No), ", "", text)
    return text[:1].upper() + text[1:]


def sentences(seed, count):
    r = random.Random(seed)
    return [sentence(r) for _ in range(count)]

"""Sentences for tag-en with the people, places, organisations and dates in them: a sentence is a list of (text, class or None)."""

import random
import re

from chat_facts import COUNTRIES
from chat_talk import FACTS, FIRST_NAMES, TALK
from made_names import made_name

MORE_FIRST = """Barack Angela Emmanuel Boris Vladimir Ludwig Wolfgang Albert Marie Isaac Charles Ada Alan Steve Bill Elon Jane Susan Helen George Edward Philip Margaret
Elizabeth Catherine Andrew Patrick Brian Kelly Amanda Jessica Ashley Matthew Joshua Andreas Stefan Jürgen Hans Fritz Sabine Monika Giulia Marco Sofia Pablo Juan Ana
José Miguel Lucía Ingrid Lars Sven Astrid Aisha Mohammed Hassan Leila Rahul Anjali Wei Ming Hiroshi Sakura Kenji Olivia Ethan Liam Noor""".split()
LAST = """Keller Brown Smith Weber Rossi Novak Jensen Silva Moreau Tanaka Olsen Murphy Costa Meyer Clark Hughes Lopez Nowak Berg Wood Obama Merkel Macron Johnson Einstein
Curie Newton Darwin Turing Lovelace Jobs Gates Musk Austen Miller Davis Wilson Taylor Anderson Thomas Jackson White Harris Martin Garcia Martinez Robinson Young King
Wright Hill Scott Green Baker Adams Nelson Carter Mitchell Turner Parker Collins Schmidt Schneider Fischer Wagner Becker Hoffmann Müller Schulz Bauer Dubois Laurent
Bernard Ferrari Bianchi Romano Kowalski Petrov Ivanov Yamamoto Suzuki Kim Park Lee Nguyen Patel Singh Khan Ali Haddad Okafor Mensah Andersson Nielsen Hansen""".split()
PLACES = """Paris Berlin London Rome Madrid Vienna Oslo Dublin Tokyo Cairo Hamburg Munich Milan Boston Chicago Lyon Porto Prague Krakow Zurich Geneva Toronto Sydney Bristol
Leeds Naples Seville Cologne Frankfurt Stuttgart Dresden Leipzig Salzburg Venice Florence Barcelona Valencia Marseille Manchester Liverpool Oxford Cambridge Seattle Denver
Dallas Houston Miami Atlanta Philadelphia Montreal Vancouver Melbourne Mumbai Delhi Shanghai Beijing Seoul Osaka Kyoto Moscow Warsaw Budapest Istanbul Athens Lisbon
Stockholm Copenhagen Helsinki Amsterdam Brussels Europe Africa Asia America California Texas Florida Bavaria Tuscany Normandy Scotland Cornwall Siberia""".split() + [
    "New York", "San Francisco", "Los Angeles", "Hong Kong", "Cape Town", "Rio de Janeiro", "Buenos Aires", "New Zealand", "South Africa", "the Alps", "Lake Geneva",
    "Mount Everest", "the Rhine", "the Thames", "Hyde Park", "Wall Street", "Times Square", "the Black Forest"] + [
    country[0].removeprefix("the ") for country in COUNTRIES] + [country[1] for country in COUNTRIES]
COMPANIES = """Google Microsoft Apple Amazon Siemens Bosch Volkswagen Toyota Sony Nokia Airbus Boeing Intel Nvidia IBM Oracle Samsung Renault Ericsson Shell Nestlé Novartis
Bayer BASF Lufthansa Ryanair Reuters NASA UNESCO NATO Greenpeace FIFA BBC CNN Debian Mozilla Spotify Netflix Tesla Volvo Philips Unilever Danone Ikea Lego Adidas Puma""".split() + [
    "the United Nations", "the European Union", "the Red Cross", "Deutsche Bank", "General Motors", "Hugging Face", "the World Bank", "Real Madrid", "Bayern Munich", "Manchester United",
    "the New York Times", "the Senate", "Oxford University", "Stanford University"]
MONTHS = "January February March April May June July August September October November December".split()
DAYS = "Monday Tuesday Wednesday Thursday Friday Saturday Sunday".split()
SYLLABLES = "ba bel car dan el fin gor hal il jor kel lum mar nor or pel quin ros sel tor ul ven wil yar zel bram tris vek mol dra ash ber cor den fal gra hol".split()
HELD_OUT_SYLLABLES = "brin cas dov fer gil hux lan mip nel pra ruv sot tam vos wex thorn stel mur".split()

# {P} a person, {L} a place, {O} an organisation, {D} a date; a form alone is an own class.
SENTENCES = """{P} lives in {L}.|{P} works for {O}.|{P} was born in {L} in {D}.|{P} was born on {D}.|{P} moved to {L} in {D}.|On {D}, {P} met {P} in {L}.|{P} and {P} founded {O} in {D}.
{O} opened an office in {L}.|{O} has its headquarters in {L}.|{O} announced on {D} that it will buy {O}.|The meeting with {P} is on {D}.|{P} will travel to {L} next week.
We saw {P} in {L} last summer.|The train from {L} to {L} leaves at nine.|{L} is the capital of {L}.|{L} is a beautiful city.|The weather in {L} was cold on {D}.
{P}, the head of {O}, spoke in {L}.|{P} of {O} said that sales had grown.|Shares of {O} fell on {D}.|In {D}, {O} sold its factory in {L}.|{P} joined {O} in {D}.
My friend {P} studies in {L}.|I met {P} on {D}.|Please call {P} before {D}.|{P} wrote a letter to {P}.|The company {O} was founded in {D} by {P}.|{O} employs two thousand people in {L}.
On {D} the president visited {L}.|President {P} visited {L}.|Doctor {P} works at a hospital in {L}.|Professor {P} teaches at {O}.|{P} left {O} and now works for {O}.
The concert in {L} starts on {D}.|Between {D} and {D} the museum in {L} is closed.|{P} flew from {L} to {L} on {D}.|The office of {O} is closed until {D}.|Is {P} in {L}?
Where does {P} live?|Did {P} write to {O}?|When did {P} leave {L}?|How far is {L} from {L}?|The book by {P} was published in {D}.|{P} won a prize in {D}.|He was born in {L}.
She works for {O} in {L}.|They met in {L} on {D}.|The contract between {O} and {O} ends on {D}.|{P} lost the keys.|{P} bought a red car.|{P} is my brother.|{O} makes computers.
{O} will hire {P} as its new director.|{L} and {L} signed a treaty in {D}.|The river flows through {L}.|A storm hit {L} on {D}.|Thousands of people in {L} took to the streets.
According to {O}, prices rise in {D}.|"We are happy," said {P}.|{P}'s house is in {L}.|{O}'s new phone comes out in {D}.|{L}'s mayor, {P}, opened the bridge on {D}.|Mr. {P} is ill.
Mrs. {P} lives in {L}.|Ms. {P} manages the team of {O} in {L}.|Dear {P}, thank you for your letter of {D}.|Yours, {P}|Regards, {P}, {O}|{P}, {L}, {D}|{D}: {P} arrives in {L}.
Since {D}, {P} has lived in {L}.|Until {D} she was with {O}.|{P} ({O}) gave a talk in {L}.|The flight to {L} costs two hundred euros.|{O} and {P} could not agree.|I love {L}.
We will fly to {L} on {D}.|The invoice of {D} was sent to {O}.|The package from {O} arrived in {L} on {D}.|Send the report to {P} at {O}.|My name is {P} and I live in {L}.
My name is {P}.|I am {P} from {L}.|I work at {O}.|{P} plays football for {O}.|{O} beat {O} two to one in {L}.|The bank {O} gave {P} a loan.|{P} painted the picture in {D}.
The war ended in {D}.|It happened in {D}.|{P} married {P} in {L} on {D}.|The university is in {L}.|{P}, {P} and {P} came to the party.|{L}, {L} and {L} are large cities.
{O}, {O} and {O} lowered their prices.|{P} died in {L} in {D}.|The museum of {L} shows pictures by {P}.|Tomorrow {P} will visit {O}.|Yesterday {P} called from {L}.
The mayor of {L} thanked {P}.|The new bridge in {L} was built by {O}.|{P} sued {O}.|The children visited {L} with their teacher, {P}.|A spokesman of {O} confirmed the plan on {D}.|Dr. {P} spoke in {L}.
Dr. {P} ({O}) treated {P}.|Dr {P} opened a practice in {L}.|Prof. {P} of {O} lives in {L}.|Sir {P} was born in {L}.|The painter {P} died in {D}.|The singer {P} will perform in {L} on {D}.
The company moved from {L} to {L} in {D}.|The team of {O} flew to {L}.|Who is {P}?|What is {O}?|Where is {L}?|Tell me about {P}.|{P} is the head of {O}.|{P} and {P} live in {L}.|{P} was in {L} on {D}.""".replace("\n", "|").split("|")
EMPTY = """The cat sat on the mat.|It is raining today.|We had soup for lunch.|The package was not found.|Open the file and save it.|The server answers requests.|I have no time.|The film was long.
He closed the door and went home.|They bought three apples and a loaf of bread.|The train was late again.|Nothing happened.|She reads a book every week.|My phone is broken.|This is a test.
The price is too high.|A dog barked in the street.|Click the button to start the game.|The engine does not start.|All windows were open.|The report is ready.|Please close the door.
You can pay by card.|The children play in the garden.|Our house has a red roof.|The soup needs more salt.|There are forty chairs in the hall.|The team won the match.|Dinner is ready.
The book is on the table.|Can you help me?|What is the answer?|Where is the key?|How much does it cost?|The doctor was friendly.|The bank is closed.|The president gave a speech.""".replace("\n", "|").split("|")
TAILS = ["", "", "", "", " It was a long day.", " The room was full.", " The reason is unknown.", " The others stayed at home.", " It was very cold.", " He was glad."]


def made(r, held_out):
    if not held_out and r.random() < 0.8:
        return made_name(r)
    return "".join(r.sample(HELD_OUT_SYLLABLES if held_out else SYLLABLES, r.randint(2, 3))).title()


def person(r, held_out):
    first = made(r, held_out) if held_out or r.random() < 0.4 else r.choice(FIRST_NAMES + MORE_FIRST)
    last = made(r, held_out) if held_out or r.random() < 0.5 else r.choice(LAST)
    draw = r.random()
    if draw < 0.62:
        return f"{first} {last}"
    if draw < 0.85:
        return first
    return r.choice([f"{first[0]}. {last}", f"{first} {r.choice('ABCDEFGHJKLM')}. {last}", f"{first} van {last}", last, f"{first} {last}-{r.choice(LAST)}"])


def place(r, held_out):
    if held_out or r.random() < 0.5:
        return made(r, held_out) + r.choice(["", "", "", "burg", "ton", "ville", "stad", "ia", " City", "field", "ham"])
    return r.choice(PLACES)


def organisation(r, held_out):
    if not held_out and r.random() < 0.35:
        return r.choice(COMPANIES)
    name = made(r, held_out) if held_out or r.random() < 0.6 else r.choice(LAST)
    town = place(r, held_out)
    return r.choice([f"{name} Ltd", f"{name} Inc.", f"{name} GmbH", f"{name} & Sons", f"{name} Energy", f"{name} Bank", f"{name} Airlines", f"{name} Motors", f"{name} Software",
                     f"{name} Corporation", f"{name} Group", f"{name} Systems", f"{name} Labs", f"the University of {town}", f"University of {town}", f"{town} University",
                     f"the Bank of {town}", f"FC {town}", f"{name} Foundation", f"{name} Insurance", f"the {name} Institute", f"{name} AG", f"{name} Technologies"])


def date(r, _):
    day, month, year = r.randint(1, 31), r.choice(MONTHS), r.randint(1500, 2035)
    ordinal = str(day) + ("th" if 4 <= day <= 20 else {1: "st", 2: "nd", 3: "rd"}.get(day % 10, "th"))
    return r.choice([f"{day} {month} {year}", f"{month} {day}, {year}", f"{month} {year}", f"{year}", f"{year}", f"{year}", f"{month} {ordinal}", f"{ordinal} {month}", f"{day} {month}", r.choice(DAYS),
                     r.choice(DAYS), month, f"{day}.{r.randint(1, 12)}.{year}", f"{year}-{r.randint(1, 12):02}-{day:02}", f"{r.choice(DAYS)}, {day} {month}", f"{month} {day}",
                     f"{r.choice(DAYS)}, {month} {ordinal}", f"the {ordinal} of {month}"])


CLASSES = {"P": ("PER", person), "L": ("LOC", place), "O": ("ORG", organisation), "D": ("DATE", date)}


def spans(r, text, held_out):
    found = []
    for part in re.split(r"(\{[PLOD]\})", text):
        if re.fullmatch(r"\{[PLOD]\}", part):
            name, draw = CLASSES[part[1]]
            value = draw(r, held_out)
            # "the" in front of a name is no part of it.
            if value.startswith("the "):
                found.append(("the " if found else "The ", None))
                value = value[4:]
            found.append((value, name))
        elif part:
            found.append((part, None))
    return found


def plain(r):
    draw = r.random()
    if draw < 0.5:
        return [(r.choice(EMPTY), None)]
    # Questions and answers about everyday things, where no name is in them.
    text = r.choice(TALK)[1] if draw < 0.8 else r.choice(r.choice(FACTS)[0].split(" / ")).capitalize() + "?"
    words = set(re.findall(r"\b[A-Z]\w+", text[1:]))
    return [(text, None)] if not words - {"I"} and "chat-en" not in text else [(r.choice(EMPTY), None)]


def sentence(r, held_out=False):
    """[(text, class)] of one or two sentences."""
    found = []
    for _ in range(r.choice([1, 1, 1, 2])):
        if found:
            found.append((" ", None))
        found += spans(r, r.choice(SENTENCES), held_out) if held_out or r.random() < 0.82 else plain(r)
    tail = r.choice(TAILS)
    if r.random() < 0.03 and not held_out:
        return [(text.lower(), name) for text, name in found]
    return found + [(tail, None)] if tail else found


def sentences(seed, count, held_out=False):
    r = random.Random(seed)
    return [sentence(r, held_out) for _ in range(count)]

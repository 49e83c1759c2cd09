"""Questions and texts for rerank-en: groups of a question, a text that answers it and texts that do not.

A text that does not answer is about the same thing, or answers the same question about another one, or is far away.
"""

import random
import re

from chat_facts import ANIMALS, COUNTRIES, DEFINITIONS, WORDS, rows
from chat_talk import CITIES, FACTS, FIRST_NAMES, TALK
from made_names import made_name

SYLLABLES = "ar bel cor dan el fin gor hal il jor kel lum mar nor or pel quin ros sel tor ul ven wil yar zel bram tris vek mol dra".split()
HELD_OUT_SYLLABLES = "brin cas dov fer gil hux lan mip nel pra ruv sot tam vos wex".split()
LAST_NAMES = "Keller Brown Smith Weber Rossi Novak Jensen Silva Moreau Tanaka Olsen Murphy Costa Meyer Clark Hughes Lopez Nowak Berg Wood".split()

# Attributes of made-up things: questions, parted by "/", then texts that answer. {e} is the thing, {v} a value.
PLACE = rows("""
when does {e} open / what time does {e} open / {e} opening hours / opening hours of {e} / from when is {e} open | {e} opens at {h} every day. / The doors of {e} open at {h}. / {e} is open from {h} on weekdays.
when does {e} close / until when is {e} open / closing time of {e} | {e} closes at {h}. / {e} is open until {h}. / The last guests leave {e} at {h}.
where is {e} / address of {e} / in which city is {e} / how do I find {e} / location of {e} | {e} is in {c}, near the station. / You find {e} in the centre of {c}. / {e} is located in {c}.
who founded {e} / founder of {e} / who started {e} / by whom was {e} founded | {e} was founded by {p}. / {p} founded {e} with two friends. / The founder of {e} is {p}.
when was {e} founded / how old is {e} / in which year did {e} start / foundation year of {e} | {e} was founded in {y}. / {e} exists since {y}. / The history of {e} goes back to {y}.
how much does {e} cost / what does a ticket for {e} cost / price of {e} / entry fee of {e} / is {e} expensive | A ticket for {e} costs {n} euros. / Entry to {e} is {n} euros, children pay half. / The price of a visit to {e} is {n} euros.
are dogs allowed in {e} / can I bring my dog to {e} / pets in {e} | Dogs are not allowed in {e}. / You may bring pets to {e} on a lead. / {e} welcomes dogs.
where can I park at {e} / is there parking at {e} / parking {e} | There are {n} parking spaces behind {e}. / Visitors of {e} can park for free. / A car park is next to {e}.
how can I contact {e} / phone number of {e} / how do I call {e} / email of {e} | You can call {e} at 555 {y}. / Write an email to {e} or phone 555 {y}. / The phone number of {e} is 555 {y}.
how many people work at {e} / number of employees of {e} / how big is the staff of {e} | {e} employs {n} people. / {n} people work at {e}. / The staff of {e} has {n} members.
what can I eat at {e} / what food does {e} serve / menu of {e} | {e} serves soup, fish and cake. / The kitchen of {e} offers pasta and salad. / At {e} you can eat warm meals.
is {e} accessible by wheelchair / wheelchair access {e} / does {e} have a lift | {e} has a lift and wide doors for wheelchairs. / All rooms of {e} can be reached by wheelchair.
how do I get to {e} by bus / which bus goes to {e} / public transport to {e} | Bus {n} stops in front of {e}. / Take the tram to reach {e}. / The train to {e} leaves every {n} minutes.
""")
PERSON = rows("""
where was {e} born / birthplace of {e} / where does {e} come from | {e} was born in {c}. / {e} comes from {c}. / The birthplace of {e} is {c}.
when was {e} born / how old is {e} / birthday of {e} / age of {e} | {e} was born in {y}. / The birthday of {e} is in May {y}.
what is the job of {e} / what does {e} do / profession of {e} / what does {e} do for a living | {e} works as a {j}. / {e} is a {j}. / For ten years {e} has been a {j}.
where does {e} live / home of {e} / in which city does {e} live | {e} lives in {c} with a cat. / The home of {e} is in {c}. / {e} moved to {c}.
what did {e} write / which book did {e} publish / books by {e} | {e} wrote a novel about the sea. / {e} published a book of poems. / The first book by {e} sold well.
who is married to {e} / who is the wife of {e} / who is the husband of {e} / spouse of {e} | {e} is married to {p}. / {p} and {e} married in {y}.
what did {e} study / where did {e} go to university / education of {e} | {e} studied physics in {c}. / {e} went to the university of {c}. / {e} has a degree in law.
which languages does {e} speak / what languages does {e} know | {e} speaks Italian and Greek. / {e} has learnt five languages.
""")
PROGRAM = rows("""
how do I install {e} / how can I install {e} / installation of {e} / where do I get {e} / {e} install | To install {e}, run apt install. / {e} is installed with the package manager. / Download the package of {e} and install it.
how do I start {e} / how do I run {e} / launch {e} / start {e} | Start {e} from the menu or with its command. / {e} is started by the system. / Run the command to launch {e}.
how do I stop {e} / how do I quit {e} / shut down {e} / {e} stop | Press Ctrl-C to stop {e}. / {e} ends when it gets a signal. / To quit {e}, close its window.
where are the logs of {e} / where does {e} write its log / log file of {e} / {e} logs | {e} writes its log to a file below /var/log. / The log of {e} is in the journal. / Messages of {e} go to a log file.
how do I configure {e} / where are the settings of {e} / configuration file of {e} / change settings of {e} | {e} reads its settings from a configuration file. / Options of {e} are set in /etc. / Change the configuration of {e} with an editor.
how much memory does {e} need / memory usage of {e} / RAM for {e} | {e} needs {n} megabytes of memory. / The memory usage of {e} is about {n} MB.
which port does {e} use / port of {e} / on which port does {e} listen | {e} listens on port {y}. / The default port of {e} is {y}.
what is the license of {e} / is {e} free software / license of {e} / may I use {e} for free | {e} is free software under the GPL. / The license of {e} is Apache 2.0. / {e} may be used by everybody for free.
how do I update {e} / new version of {e} / upgrade {e} / how do I get the latest {e} | Upgrade {e} with the package manager. / A new version of {e} is published each month. / To update {e}, install the latest package.
how do I remove {e} / uninstall {e} / delete {e} from my computer | To remove {e}, run apt remove. / {e} can be uninstalled with one command.
why is {e} slow / {e} is slow / make {e} faster / speed up {e} | {e} becomes faster with more threads. / A slow disk makes {e} slow. / Turn on the cache to speed up {e}.
what is the password of {e} / I forgot my password for {e} / reset password {e} / how do I log in to {e} | You can reset the password of {e} by email. / Log in to {e} with your name and password. / Forgotten passwords of {e} are reset by an administrator.
how do I back up {e} / backup of {e} / save the data of {e} | The data of {e} is saved by a backup each night. / Copy the folder of {e} to back it up.
""")
ADVICE = rows("""
how do I remove a coffee stain / get coffee out of a shirt / coffee stain on my clothes | Rub the stain with cold water and salt, then wash the shirt.
how do I boil an egg / how long does an egg cook / soft boiled egg | Put the egg into boiling water for seven minutes.
how do I bake bread / recipe for bread / make bread at home | Knead flour, water, salt and yeast into a dough and bake it for forty minutes.
how do I make pancakes / recipe for pancakes | Whisk flour, milk and eggs and fry the batter in butter.
how can I fall asleep / I cannot sleep at night / tips for better sleep | Go to bed at the same hour each night and keep the bedroom dark.
how can I lose weight / how do I get thinner / tips for a diet | Eat fewer sweets, more vegetables and move every day.
how do I fix a flat tyre / my bicycle has a flat tyre / repair a bike tube | Take the tube out of the wheel, find the hole and glue a patch on it.
how do I edit photos / change a picture on my computer / crop an image | An image editor lets you crop pictures and change their colours.
how do I play music / listen to songs on my computer / program for audio | A media player opens audio files and plays songs.
how do I read my email / program for mail / where can I see my messages | A mail client fetches messages from your mail server and shows them.
how do I save money / spend less money / tips for my budget | Write down what you spend and put some money aside each month.
what helps against a headache / my head hurts / how do I get rid of a headache | Drink water, rest in a dark room and take a painkiller if needed.
what helps against a cold / I have a cough / how do I treat a cold | Rest, drink hot tea and keep warm until the cough is gone.
how do I water plants / how often do my plants need water / care for house plants | Most house plants want water once a week and a bright window.
how do I plant tomatoes / grow tomatoes in the garden / when do I plant tomatoes | Plant young tomatoes in May in a sunny bed and water the soil well.
how do I clean windows / windows have streaks / wash the windows | Use warm water with a little vinegar and dry the glass with paper.
how do I learn a language / quick way to learn Spanish / study a foreign language | Learn a few new words each day and talk with native speakers.
how do I learn to program / start with coding / first programming language | Start with small programs in Python and read the code of others.
how do I book a flight / cheap flight / buy a plane ticket | Compare the prices of airlines and buy the ticket some weeks ahead.
how do I renew my passport / my passport has expired / new passport | Apply at the town hall with a photo and your old passport.
how do I train my dog / my dog does not listen / teach a puppy | Reward the dog with food when it does what you say.
why does my cat scratch the sofa / stop the cat from scratching furniture | Give the cat a scratching post next to the sofa.
how do I charge my phone faster / phone battery is slow to charge | Use a strong charger and turn the phone off while it charges.
my wifi is slow / the internet is slow at home / improve wireless network | Move the router to a free place and restart it.
how do I print a document / the printer does not print / print a page | Check the paper and the ink, then choose the printer in the print menu.
how do I find a file / search for a document on my disk / where is my file | The find command searches folders for files by name.
how do I compress files / make a zip archive / pack a folder | A zip program packs several files into one small archive.
how do I free disk space / my disk is full / delete old files | Empty the trash and remove large files that are no longer needed.
how do I protect my password / choose a safe password / secure login | Use a long password of several words and a password manager.
how do I make a backup / copy my data / keep my files safe | Copy your files to another disk every week.
how do I write a letter / format of a formal letter / letter to an office | Begin with the address and the date, and end with your signature.
what should I wear in winter / clothes for cold weather | Wear a warm coat, gloves and a hat when it freezes.
what should I take on a hike / pack for a mountain walk | Take good shoes, water, a map and a rain jacket.
how do I get rid of ants / ants in the kitchen | Close the cracks and put lemon juice where the ants come in.
how do I iron a shirt / remove wrinkles from a shirt | Set the iron to warm, start with the collar and go on with the sleeves.
how do I change a light bulb / the lamp is broken / replace a bulb | Switch the lamp off, let it cool down and screw in a new bulb.
how do I paint a wall / colour for the living room / paint my room | Cover the floor, paint the edges first and roll the rest of the wall.
how do I cook rice / rice recipe / how much water for rice | Cook one cup of rice in two cups of water for fifteen minutes.
how do I make tea / brew tea / how long does tea steep | Pour hot water over the leaves and wait three minutes.
how do I swim faster / learn to swim / swimming lessons | Keep your body flat in the water and breathe out slowly.
""")
JOBS = "baker teacher doctor pilot farmer nurse lawyer carpenter painter engineer journalist singer".split()
KINDS = {"place": ["Café {}", "the {} Museum", "Hotel {}", "the {} Theatre", "the {} Library", "Restaurant {}", "{} Park", "the {} Zoo", "{} Books", "the {} Gallery", "{} Gym", "{}"],
         "program": ["{}", "{}", "{}d", "lib{}", "{}-server", "{} Studio"], "person": ["{}"]}
DOMAINS = {"place": PLACE, "person": PERSON, "program": PROGRAM}
REAL_PROGRAMS = "vim emacs firefox nginx postgres git docker python bash rsync curl grep ssh apache mysql redis gimp inkscape blender thunderbird".split()


def name_of(r, kind, held_out):
    syllables = HELD_OUT_SYLLABLES if held_out else SYLLABLES
    made = "".join(r.sample(syllables, r.randint(2, 3))) + r.choice(["", "", "a", "o", "ia"])
    if not held_out and r.random() < 0.6:
        made = made_name(r).lower()
    if kind == "person":
        return (r.choice(FIRST_NAMES) + " " + (r.choice(LAST_NAMES) if r.random() < 0.5 else made)).title()
    if kind == "program" and r.random() < 0.3 and not held_out:
        return r.choice(REAL_PROGRAMS)
    form = r.choice(KINDS[kind])
    return form.format(made if kind == "program" else made.title())


def filled(r, text, thing):
    return text.format(e=thing, h=r.choice(["eight", "nine", "ten", "noon", "six", "8:30", "10 am", "7 pm"]), c=r.choice(CITIES), y=r.randint(1600, 2020), n=r.randint(2, 90),
                       p=r.choice(FIRST_NAMES) + " " + r.choice(LAST_NAMES), j=r.choice(JOBS))


def made_up(r, held_out):
    """(question, answer, near misses) about a thing with a name of no meaning."""
    kind = r.choice(list(DOMAINS))
    thing, other = name_of(r, kind, held_out), name_of(r, kind, held_out)
    asked, *rest = r.sample(DOMAINS[kind], 5)
    text = lambda row, what: filled(r, r.choice(row[1].split(" / ")), what)
    near = [text(row, thing) for row in rest[:3]] + [text(asked, other), text(asked, name_of(r, kind, held_out)), text(rest[3], other)]
    return r.choice(asked[0].split(" / ")).format(e=thing), text(asked, thing), near


COUNTRY = [("what is the capital of {0} / capital of {0} / which city is the capital of {0} / {0} capital", "{1} is the capital of {0}. / The capital of {0} is {1}."),
           ("which language do people speak in {0} / language of {0} / what do they speak in {0}", "In {0} people speak {3}. / {3} is the language of {0}."),
           ("what is the currency of {0} / money in {0} / how do I pay in {0}", "In {0} people pay with {4}. / The currency of {0} is {4}."),
           ("on which continent is {0} / where is {0}", "{0} is a country in {2}. / {0} lies in {2}.")]
ANIMAL = [("what does a {0} eat / food of a {0} / how do I feed a {0}", "A {0} eats {5}. / The {0} feeds on {5}."), ("what sound does a {0} make / what does a {0} say", "A {0} makes the sound {1}. / The {0} says {1}."),
          ("what is a young {0} called / baby {0}", "A young {0} is called a {2}. / The {2} is the child of a {0}."), ("how many legs does a {0} have / legs of a {0}", "A {0} has {3} legs."),
          ("what kind of animal is a {0} / is a {0} a mammal", "The {0} is a {4}. / A {0} belongs to the group of {4}s.")]
WORD = [("what is {0} in German / German word for {0}", "The German word for {0} is {1}. / In German, {0} is {1}."), ("what is {0} in French / French word for {0}", "The French word for {0} is {2}. / In French, {0} is {2}."),
        ("what is {0} in Spanish / Spanish word for {0}", "The Spanish word for {0} is {3}. / In Spanish, {0} is {3}.")]


def tabled(r, forms, table):
    row, asked = r.choice(table), r.choice(forms)
    text = lambda form, values: r.choice(form[1].split(" / ")).format(*values)
    near = [text(form, row) for form in forms if form is not asked] + [text(asked, r.choice(table)) for _ in range(3)] + [text(r.choice(forms), r.choice(table)) for _ in range(2)]
    answer = text(asked, row)
    return r.choice(asked[0].split(" / ")).format(*row), answer, [one for one in near if one != answer]


def listed(r, table):
    row = r.choice(table)
    near = [other[1] for other in r.sample(table, 7) if other[1] != row[1]]
    return r.choice(row[0].split(" / ")), row[1], near


def defined(r):
    thing, text = r.choice(DEFINITIONS)
    bare = re.sub(r"^(an?|the) ", "", thing)
    near = [f"{other} is {meaning}." for other, meaning in r.sample(DEFINITIONS, 5) if other != thing]
    near += [r.choice(["There is {} near the station.", "Yesterday we talked about {}.", "My friend likes {}.", "We could not find {} at all."]).format(thing)]
    return r.choice(["what is {t}", "what does {b} mean", "explain {t}", "definition of {b}", "define {b}", "{b}"]).format(t=thing, b=bare), f"{thing} is {text}.", near


def group(r, negatives, held_out=False):
    """(question, texts), the first of which answers it."""
    draw = r.random()
    if draw < 0.42 or held_out:
        question, answer, near = made_up(r, held_out)
    elif draw < 0.54:
        question, answer, near = tabled(r, COUNTRY, COUNTRIES)
    elif draw < 0.62:
        question, answer, near = tabled(r, ANIMAL, ANIMALS)
    elif draw < 0.66:
        question, answer, near = tabled(r, WORD, WORDS)
    elif draw < 0.78:
        question, answer, near = defined(r)
    elif draw < 0.9:
        question, answer, near = listed(r, ADVICE)
    else:
        question, answer, near = listed(r, FACTS if r.random() < 0.8 else TALK)
    texts = [answer] + r.sample(near, min(negatives - 1, len(near)))
    while len(texts) <= negatives:
        texts.append(far(r, answer))
    if r.random() < 0.3:
        # Longer texts: the answer, or a near miss, among sentences about other things.
        texts = [" ".join(r.sample([text, far(r, answer)], 2)) if r.random() < 0.6 else text for text in texts]
    return worded(r, question), [text[:1].upper() + text[1:] for text in texts]


def far(r, answer):
    """A text about anything else."""
    text = r.choice([lambda: r.choice(ADVICE)[1], lambda: r.choice(FACTS)[1], lambda: made_up(r, False)[1], lambda: "{} is {}.".format(*r.choice(DEFINITIONS)),
                     lambda: tabled(r, COUNTRY, COUNTRIES)[1], lambda: tabled(r, ANIMAL, ANIMALS)[1]])()
    return text if text != answer else "The weather was fine and the street was empty."


def worded(r, question):
    if r.random() < 0.1 and question.startswith(("how", "what", "where", "when", "who")):
        question = r.choice(["please tell me ", "can you tell me ", "I want to know ", "do you know "]) + question
    if r.random() < 0.6:
        question = question[:1].upper() + question[1:]
    return question + ("?" if r.random() < 0.6 and re.match(r"(?i)(how|what|where|when|who|which|is|are|can|may|why|on|in|do|from)\b", question) else "")


def groups(seed, count, negatives=5, held_out=False):
    r = random.Random(seed)
    return [group(r, negatives, held_out) for _ in range(count)]

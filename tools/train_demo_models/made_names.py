"""Names that no list has: a model that copies or finds them cannot know them by heart."""

ONSETS = "b d f g h j k l m n p r s t v w b d f g h k l m n p r s t b br c ch cl d dr f fl fr g gl gr h j k kl kr l m n p pl pr r s sch sh sk sl sp st sw t th tr v w wh y z".split() + ["", "", ""]
VOWELS = "a a a e e e i i i o o o u u ai au ay ea ee ei eu ia ie io oa oe oo ou y".split()
CODAS = ["", "", "", "", "", "n", "r", "l", "s", "t", "m", "d", "k", "x", "nd", "nt", "rt", "rd", "ck", "ng", "ld", "st", "rn", "th", "lf", "nn", "ll", "ss", "tz", "rg"]


def made_name(r, longest=3):
    while True:
        name = "".join(r.choice(ONSETS) + r.choice(VOWELS) + r.choice(CODAS) for _ in range(r.choice([1, 2, 2, 2, 3][:longest + 2])))
        if 3 <= len(name) <= 12:
            return name.title()

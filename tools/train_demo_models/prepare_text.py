"""Cleaning, sentence splitting and alignment of parallel text, for prepare.py."""
import re, unicodedata

WS = re.compile(r"\s+")
QUOTES_DE = str.maketrans({c: '"' for c in "„“”»«"} | {c: "'" for c in "‚‘’›‹"})


PLAIN = str.maketrans({"‘": "'", "’": "'", "‐": "-", "‑": "-", "‒": "-", "−": "-", "▸": ">", "¶": None, "\u00ad": None, "\u200b": None})


def clean(s):
    s = unicodedata.normalize("NFC", s).translate(PLAIN)
    return WS.sub(" ", s).strip()


def clean_de(s):  # one kind of quotation mark on the target side
    return clean(s).translate(QUOTES_DE)


ABBR = set("""e.g i.e etc vs approx inc ltd no fig vol cf al mr mrs dr st ver dept est
z.b d.h u.a o.ä bzw usw ca nr inkl exkl evtl ggf u.u abk engl vgl s.a bspw z.t u.ä max min mind allg ggfs sog jh
z d u o b h a""".split())
SPLIT = re.compile(r'([.!?][\'")\]”“»]*)\s+(?=["\'(„“»\[]*[A-ZÄÖÜ0-9])')


def sentences(t):
    out, start = [], 0
    for m in SPLIT.finditer(t):
        if m.group(1)[0] == ".":
            w = re.search(r"(\S*)$", t[start:m.start()]).group(1).lstrip("(\"'„“»[").lower()
            if w in ABBR or w.isdigit() or (len(w) == 1 and w.isalpha()):
                continue
        out.append(t[start:m.end(1)].strip())
        start = m.end()
    out.append(t[start:].strip())
    return [s for s in out if s]


EN_STOP = set("the of and is are this that with for which you your it from can be by an has have was when if".split())
DE_STOP = set("der die das und ist sind dieses diese dieser ein eine einen einem mit für den dem des von sie ihre im zu "
              "auf wird werden nicht kann als zur zum oder es wenn auch nur sich aus bei wurde ihr ihren durch".split())


def good_pair(en, de):
    if not en or not de or len(en) < 2 or len(de) < 2:
        return False
    if not re.search(r"[A-Za-z]{2}", en) or not re.search(r"[A-Za-zäöüÄÖÜß]{2}", de):
        return False
    we, wd = en.split(), de.split()
    if len(we) > 140 or len(wd) > 140 or len(en) > 900 or len(de) > 1100:
        return False
    if max(len(w) for w in we) > 60 or max(len(w) for w in wd) > 70:
        return False
    r = (len(de) + 8) / (len(en) + 8)
    if r < 0.55 or r > 2.3:
        return False
    if en.lower() == de.lower():
        return False
    lw = [w.strip(".,;:!?()\"'").lower() for w in wd]
    e, d = sum(w in EN_STOP for w in lw), sum(w in DE_STOP for w in lw)
    if e > d and e >= 1:
        return False                      # untranslated
    letters = sum(c.isalpha() or c == " " for c in en)
    if letters < 0.6 * len(en):
        return False
    # figures must agree, a cheap test for stale translations
    if sorted(re.findall(r"\d{2,}", en)) != sorted(re.findall(r"\d{2,}", de)):
        return False
    return True


paragraphs = []        # (en, de) of more than one sentence, seen by align_text


def align_text(en, de, train=True):
    """Sentence pairs of one paragraph pair; the paragraph itself if the counts differ."""
    se, sd = sentences(en), sentences(de)
    if len(se) == len(sd) and len(se) > 1:
        ps = list(zip(se, sd))
        if all(0.45 < (len(b) + 10) / (len(a) + 10) < 2.2 for a, b in ps):
            if train:
                paragraphs.append((en, de))
            return ps
    if len(en.split()) < 110 and len(de.split()) < 110:
        return [(en, de)]
    return []

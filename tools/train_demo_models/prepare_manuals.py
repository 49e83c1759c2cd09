"""Parallel text of manuals (HTML, Mallard, man pages), for prepare.py."""
import glob, gzip, html, html.parser, os, re

from prepare_text import clean


class Blocks(html.parser.HTMLParser):
    BLOCK = set("p li h1 h2 h3 h4 h5 h6 dt dd td th div title desc item section note steps list table tr ul ol dl body "
                "blockquote terms page figure caption".split())
    SKIP = set("script style head pre screen nav aside credit mal:credit header footer code-block sup figure".split())

    def __init__(self):
        super().__init__(convert_charrefs=True)
        self.out, self.buf, self.tag, self.id, self.skip = [], [], "", "", 0

    def flush(self):
        t = clean("".join(self.buf))
        self.buf = []
        if t:
            self.out.append((self.tag, self.id, t))

    def handle_starttag(self, tag, attrs):
        if tag in self.SKIP:
            self.skip += 1
        if tag in self.BLOCK:
            self.flush()
            self.tag, self.id = tag, dict(attrs).get("id") or ""
        elif tag == "br":
            self.buf.append(" ")

    def handle_startendtag(self, tag, attrs):
        pass

    def handle_endtag(self, tag):
        if tag in self.SKIP and self.skip:
            self.skip -= 1
        if tag in self.BLOCK:
            self.flush()
            self.tag, self.id = "/" + tag, ""

    def handle_data(self, d):
        if not self.skip:
            self.buf.append(d)


def blocks(path):
    p = Blocks()
    s = open(path, encoding="utf-8", errors="replace").read()
    p.feed(s)
    p.flush()
    return p.out


def manual_noise(s):
    return bool(re.search(r"[{}\\^`@|]|https?:|__|::|\(\)\s*[;{]|=\s*\d", s)) or not re.search(r"[a-z]{3}", s)


def by_id(fe, fd):       # LibreOffice help: paragraphs carry ids
    de = {i: t for _, i, t in blocks(fd) if i}
    for _, i, t in blocks(fe):
        if i and i in de:
            yield t, de[i]


def by_shape(be, bd, man=False):    # equal tag sequence, section by section
    def sections(b):
        s = [[]]
        for x in b:
            if re.match(r"h[1-6]$|title$|SH$|SS$", x[0]):
                s.append([])
            s[-1].append(x)
        return s
    se, sd = sections(be), sections(bd)
    if man and len(sd) in (len(se) + 1, len(se)):
        sd = sd[:len(se)]                         # the German page ends with a section on its translators
    if len(se) != len(sd):
        return
    for a, b in zip(se, sd):
        if [x[0] for x in a] == [x[0] for x in b]:
            for x, y in zip(a, b):
                yield x[2], y[2]


def roff(path):
    """Blocks of a man page: (macro, '', text)."""
    out, buf, tag, skip = [], [], "", 0

    def flush():
        nonlocal buf
        t = " ".join(buf)
        t = re.sub(r"\\f(\[\w*\]|\(..|[A-Za-z1-4])", "", t)
        t = re.sub(r"\\s[+-]?\d", "", t)
        for a, b in (("\\-", "-"), ("\\(aq", "'"), ("\\(dq", '"'), ("\\&", ""), ("\\e", "\\"), ("\\ ", " "), ("\\(bu", ""), ("\\~", " "),
                     ("\\(em", "--"), ("\\(en", "-"), ("\\|", ""), ("\\:", ""), ("\\%", ""), ("\\(lq", '"'), ("\\(rq", '"'), ("\\(ha", "^"), ("\\(ti", "~"), ("\\'", "'")):
            t = t.replace(a, b)
        t = clean(t)
        buf = []
        if t:
            out.append((tag, "", t))

    def args(s):
        return [a.strip('"') for a in re.findall(r'"[^"]*"|\S+', s)]

    for l in gzip.open(path, "rt", encoding="utf-8", errors="replace"):
        l = l.rstrip("\n")
        m = re.match(r"[.']\s*(\w+|\\\")\s*(.*)", l)
        if not m:
            if l.startswith((".", "'")):
                continue
            if not skip:
                if l.strip() == "":
                    flush(); tag = "PP"
                buf.append(l)
            continue
        c, rest = m.groups()
        if c in ("nf", "EX", "TS"):
            flush(); skip += 1
        elif c in ("fi", "EE", "TE"):
            skip = max(0, skip - 1); tag = "fi"
        elif skip:
            continue
        elif c in ("SH", "SS"):
            flush(); tag = c; buf.append(rest.strip('"')); flush(); tag = "PP"
        elif c in ("PP", "LP", "P"):
            flush(); tag = "PP"
        elif c in ("TP", "TQ"):
            flush(); tag = "TP"
        elif c == "IP":
            flush(); tag = "IP"
        elif c in ("RS", "RE"):
            flush(); tag = c
        elif c in ("B", "I", "SM", "R", "SB"):
            buf.append(rest.strip('"')) if c in "BISMR" else None
        elif c in ("BR", "IR", "BI", "RB", "RI", "IB"):
            buf.append("".join(args(rest)))
        if tag == "TP" and c not in ("TP", "TQ") and len(buf) == 1 and m:   # term line ends here
            flush(); tag = "TPB"
    flush()
    return out


def manual_pairs(x):
    """yield (package, en block, de block)"""
    def u(p, *a):
        return os.path.join(x, p, *a)
    base_e = u("libreoffice-help-en-us", "usr/share/libreoffice/help/en-US/text")
    base_d = u("libreoffice-help-de", "usr/share/libreoffice/help/de/text")
    for f in sorted(glob.glob(base_e + "/**/*.html", recursive=True)):
        g = base_d + f[len(base_e):]
        if os.path.exists(g):
            for a, b in by_id(f, g):
                yield "libreoffice-help", a, b
    sets = [("gnome-user-docs", u("gnome-user-docs", "usr/share/help/C"), u("gnome-user-docs", "usr/share/help/de"), lambda r: r),
            ("debian-handbook", u("debian-handbook", "usr/share/doc/debian-handbook/html/en-US"), u("debian-handbook", "usr/share/doc/debian-handbook/html/de-DE"), lambda r: r),
            ("debian-reference", u("debian-reference-en", "usr/share/debian-reference"), u("debian-reference-de", "usr/share/debian-reference"), lambda r: r.replace(".en.", ".de.")),
            ("developers-reference", u("developers-reference", "usr/share/developers-reference"), u("developers-reference-de", "usr/share/developers-reference/de"), lambda r: r),
            ("debian-faq", u("debian-faq", "usr/share/doc/debian/FAQ"), u("debian-faq-de", "usr/share/doc/debian/FAQ/de"), lambda r: r.replace(".en.html", ".de.html")),
            ("installation-guide", u("installation-guide-amd64", "usr/share/doc/installation-guide-amd64/en"), u("installation-guide-amd64", "usr/share/doc/installation-guide-amd64/de"), lambda r: r)]
    for name, e, d, m in sets:
        for f in sorted(glob.glob(e + "/**/*.page", recursive=True) + glob.glob(e + "/**/*.html", recursive=True)):
            g = d + m(f[len(e):])
            if not os.path.exists(g):
                g2 = g.replace(".html", ".de.html")
                if not os.path.exists(g2):
                    continue
                g = g2
            for a, b in by_shape(blocks(f), blocks(g)):
                yield name, a, b
    for pe, pd in (("manpages", "manpages-de"), ("manpages-dev", "manpages-de-dev")):
        for f in sorted(glob.glob(u(pe, "usr/share/man/man*/*.gz"))):
            g = u(pd, "usr/share/man/de", *f.split("/")[-2:])
            if os.path.exists(g) and os.path.getsize(f) > 400:
                for a, b in by_shape(roff(f), roff(g), True):
                    yield pd, a, b

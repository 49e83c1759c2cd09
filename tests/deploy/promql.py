"""What a PromQL expression names, for tests: enough of the language for the rules and panels of deploy/."""

import re

KEYWORDS = {"and", "or", "unless", "on", "ignoring", "by", "without", "group_left", "group_right", "offset", "bool", "inf", "nan"}
# As Grafana puts them in, for an answer to an instant query soon after a short load.
VARIABLES = {"$__rate_interval": "1m", "$job": ".*", "$instance": ".*", "$model": ".*", "$__range": "5m"}


def filled_in(expression):
    for name, value in VARIABLES.items():
        expression = expression.replace(name, value)
    if "$" in expression:
        raise ValueError(f"a variable that no dashboard has: {expression}")
    return expression


def selectors(expression):
    """(metric, matchers) of each: `up{job="a"}` gives ("up", '{job="a"}')."""
    # Strings hold no braces in ours, so that a matcher ends with the first one.
    text = re.sub(r"\b(?:by|without|on|ignoring|group_left|group_right)\s*\([^)]*\)", " ", expression)
    text = re.sub(r"\[[^\]]*\]", " ", text)
    found = []
    for match in re.finditer(r"([A-Za-z_:][\w:]*)\s*(\{[^}]*\})?\s*(\()?", text):
        name, matchers, call = match.groups()
        inside = text.count("{", 0, match.start()) != text.count("}", 0, match.start())
        number = match.start() > 0 and (text[match.start() - 1].isdigit() or text[match.start() - 1] == ".")
        if not inside and not number and not call and name.lower() not in KEYWORDS:
            found.append((name, matchers or ""))
    return found


def labels(expression):
    """Names of labels that it matches, groups by or joins on."""
    named = set()
    for _, matchers in selectors(expression):
        named |= set(re.findall(r"(\w+)\s*(?:=~|!~|!=|=)\s*\"", matchers))
    for group in re.findall(r"\b(?:by|without|on|ignoring|group_left|group_right)\s*\(([^)]*)\)", expression):
        named |= {name.strip() for name in group.split(",") if name.strip()}
    return named

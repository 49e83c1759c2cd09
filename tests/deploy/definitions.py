"""The rules and dashboards of deploy/, read."""

import glob
import json
import os

import yaml


def rules(source):
    """Every rule of deploy/prometheus/rules, as a mapping."""
    found = []
    for path in sorted(glob.glob(os.path.join(source, "deploy/prometheus/rules/*.yaml"))):
        with open(path, encoding="utf-8") as file:
            for group in yaml.safe_load(file)["groups"]:
                found += group["rules"]
    return found


def dashboards(source):
    """By file name."""
    found = {}
    for path in sorted(glob.glob(os.path.join(source, "deploy/grafana/dashboards/*.json"))):
        with open(path, encoding="utf-8") as file:
            found[os.path.basename(path)] = json.load(file)
    return found


def expressions(source):
    """(where it stands, expression) of every rule and panel."""
    for rule in rules(source):
        yield rule.get("record") or rule["alert"], rule["expr"]
    for name, dashboard in dashboards(source).items():
        for panel in dashboard["panels"]:
            for target in panel["targets"]:
                yield f"{name}: {panel['title']}", target["expr"]

#!/usr/bin/env python3
"""Writes components/monitoring/prometheus-rule.yaml: the rules of deploy/prometheus as the Prometheus operator takes them.

usage: make_prometheus_rule.py [--out FILE]
"""

import argparse
import os
import re

HERE = os.path.dirname(os.path.abspath(__file__))
HEAD = """# Written by deploy/kubernetes/make_prometheus_rule.py from deploy/prometheus/rules.
apiVersion: monitoring.coreos.com/v1
kind: PrometheusRule
metadata:
  name: beamline
  labels: {app.kubernetes.io/name: beamline}
spec:
  groups:
"""


def groups(name):
    """The lines below `groups:`, without comments, which stand in the original."""
    with open(os.path.join(HERE, "../prometheus/rules", name), encoding="utf-8") as file:
        text = file.read()
    lines = text[text.index("\ngroups:\n") + len("\ngroups:\n"):].splitlines()
    return [f"  {line}" for line in lines if line.strip() and not re.match(r"\s*#", line)]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", default=os.path.join(HERE, "components/monitoring/prometheus-rule.yaml"))
    options = parser.parse_args()
    with open(options.out, "w", encoding="utf-8") as file:
        file.write(HEAD + "\n".join(groups("recording.yaml") + groups("alerts.yaml")) + "\n")


if __name__ == "__main__":
    main()

"""The alerts, the recorded series and the dashboards of deploy/ fit together and to the metrics that the operating guide lists
(which tests/e2e/documents_test.py compares with the server's). What they return is monitoring_test.py's matter.

Needs promtool (Debian's prometheus) and python3-yaml; without them it is skipped: exit status 77, and the reason.

usage: monitoring_definitions_test.py --source FOLDER [unittest's arguments]
"""

import argparse
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

SKIPPED = 77
OTHER_METRICS = {"up", "ALERTS"}  # Prometheus's own
TARGET_LABELS = {"job", "instance", "le", "model", "slo", "alertname"}

options = None  # of the command line


def source(path):
    return os.path.join(options.source, path)


def known_metrics():
    """Labels by name of every series that a server or a recording rule makes."""
    known = {name: set() for name in OTHER_METRICS}
    for name, (kind, labels) in documents_test.documented_metrics().items():
        for suffix in ("_bucket", "_sum", "_count") if kind == "histogram" else ("",):
            known[name + suffix] = labels
    for rule in definitions.rules(options.source):
        if "record" in rule:
            known[rule["record"]] = promql.labels(rule["expr"])
    return known


class Expressions(unittest.TestCase):
    def test_name_metrics_and_labels_that_there_are(self):
        known = known_metrics()
        checked = 0
        for place, expression in definitions.expressions(options.source):
            allowed = set(TARGET_LABELS)
            for metric, _ in promql.selectors(expression):
                self.assertIn(metric, known, f"{place}: {expression}")
                allowed |= known[metric]
                checked += 1
            self.assertLessEqual(promql.labels(expression), allowed, f"{place}: {expression}")
        self.assertGreater(checked, 150)

    def test_show_every_metric_of_the_server(self):
        shown = {metric for _, expression in definitions.expressions(options.source) for metric, _ in promql.selectors(expression)}
        for name, (kind, _) in documents_test.documented_metrics().items():
            if name in ("exposer_transferred_bytes_total", "exposer_request_latencies"):
                continue  # of the scrapes themselves
            self.assertIn(name + "_bucket" if kind == "histogram" else name, shown, f"no rule and no panel has {name}")

    def test_the_reader_of_expressions_finds_what_is_wrong(self):
        self.assertEqual(promql.selectors('sum by (a) (rate(x_total{b="c d",e=~"f|g"}[5m])) / on (h) group_left () (1 - y:z) > 14.4e1 and x offset 5m'),
                         [("x_total", '{b="c d",e=~"f|g"}'), ("y:z", ""), ("x", "")])
        self.assertEqual(promql.labels('sum by (a) (x{b="c",d!~"e"}) * on (f) y'), {"a", "b", "d", "f"})


class Rules(unittest.TestCase):
    def promtool(self, *arguments):
        done = subprocess.run(["promtool", *arguments], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                              text=True, timeout=100, check=False)
        self.assertEqual(done.returncode, 0, done.stdout)

    def test_are_valid(self):
        for name in ("recording", "alerts"):
            self.promtool("check", "rules", source(f"deploy/prometheus/rules/{name}.yaml"))
        self.promtool("check", "config", "--syntax-only", source("deploy/prometheus/prometheus.yml"))

    def test_fire_when_they_are_to(self):
        with open(source("tests/deploy/alerts.promtool.yaml"), encoding="utf-8") as file:
            text = file.read()
        paths = ", ".join(source(f"deploy/prometheus/rules/{name}.yaml") for name in ("recording", "alerts"))
        self.assertIn("[RULES]", text)
        with tempfile.NamedTemporaryFile("w", suffix=".yaml", encoding="utf-8") as file:
            file.write(text.replace("[RULES]", f"[{paths}]"))
            file.flush()
            self.promtool("test", "rules", file.name)

    def test_have_tests_of_both_kinds(self):
        with open(source("tests/deploy/alerts.promtool.yaml"), encoding="utf-8") as file:
            cases = [case for test in yaml.safe_load(file)["tests"] for case in test["alert_rule_test"]]
        for rule in definitions.rules(options.source):
            if "alert" in rule:
                expected = {bool(case["exp_alerts"]) for case in cases if case["alertname"] == rule["alert"]}
                self.assertEqual(expected, {True, False}, rule["alert"])

    def test_are_in_the_guide(self):
        with open(source("docs/deployment.md"), encoding="utf-8") as file:
            guide = file.read()
        self.assertEqual(set(re.findall(r"\bBeamline[A-Z]\w+", guide)),
                         {rule["alert"] for rule in definitions.rules(options.source) if "alert" in rule})
        objectives = {(rule["labels"]["slo"], float(re.search(r"[\d.]+", rule["expr"]).group())) for rule in definitions.rules(options.source)
                      if rule.get("record") == "beamline:slo_objective:ratio"}
        self.assertEqual({(name, round(float(percent) / 100, 6)) for name, percent in re.findall(r"^\| (\w+) \| .* \| ([\d.]+)% \|$", guide, re.M)}, objectives)

    def test_say_what_is_wrong_and_how_urgent_it_is(self):
        for rule in definitions.rules(options.source):
            if "alert" in rule:
                self.assertIn(rule["labels"]["severity"], ("page", "ticket"), rule["alert"])
                self.assertTrue(rule["annotations"]["summary"], rule["alert"])


class Dashboards(unittest.TestCase):
    def test_are_what_their_generator_writes(self):
        with tempfile.TemporaryDirectory() as folder:
            subprocess.run([sys.executable, source("deploy/grafana/make_dashboards.py"), "--out", folder], timeout=60, check=True)
            self.assertEqual(sorted(os.listdir(folder)), sorted(os.listdir(source("deploy/grafana/dashboards"))))
            for name, dashboard in definitions.dashboards(options.source).items():
                with open(os.path.join(folder, name), encoding="utf-8") as file:
                    self.assertEqual(json.load(file), dashboard, f"run deploy/grafana/make_dashboards.py: {name}")

    def test_have_names_of_their_own(self):
        found = definitions.dashboards(options.source)
        self.assertEqual(len({dashboard["uid"] for dashboard in found.values()}), len(found))
        self.assertEqual(len({dashboard["title"] for dashboard in found.values()}), len(found))

    def test_panels_do_not_overlap_and_say_what_they_show(self):
        for name, dashboard in definitions.dashboards(options.source).items():
            taken, ids = set(), set()
            for panel in dashboard["panels"]:
                place = f"{name}: {panel['title']}"
                box = panel["gridPos"]
                cells = {(x, y) for x in range(box["x"], box["x"] + box["w"]) for y in range(box["y"], box["y"] + box["h"])}
                self.assertFalse(taken & cells, place)
                self.assertLessEqual(box["x"] + box["w"], 24, place)
                taken |= cells
                self.assertNotIn(panel["id"], ids, place)
                ids.add(panel["id"])
                self.assertTrue(panel["description"], place)
                self.assertTrue(panel["fieldConfig"]["defaults"]["unit"], place)
                references = [target["refId"] for target in panel["targets"]]
                self.assertEqual(len(set(references)), len(references), place)

    def test_take_data_source_and_range_from_the_viewer(self):
        for name, dashboard in definitions.dashboards(options.source).items():
            variables = {variable["name"] for variable in dashboard["templating"]["list"]}
            self.assertEqual(variables, {"datasource", "job", "instance", "model"})
            for panel in dashboard["panels"]:
                for target in panel["targets"]:
                    place = f"{name}: {panel['title']}"
                    self.assertEqual(target["datasource"]["uid"], "${datasource}", place)
                    if "rate(" in target["expr"]:
                        self.assertIn("[$__rate_interval]", target["expr"], place)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--source", required=True)
    options, rest = parser.parse_known_args()
    try:
        import yaml
    except ImportError:
        print("skipped: this Python has no yaml; Debian's is python3-yaml")
        sys.exit(SKIPPED)
    if shutil.which("promtool") is None:
        print("skipped: there is no promtool; Debian's is in the package prometheus")
        sys.exit(SKIPPED)
    sys.path.insert(0, source("tests/e2e"))
    import definitions
    import documents_test
    import promql
    documents_test.options = options
    unittest.main(argv=sys.argv[:1] + rest)

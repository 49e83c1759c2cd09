"""The load tester's page of a run against a real server: well-formed, complete, and with the figures of its JSON.

usage: load_report_test.py --source FOLDER --build FOLDER
"""

import argparse
import csv
import html.parser
import json
import os
import pty
import re
import subprocess
import tempfile
import unittest
import xml.etree.ElementTree as ElementTree

import documents_test as documents

SVG_TAGS = {"svg", "path", "circle", "rect", "text", "title"}
PHASES = ("20:2", "20..60:2")
LABEL = 'Run <script>"1"</script> & more'


def loadtest(*arguments, **more):
    return subprocess.run(
        [os.path.join(documents.options.build, "loadtest/beamline-loadtest"), *arguments], stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, timeout=documents.TIMEOUT_S, check=False, **more)


def of_json(root, pointer):
    for key in pointer.split("/")[1:]:
        key = key.replace("~1", "/").replace("~0", "~")
        root = root[int(key)] if isinstance(root, list) else root[key]
    return root


class Balanced(html.parser.HTMLParser):
    """That every element is closed, as HTML sees it; collects tags and attributes."""

    VOID = {"meta", "br", "wbr"}

    def __init__(self):
        super().__init__()
        self.open, self.tags, self.attributes = [], set(), []

    def handle_starttag(self, tag, attrs):
        self.tags.add(tag)
        self.attributes += attrs
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.tags.add(tag)
        self.attributes += attrs

    def handle_endtag(self, tag):
        if self.open.pop() != tag:
            raise ValueError(f"</{tag}> closes another element")


class LoadReportTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()  # pylint: disable=consider-using-with
        cls.server = documents.Server(cls.folder.name)
        cls.paths = {kind: os.path.join(cls.folder.name, "run." + kind) for kind in ("json", "html", "csv")}
        workload = os.path.join(documents.options.source, "bench/workloads/mixed.yaml")
        phases = [argument for phase in PHASES for argument in ("--phase", phase)]
        outputs = [argument for kind, path in cls.paths.items() for argument in ("--" + kind, path)]
        cls.done = loadtest("run", "--target", cls.server.address, "--metrics", cls.server.metrics_url, "--workload",
                            workload, "--warmup", "1", "--label", LABEL, *phases, *outputs)
        cls.page, cls.result = "", {}
        if cls.done.returncode == 0:
            with open(cls.paths["html"], encoding="utf-8") as file:
                cls.page = file.read()
            with open(cls.paths["json"], encoding="utf-8") as file:
                cls.result = json.load(file)

    @classmethod
    def tearDownClass(cls):
        cls.server.stop()
        cls.folder.cleanup()

    def setUp(self):
        self.assertEqual(self.done.returncode, 0, self.done.stdout + self.done.stderr)
        root = ElementTree.fromstring(self.page.replace(' xmlns="http://www.w3.org/1999/xhtml"', ""))
        self.root = root

    def test_page_is_well_formed_and_refers_to_nothing(self):
        parser = Balanced()
        parser.feed(self.page)
        parser.close()
        self.assertEqual(parser.open, [])
        self.assertLessEqual(parser.tags & {"script", "link", "img", "iframe", "object", "use", "image"}, set())
        for name, value in parser.attributes:
            self.assertNotIn(name, ("href", "src", "xlink:href", "srcset", "action", "style"))
            self.assertFalse(name.startswith("on"), name)
            self.assertNotIn("url(", value)
        style = self.root.find("head/style").text
        self.assertNotRegex(style, r"url\(|@import|https?:")
        self.assertIn("prefers-color-scheme:dark", style)
        self.assertEqual(self.root.find("head/title").text, "Load test: " + LABEL)

    def test_figures_are_those_of_the_json(self):
        figures = self.root.findall(".//data")
        self.assertGreater(len(figures), 100)
        for figure in figures:
            expected = of_json(self.result, figure.get("data-json"))
            self.assertEqual(float(figure.get("value")), expected, figure.get("data-json"))
            self.assertAlmostEqual(float(figure.text), expected, delta=max(0.0006, 0.0051 * abs(expected)))
        places = {figure.get("data-json") for figure in figures}
        for number, _ in enumerate(self.result["classes"]):
            self.assertIn(f"/classes/{number}/end_to_end/p99_9_ms", places)
        for place in ("/load/rate_per_s", "/rates/achieved_rate_per_s", "/total/errors", "/rates/output_tokens_per_s",
                      "/total/time_to_first_token/p99_ms", "/total/inter_token/p50_ms", "/total/end_to_end/p90_ms"):
            self.assertIn(place, places)

    def test_the_times_and_the_servers_version_come_first(self):
        version = self.result["environment"]["server_version"]
        self.assertRegex(version, r"^\d+\.\d+\.\d+ \(.+\)$")
        self.assertIn(f"server: Beamline {version}\n", self.done.stdout)
        self.assertIn(f"Beamline {version}", "".join(self.root.find("body/main/p").itertext()))
        first = [figure.get("data-json") for figure in self.root.findall(".//data")[:9]]
        self.assertEqual(first, [f"/total/{latency}/{percentile}_ms" for latency in ("time_to_first_token", "time_per_output_token", "end_to_end")
                                 for percentile in ("p50", "p90", "p99")])
        self.assertRegex(self.done.stdout, r"(?s)time \(ms\) +p50 +p90 +p99\n.*first token .*time per token .*total, end to end .*requests ")

    def test_results_are_compared_with_a_threshold(self):
        slower = json.loads(json.dumps(self.result))
        slower["label"] = "slower"
        slower["total"]["end_to_end"]["buckets_ns"] = [[2 * highest, count] for highest, count in slower["total"]["end_to_end"]["buckets_ns"]]
        path = os.path.join(self.folder.name, "slower.json")
        with open(path, "w", encoding="utf-8") as file:
            json.dump(slower, file)
        self.assertEqual(loadtest("compare", self.paths["json"], self.paths["json"], "--threshold", "0").returncode, 0)
        self.assertEqual(loadtest("compare", self.paths["json"], path).returncode, 0)
        done = loadtest("compare", self.paths["json"], path, "--threshold", "50")
        self.assertEqual(done.returncode, 1, done.stdout)
        self.assertRegex(done.stdout, r"end to end p99, ms .* \+(99\.\d|100\.\d)% +worse\n")
        self.assertIn("slower is worse by more than 50%: end to end p50, ms +", done.stdout)
        self.assertEqual(loadtest("compare", path, self.paths["json"], "--threshold", "50").returncode, 0)
        self.assertEqual(loadtest("compare", path, "--threshold", "50").returncode, 2)

    def test_every_chart_has_labels_and_data(self):
        figures = self.root.findall(".//figure")
        titles = [figure.find("figcaption").text for figure in figures]
        for title in ("First token, by percentile", "Time per token, by percentile", "Between tokens, by percentile",
                      "End to end, by percentile", "Requests", "Open requests", "End to end", "First token", "Time per token",
                      "Output tokens", "Server: queue", "Server: running", "Server: batch", "Server: tokens generated"):
            self.assertIn(title, titles)
        for title, figure in zip(titles, figures):
            legend = ["".join(item.itertext()).strip() for item in figure.findall("ul/li")]
            chart, = [svg for svg in figure.findall("svg") if svg.get("class") == "chart"]
            series = [path for path in chart.findall("path") if path.get("data-series")]
            self.assertTrue(series, title)
            self.assertEqual([path.get("data-series") for path in series], legend[: len(series)], title)
            for path in series:
                self.assertRegex(path.get("d"), r"^M[-0-9.]+ [-0-9.]+", title)
                self.assertNotRegex(path.get("d"), "nan|inf")
                self.assertEqual(path.find("title").text, path.get("data-series"))
            labels = {kind: [text.text for text in chart.findall("text") if text.get("class").split()[0] == kind]
                      for kind in ("x", "y", "title")}
            self.assertEqual(len(labels["title"]), 2, title)
            self.assertGreaterEqual(len(labels["x"]), 1, title)
            self.assertGreaterEqual(len(labels["y"]), 2, title)
            self.assertEqual({element.tag for element in chart.iter()} - SVG_TAGS, set())

    def test_seconds_are_those_of_the_run(self):
        seconds = self.result["seconds"]
        self.assertGreaterEqual(len(seconds), 5)
        self.assertEqual([second["asked_per_s"] for second in seconds[:5]], [20, 20, 20, 30, 50])
        answered = self.result["total"]["requests"] + self.result["rates"]["warmup_requests"]
        self.assertEqual(sum(second["sent"] for second in seconds), answered)
        self.assertEqual(sum(second["ok"] for second in seconds), answered)
        with open(self.paths["csv"], encoding="utf-8", newline="") as file:
            lines = list(csv.DictReader(file))
        self.assertEqual(len(lines), len(seconds))
        for line, second in zip(lines, seconds):
            self.assertEqual(int(line["sent"]), second["sent"])
            self.assertEqual(int(line["output_tokens"]), second["output_tokens"])
            if second["end_to_end"]:
                self.assertAlmostEqual(float(line["end_to_end_p99_ms"]) / second["end_to_end"]["p99_ms"], 1, places=4)
        self.assertEqual([line["warmup"] for line in lines[:3]], ["1", "0", "0"])

    def test_server_counts_what_was_received(self):
        server = self.result["server"]
        self.assertEqual(server["failed_scrapes"], 0, server["last_failure"])
        samples = server["samples"]
        self.assertGreaterEqual(len(samples), 5)
        generated = sum((now["tokens_per_s"] or 0) * (now["time_s"] - before["time_s"])
                        for before, now in zip(samples, samples[1:]))
        received = sum(second["output_tokens"] for second in self.result["seconds"])
        # Tokens of a beam search's other hypotheses, and of the last half second, count on one side alone.
        self.assertGreater(generated, received / 4)

    def test_page_of_a_search_has_the_figures_of_its_json(self):
        paths = {kind: os.path.join(self.folder.name, "search." + kind) for kind in ("json", "html", "csv")}
        outputs = [argument for kind, path in paths.items() for argument in ("--" + kind, path)]
        done = loadtest("find-rate", "--target", self.server.address, "--kind", "generate_stream", "--model", "write-en",
                        "--max-new-tokens", "4", "--min-rate", "4", "--max-rate", "8", "--duration", "1", "--warmup", "0.2",
                        "--min-requests", "4", "--settle", "0", "--max-lateness-ms", "60000", "--slo", "e2e:p50:60s",
                        "--slo", "ttft:p90:60s", "--label", LABEL, *outputs)
        self.assertEqual((done.returncode, done.stderr), (0, ""), done.stdout)
        with open(paths["html"], encoding="utf-8") as file:
            page = file.read()
        with open(paths["json"], encoding="utf-8") as file:
            result = json.load(file)
        parser = Balanced()
        parser.feed(page)
        parser.close()
        self.assertEqual(parser.open, [])
        root = ElementTree.fromstring(page.replace(' xmlns="http://www.w3.org/1999/xhtml"', ""))
        self.assertEqual(root.find("head/title").text, "Highest rate: " + LABEL)
        figures = root.findall(".//data")
        self.assertGreater(len(figures), 15)
        for figure in figures:
            expected = of_json(result, figure.get("data-json"))
            self.assertEqual(float(figure.get("value")), expected, figure.get("data-json"))
        titles = [figure.find("figcaption").text for figure in root.findall(".//figure")]
        self.assertEqual(titles, ["Latency: first token", "Latency: per output token", "Latency: end to end",
                                  "Answered over asked for"])
        self.assertEqual(result["search"]["end"], "highest_holds")
        self.assertEqual(result["highest"]["rate_per_s"], 8)
        self.assertTrue(result["highest"]["is_lower_bound"])
        self.assertIn("At least 8.00/s hold: no rate that was probed fails.", done.stdout)
        with open(paths["csv"], encoding="utf-8", newline="") as file:
            lines = list(csv.DictReader(file))
        self.assertEqual([float(line["asked_per_s"]) for line in lines], [4, 8])
        self.assertEqual([line["holds"] for line in lines], ["1", "1"])

    def test_a_search_without_a_probe_has_no_verdict(self):
        done = loadtest("find-rate", "--target", self.server.address, "--kind", "tokenize", "--model", "embed-en", "--duration", "60",
                        "--max-time", "1")
        self.assertEqual(done.returncode, 2)
        self.assertIn("Nothing was measured: no probe was run.", done.stdout)
        self.assertIn("Nothing was measured: no probe was run.", done.stderr)
        self.assertNotIn("holds", done.stdout + done.stderr)

    def test_progress_is_for_terminals(self):
        self.assertEqual(self.done.stderr, "")
        controller, terminal = pty.openpty()
        command = [os.path.join(documents.options.build, "loadtest/beamline-loadtest"), "run", "--target",
                   self.server.address, "--kind", "tokenize", "--model", "embed-en", "--rate", "50", "--duration", "2.5"]
        with subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=terminal) as process:
            os.close(terminal)
            shown = b""
            while True:
                try:
                    part = os.read(controller, 4096)
                except OSError:  # the other side is closed
                    break
                if not part:
                    break
                shown += part
            self.assertEqual(process.wait(documents.TIMEOUT_S), 0)
        os.close(controller)
        lines = [line for line in re.split(r"\r\x1b\[K", shown.decode()) if line]
        self.assertGreaterEqual(len(lines), 2, shown)
        for line in lines:
            self.assertRegex(line, r"^ +\d+/2 s  \d+ sent  \d+ open  \d+ ended/s")
        self.assertTrue(shown.endswith(b"\r\x1b[K"))


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--source", required=True)
    parser.add_argument("--build", required=True)
    documents.options, rest = parser.parse_known_args()
    os.environ["PATH"] = os.pathsep.join([os.path.join(documents.options.build, "server"), os.environ["PATH"]])
    unittest.main(argv=["load_report_test.py", *rest])

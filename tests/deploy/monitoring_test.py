"""A Prometheus scrapes a server under load and evaluates the rules of deploy/: every panel's query, every recorded series and every
selector of an alert returns data, or stands in EMPTY or MAY_BE_EMPTY with the reason.

Needs prometheus and python3-yaml; without them it is skipped: exit status 77, and the reason.

usage: monitoring_test.py --source FOLDER --build FOLDER [unittest's arguments]
"""

import argparse
import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import unittest
import urllib.parse
import urllib.request

SKIPPED = 77
PROGRAMS = {"beamline": "client/cli", "beamline-server": "server", "beamline-loadtest": "loadtest"}
LOAD_SECONDS = 8
SETTLED_SECONDS = 40  # at most, from the load's end until everything is recorded
# What has no data here: a beginning of an expression or a selector, and why.
EMPTY = {
    "beamline_device_memory_unused_bytes": "only a GPU has a share that no model holds",
    "device:beamline_memory_unused:ratio": "of the same",
    "beamline_tls_certificate_expiry_timestamp_seconds": "only a server with a certificate has when it ends",
    'beamline_requests_total{code="INTERNAL"}': "no request failed by a fault of the server",
}
MAY_BE_EMPTY = {"ALERTS": "nothing is wrong, unless this machine is so busy that answers are late"}

options = None  # of the command line


class Prometheus:
    """Scrapes and evaluates every second, stopped by its id."""

    def __init__(self, folder, target):
        config = {
            "global": {"scrape_interval": "1s", "evaluation_interval": "1s"},
            "rule_files": [os.path.join(options.source, "deploy/prometheus/rules/*.yaml")],
            "scrape_configs": [{"job_name": "beamline", "static_configs": [{"targets": [target]}]}],
        }
        with open(os.path.join(folder, "prometheus.yml"), "w", encoding="utf-8") as file:
            yaml.safe_dump(config, file)
        self.url = f"http://127.0.0.1:{demo_server.free_port()}"
        self.log_path = os.path.join(folder, "prometheus.log")
        with open(self.log_path, "w", encoding="utf-8") as log:
            self.process = subprocess.Popen(  # pylint: disable=consider-using-with
                ["prometheus", f"--config.file={file.name}", f"--storage.tsdb.path={folder}/data",
                 f"--web.listen-address={self.url.removeprefix('http://')}"],
                stdin=subprocess.DEVNULL, stdout=log, stderr=subprocess.STDOUT)
        until = time.monotonic() + 30
        while True:
            with contextlib.suppress(OSError):
                with urllib.request.urlopen(f"{self.url}/-/ready", timeout=5):
                    return
            if self.process.poll() is not None or time.monotonic() > until:
                self.stop()
                with open(self.log_path, encoding="utf-8") as log:
                    raise RuntimeError(f"prometheus did not start: {log.read()}")
            time.sleep(0.1)

    def get(self, path, **parameters):
        with urllib.request.urlopen(f"{self.url}/api/v1/{path}?{urllib.parse.urlencode(parameters)}", timeout=30) as answer:
            return json.load(answer)["data"]

    def values(self, expression):
        """Of every series that the expression has now, without NaN."""
        found = [float(sample["value"][1]) for sample in self.get("query", query=expression)["result"]]
        return [value for value in found if value == value]

    def stop(self):
        self.process.send_signal(signal.SIGTERM)
        try:
            self.process.wait(20)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()


def run(*command, expected=0):
    done = subprocess.run(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=60, check=False)
    if done.returncode != expected:
        raise RuntimeError(f"{' '.join(command)}: status {done.returncode}\n{done.stdout}")


def put_load_on(server):
    """Every RPC, a refusal, and texts that repeat themselves."""
    os.environ["BEAMLINE_ADDRESS"] = server.address
    with subprocess.Popen(["beamline-loadtest", "run", "--target", server.address, "--workload",
                           os.path.join(options.source, "bench/workloads/mixed.yaml"), "--rate", "20", "--duration", str(LOAD_SECONDS)],
                          stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as load:
        for _ in range(3):
            run("beamline", "translate", "--stream", "--greedy", "Open the file.")
            run("beamline", "score", "--model", "write-en", "Package: vim", " is a text editor")
            run("beamline", "detokenize", "--model", "write-en", "50", "41")
            run("beamline", "models", "write-en")
            run("beamline", "encode", "--file", os.path.join(options.source, "LICENSE"))
            run("beamline", "generate", "--model", "write-en", "--greedy", "--max-new-tokens", "60", "a b c a b c a b c a b")
            run("beamline", "generate", "--model", "write-en", "--max-new-tokens", "0", "Hello", expected=1)
            time.sleep(1)  # for the next scrape: a rate needs two
        text = load.communicate(timeout=60)[0]
        if load.returncode != 0:
            raise RuntimeError(f"beamline-loadtest: status {load.returncode}\n{text}")


class Monitoring(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.mkdtemp(prefix="beamline_monitoring_")
        cls.addClassCleanup(shutil.rmtree, cls.folder)
        models = [argument for name, settings in (("translate-en-de", ""), ("embed-en", ""), ("write-en", ",speculative_tokens=4"))
                  for argument in ("--model", f"{name}={options.source}/models/{name}{settings}")]
        cls.server = demo_server.Server(cls.folder, "--metrics-names", "vllm", *models)
        cls.addClassCleanup(cls.server.stop)
        cls.prometheus = Prometheus(cls.folder, cls.server.metrics_url.split("/")[2])
        cls.addClassCleanup(cls.prometheus.stop)
        put_load_on(cls.server)
        until = time.monotonic() + SETTLED_SECONDS
        while not cls.prometheus.values("model:beamline_slo_errors:ratio_rate3d") and time.monotonic() < until:
            time.sleep(0.5)

    def missing(self, queries):
        """Those of (place, expression) that have neither data nor a reason. An empty one that has data is a fault too."""
        faults = []
        for place, expression in queries:
            query = promql.filled_in(expression)
            if query.startswith(tuple(MAY_BE_EMPTY)):
                continue
            excused = query.startswith(tuple(EMPTY))
            has_data = bool(self.prometheus.values(query))
            if has_data == excused and not (excused and os.path.exists("/dev/nvidiactl")):
                faults.append(f"{place}: {'has data and is excused' if has_data else 'no data'}: {query}")
        return faults

    def test_panels_have_data(self):
        queries = [(f"{name}: {panel['title']}", target["expr"]) for name, dashboard in definitions.dashboards(options.source).items()
                   for panel in dashboard["panels"] for target in panel["targets"]]
        self.assertGreater(len(queries), 60)
        self.assertEqual(self.missing(queries), [])

    def test_recorded_series_have_data(self):
        rules = [rule for rule in definitions.rules(options.source) if "record" in rule]
        queries = []
        for rule in rules:
            matchers = ",".join(f'{name}="{value}"' for name, value in rule.get("labels", {}).items())
            queries.append((rule["record"], rule["record"] + (f"{{{matchers}}}" if matchers else "")))
        self.assertEqual(len({query for _, query in queries}), len(rules))
        self.assertEqual(self.missing(queries), [])

    def test_what_alerts_look_at_is_there(self):
        queries = {(rule["alert"], metric + matchers) for rule in definitions.rules(options.source) if "alert" in rule
                   for metric, matchers in promql.selectors(rule["expr"])}
        self.assertEqual(self.missing(sorted(queries)), [])

    def test_rules_are_evaluated_and_no_alert_fires(self):
        rules = [rule for group in self.prometheus.get("rules")["groups"] for rule in group["rules"]]
        self.assertEqual(len(rules), len(definitions.rules(options.source)))
        for rule in rules:
            self.assertEqual((rule["health"], rule.get("lastError", "")), ("ok", ""), rule["name"])
            self.assertNotEqual(rule.get("state"), "firing", rule)

    def test_vllms_names_are_there_for_gateways(self):
        for name, values in (("vllm:num_requests_waiting", [0]), ("vllm:num_requests_running", [0]), ("vllm:kv_cache_usage_perc", [0]),
                             ("vllm:cache_config_info", [1])):
            self.assertEqual(self.prometheus.values(f'{name}{{model_name="write-en"}}'), values, name)
        blocks, = self.prometheus.values('sum(beamline_kv_blocks{model="write-en"})')
        self.assertEqual(self.prometheus.values(f'vllm:cache_config_info{{model_name="write-en",block_size="16",num_gpu_blocks="{blocks:.0f}"}}'), [1])
        self.assertEqual(self.prometheus.values('vllm:cache_config_info{model_name="embed-en"}'), [])
        latest, = self.prometheus.values('vllm:lora_requests_info{max_lora="0",running_lora_adapters="",waiting_lora_adapters=""}')
        self.assertLess(abs(time.time() - latest), 600)

    def test_promtool_finds_no_fault_but_names_that_are_not_ours(self):
        done = subprocess.run(["promtool", "check", "metrics"], input=self.server.scrape(), stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                              text=True, timeout=60, check=False)
        expected = {f"{name} metric names should not contain ':'" for name in (
            "vllm:num_requests_waiting", "vllm:num_requests_running", "vllm:kv_cache_usage_perc", "vllm:cache_config_info",
            "vllm:lora_requests_info")}
        self.assertEqual(set(done.stdout.splitlines()), expected)

    def test_recorded_values_are_right(self):
        self.assertEqual(self.prometheus.values('model:beamline_slo_errors:ratio_rate5m{slo="availability",model="write-en"}'), [0.0])
        generated, = self.prometheus.values('beamline_generated_tokens_total{model="write-en"}')
        self.assertGreater(generated, 100)
        asked, = self.prometheus.values('sum(beamline_requests_total{code="OK"})')
        self.assertGreater(asked, 20 * LOAD_SECONDS / 2)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--source", required=True)
    parser.add_argument("--build", required=True)
    options, rest = parser.parse_known_args()
    try:
        import yaml
    except ImportError:
        print("skipped: this Python has no yaml; Debian's is python3-yaml")
        sys.exit(SKIPPED)
    if shutil.which("prometheus") is None:
        print("skipped: there is no prometheus; Debian's package is prometheus")
        sys.exit(SKIPPED)
    sys.path.insert(0, os.path.join(options.source, "tests/e2e"))
    import definitions
    import demo_server
    import promql
    for program_folder in PROGRAMS.values():
        os.environ["PATH"] = os.path.join(options.build, program_folder) + os.pathsep + os.environ["PATH"]
    unittest.main(argv=sys.argv[:1] + rest)

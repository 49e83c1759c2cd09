"""A beamline-server of the build for tests in Python: on free loopback ports, stopped by its id."""

import contextlib
import os
import random
import re
import signal
import socket
import subprocess
import urllib.request


def free_port():
    """For what is to listen at the same port again: not one of those that the system gives to others meanwhile."""
    while True:
        port = random.randrange(20000, 32768)
        with contextlib.closing(socket.socket()) as probe:
            with contextlib.suppress(OSError):
                probe.bind(("127.0.0.1", port))
                return port


class Server:
    """Serves the demo models, or what the arguments say. Its log is `log` in `folder`, or the file of another path.
    `beamline-server` is on the PATH."""

    def __init__(self, folder, *arguments, log_path=None, environment=None):
        self.log_path = log_path or os.path.join(folder, "log")
        self.log = open(self.log_path, "a", encoding="utf-8")  # pylint: disable=consider-using-with
        if "--listen" not in arguments:
            arguments += ("--listen", "127.0.0.1:0")
        if "--metrics-listen" not in arguments:
            arguments += ("--metrics-listen", "127.0.0.1:0")
        if not any(word.startswith("--http-listen") for word in arguments) and "BEAMLINE_HTTP_LISTEN" not in (environment or {}):
            arguments += ("--http-listen", "off")
        self.process = subprocess.Popen(  # pylint: disable=consider-using-with
            ["beamline-server", *arguments], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=self.log, text=True,
            env=dict(os.environ, **(environment or {})))
        line = self.process.stdout.readline()
        match = re.search(r"serving on (\S+) \(metrics ([^\s,)]+)(?:, admin ([^\s,)]+))?(?:, health ([^\s,)]+))?(?:, http ([^\s)]+))?\)",
                          line)
        if not match:
            self.process.kill()
            self.process.wait()
            raise RuntimeError(f"the server did not start: {line} {self.read_log()}")
        self.address, self.metrics_url, self.admin_address, self.health_address, self.http_address = match.groups()

    def read_log(self):
        with open(self.log_path, encoding="utf-8") as file:
            return file.read()

    def scrape(self):
        with urllib.request.urlopen(self.metrics_url, timeout=30) as answer:
            return answer.read().decode()

    def metric(self, series):
        """The sum of the series that begin so; 0 without one."""
        found = re.findall(rf"^{re.escape(series)}\S* (\S+)$", self.scrape(), re.M)
        return sum(float(value) for value in found)

    def resident_bytes(self):
        with open(f"/proc/{self.process.pid}/statm", encoding="utf-8") as file:
            return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")

    def stop(self):
        """The exit status."""
        self.process.send_signal(signal.SIGTERM)
        try:
            status = self.process.wait(60)
        except subprocess.TimeoutExpired:
            self.process.kill()
            status = self.process.wait()
        self.process.stdout.close()
        self.log.close()
        return status

"""A server for the time of a measurement. Scripts of the folders below find it by bench/ on sys.path."""

import contextlib
import dataclasses
import re
import shlex
import subprocess


@dataclasses.dataclass
class Process:
    address: str  # of gRPC
    http: str  # of the listener that speaks OpenAI's protocol; empty where there is none
    pid: int


@contextlib.contextmanager
def echo_process(command):
    """Starts a server by this command, which takes free ports by itself, as rpc_echo_server does; yields its Process."""
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    try:
        line = process.stdout.readline()
        found = re.search(r"serving on (\S+?)[,:]?(?:\s|$)(?:.*http ([^\s,)]+))?", line)
        if not found:
            raise SystemExit(f"{shlex.join(command)} did not start: {line}")
        yield Process(found.group(1), found.group(2) or "", process.pid)
    finally:
        process.terminate()
        process.wait()


def serving_process(command):
    """The same of a beamline-server, on a free port, without metrics."""
    return echo_process(command + ["--listen", "127.0.0.1:0", "--metrics-listen", "off", "--http-listen", "off"])

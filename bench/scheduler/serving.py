"""A beamline-server for the time of a measurement."""

import collections
import contextlib
import re
import subprocess

Process = collections.namedtuple("Process", "address pid")


def serving_process(command):
    """Starts a server by this command on a free port, without metrics; yields its address and its process."""
    return echo_process(command + ["--listen", "127.0.0.1:0", "--metrics-listen", "off"])


@contextlib.contextmanager
def echo_process(command):
    """The same of a command that takes a free port by itself, as rpc_echo_server does."""
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    try:
        line = process.stdout.readline()
        found = re.search(r"serving on (\S+)", line)
        if not found:
            raise SystemExit(f"the server did not start: {line}")
        yield Process(found.group(1).rstrip(":"), process.pid)
    finally:
        process.terminate()
        process.wait()


@contextlib.contextmanager
def serving(server, arguments):
    """Starts `server` on a free port, without metrics; yields its address."""
    with serving_process([server] + arguments) as process:
        yield process.address

"""A beamline-server for the time of a measurement."""

import collections
import contextlib
import re
import subprocess

Process = collections.namedtuple("Process", "address pid")


@contextlib.contextmanager
def serving_process(command):
    """Starts a server by this command on a free port, without metrics; yields its address and its process."""
    process = subprocess.Popen(command + ["--listen", "127.0.0.1:0", "--metrics-listen", "off"], stdout=subprocess.PIPE,
                               stderr=subprocess.DEVNULL, text=True)
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

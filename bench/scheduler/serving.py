"""A beamline-server for the time of a measurement."""

import contextlib
import re
import subprocess


@contextlib.contextmanager
def serving(server, arguments):
    """Starts `server` on a free port, without metrics; yields its address."""
    command = [server, "--listen", "127.0.0.1:0", "--metrics-listen", "off"] + arguments
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    try:
        line = process.stdout.readline()
        found = re.search(r"serving on (\S+)", line)
        if not found:
            raise SystemExit(f"the server did not start: {line}")
        yield found.group(1).rstrip(":")
    finally:
        process.terminate()
        process.wait()

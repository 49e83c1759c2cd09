#!/usr/bin/env python3
"""Which functions of its libraries the server defines itself (docs/decisions/0079-public-interfaces.md).

A function that a program exports takes the place of the one of the same name in a shared library. Two may: those by
which the server counts what a connection sends before gRPC reads it (docs/decisions/0031-floods.md).
"""

import argparse
import pathlib
import re
import subprocess
import sys

ALLOWED = {"recvmsg", "SSL_read"}
# Of every program's own start and end.
OF_LINKER = {"_init", "_fini", "_start", "main"}


def functions(path, kinds):
    """Names of the functions of these kinds (as nm has them) that a file exports, without the symbols' versions."""
    lines = subprocess.run(["nm", "-D", "--defined-only", path], capture_output=True, text=True, timeout=60, check=True)
    found = re.findall(r"^[0-9a-f]+ ([A-Za-z]) (\S+)$", lines.stdout, re.MULTILINE)
    return {name.split("@")[0] for kind, name in found if kind in kinds}


def libraries(path):
    lines = subprocess.run(["ldd", path], capture_output=True, text=True, timeout=60, check=True).stdout
    return sorted(set(re.findall(r"=> (/\S+) \(", lines)))


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--source")  # as other tests have it
    parser.add_argument("--build", required=True, type=pathlib.Path)
    args = parser.parse_args()
    server = args.build / "server" / "beamline-server"

    # Inline functions are in several files by design, and weak in each; a library's own are strong there.
    own = functions(server, "TWi") - OF_LINKER
    found = {}
    for library in libraries(server):
        for name in own & functions(library, "Ti"):
            found.setdefault(name, library)
    wrong = {name: library for name, library in found.items() if name not in ALLOWED}
    for name, library in sorted(wrong.items()):
        print(f"{server.name} defines {name}, a function of {library}")
    missing = ALLOWED - own
    for name in sorted(missing):
        print(f"{server.name} does not export {name}: connections are not guarded")
    return 1 if wrong or missing else 0


if __name__ == "__main__":
    sys.exit(main())

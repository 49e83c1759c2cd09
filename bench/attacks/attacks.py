#!/usr/bin/env python3
"""Attacks a server over loopback, one kind after the other, and tells what each does to a normal client that makes one small call
after the other, and to the server's memory. With several servers (--server before=FOLDER --server after=FOLDER) each attack is on
one after the other. --out OUT writes OUT.json and OUT.md.

The attack is a process of its own on the same machine and takes a good part of its cores: compare the servers of one run, with
nothing beside. Needs Linux's loopback addresses 127.0.0.0/8.
"""

import argparse
import datetime
import json
import os
import subprocess
import textwrap
import time

import measure
from measure import BACK_MIB, NORMAL_ADDRESS, ROOT
# pylint: disable=wrong-import-order
import connections
import floods
import greedy_clients
import long_texts
import unfinished_messages

ATTACKS = {attack.name: attack for module in (greedy_clients, connections, unfinished_messages, floods, long_texts) for attack in module.ATTACKS}

HEADER = ("| attack | server | alone: p50; p99 (ms) | beside: p50; p99; most | failed | with a deadline, refused | memory: idle; most above (MiB) | left above, after |\n"
          "| --- | --- | ---: | ---: | ---: | ---: | ---: | ---: |")


def lines(row):
    for way, beside in row["beside"].items():
        alone = row["alone"][way]
        refused = f"{beside['refused']} of {beside['with_deadline']}" if beside["with_deadline"] else ""
        cells = [row["attack"] + (", fresh connections" if way == "fresh" else ""), row["server"], f"{alone['p50_ms']:.1f}; {alone['p99_ms']:.1f}",
                 f"{beside['p50_ms']:.1f}; {beside['p99_ms']:.1f}; {beside['most_ms']:.0f}", f"{beside['failed']} of {beside['calls'] - beside['with_deadline']}", refused]
        if way == "kept":
            cells += [f"{row['idle_mib']}; {row['most_above_mib']}", f"{row['left_above_mib']} MiB, {row['back_s']:.0f} s"]
        else:
            cells += ["", ""]
        yield f"| {' | '.join(cells)} |"


def text_of(attack):
    text = " ".join(attack.send.__doc__.split())
    if attack.threads > 1:
        text = f"{attack.threads} connections, each with {text[0].lower()}{text[1:]}" if not text.startswith("Two at") else text
    deadline = f" Every other call of the normal client has a deadline of {attack.deadline_s} s." if attack.deadline_s else ""
    return textwrap.fill(f"- {attack.name}: {text}{deadline}", 120, subsequent_indent="  ", break_on_hyphens=False, break_long_words=False)


def report(result):
    attacks = "\n".join(text_of(attack) for name, attack in ATTACKS.items() if any(row["attack"] == name for row in result["rows"]))
    table = "\n".join(line for row in result["rows"] for line in lines(row))
    return f"""# Attacks on the CPU

{result['machine']}; load average {result['load_average']:.1f} before; {result['date']}. Servers: {result['servers']}.
Command: `{result['command']}`. {result['minutes']:.0f} minutes.

A normal client makes one small call after the other, for {result['seconds']:g} s alone and for {result['seconds']:g} s beside the attack. It has an address of
its own ({NORMAL_ADDRESS}), but for attacks with a second row, for calls by fresh connections: there it shares the attack's.
The attack shares the {result['cores']} cores with the server. Idle memory is what the server has after the calls alone; what is left
is looked at when it is less than {BACK_MIB} MiB, or {result['back']:g} s after the attack. Blocks of the cache that were used once stay with the
server: those of the attacks that generate.

{attacks}

{HEADER}
{table}
"""


def machine():
    with open("/proc/cpuinfo", encoding="utf-8") as file:
        names = [text.split(":", 1)[1].strip() for text in file if text.startswith("model name")]
    return f"{names[0]}, {len(names)} cores"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--server", action="append", metavar="NAME=FOLDER", help="a beamline-server's folder, with a name for the table; may be repeated")
    parser.add_argument("--attacks", default=";".join(ATTACKS), help="which, with semicolons between them")
    parser.add_argument("--seconds", type=float, default=8, help="of each measurement")
    parser.add_argument("--back", type=float, default=60, help="seconds in which memory is to be given back")
    parser.add_argument("--servers", default="", help="what to say of the servers")
    parser.add_argument("--out", help="writes OUT.json and OUT.md")
    options = parser.parse_args()
    names = options.attacks.split(";")
    unknown = [name for name in names if name not in ATTACKS]
    if unknown:
        parser.error(f"--attacks has {unknown[0]}; accepted: {'; '.join(ATTACKS)}")
    begin, load_average, path, rows = time.monotonic(), os.getloadavg()[0], os.environ["PATH"], []
    commit = subprocess.run(["git", "rev-parse", "--short", "HEAD"], cwd=ROOT, stdout=subprocess.PIPE, text=True, check=False).stdout.strip()
    result = {"schema": "beamline.bench_attacks/2", "date": datetime.date.today().isoformat(), "machine": machine(), "cores": os.cpu_count(),
              "load_average": load_average, "servers": options.servers or f"this, {commit}", "seconds": options.seconds, "back": options.back,
              "command": f"bench/attacks/attacks.py --seconds {options.seconds:g} --back {options.back:g}", "rows": rows}
    print(HEADER, flush=True)
    for name in names:
        for named in options.server or ["this=" + os.path.join(ROOT, "build/release/server")]:
            server, folder = named.split("=", 1)
            os.environ["PATH"] = folder + os.pathsep + path
            rows.append({"server": server, **measure.measure(ATTACKS[name], options.seconds, options.back)})
            print("\n".join(lines(rows[-1])), flush=True)
            if options.out:  # what there is, should it be stopped
                result["minutes"] = (time.monotonic() - begin) / 60
                with open(options.out + ".json", "w", encoding="utf-8") as file:
                    json.dump(result, file, indent=1)
                    file.write("\n")
                with open(options.out + ".md", "w", encoding="utf-8") as file:
                    file.write(report(result))


if __name__ == "__main__":
    main()

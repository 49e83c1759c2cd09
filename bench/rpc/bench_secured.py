#!/usr/bin/env python3
"""Measures on this machine what a call costs beside the engine's work when all that protects and observes the server is on: TLS, tokens,
quotas, a line of the log for each request, traces of each request to a collector; beside a server with nothing of it, the engine in process,
and a bare gRPC callback server without TLS, with it, and with it and the same metadata in its calls. Each alone is measured too. Writes OUT.md
and OUT.json. The binaries are those of bench/rpc/bench_rpc.sh. Every figure is the median of rounds in which the candidates take
turns; each round starts the servers anew, as one process is faster than the next."""

import argparse
import contextlib
import datetime
import hashlib
import json
import os
import statistics
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import tiny_checkpoints  # noqa: E402
from bench_rpc import machine  # noqa: E402
from serving import echo_process  # noqa: E402

TOKENS = 128  # of a stream
CALLS_AT_ONCE, CONNECTIONS = 64, 8
SAME_CALLS = "echo with TLS, called as all"  # with a token and a traceparent, which it does not look at
NO_LAYERS = ", no layers"  # behind the name of what is on: the model computes next to nothing
AT_ONCE = ("echo", "nothing", "nothing" + NO_LAYERS, "echo with TLS", SAME_CALLS, "all", "all" + NO_LAYERS)
BESIDE = (("nothing", "echo"), ("nothing" + NO_LAYERS, "echo"), ("all", "echo with TLS"), ("all" + NO_LAYERS, "echo with TLS"), ("all", SAME_CALLS),
          ("all" + NO_LAYERS, SAME_CALLS))
TOKEN = "a-token-of-the-bench"


def write_files(folder):
    """A certificate of the server's, and who may call."""
    key, certificate = os.path.join(folder, "key.pem"), os.path.join(folder, "certificate.pem")
    subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "2", "-subj",
                    "/CN=localhost", "-addext", "subjectAltName=IP:127.0.0.1", "-keyout", key, "-out", certificate], check=True, stderr=subprocess.DEVNULL)
    os.chmod(key, 0o600)
    identities = os.path.join(folder, "identities")
    with open(identities, "w", encoding="utf-8") as file:
        file.write(f"bench inference sha256:{hashlib.sha256(TOKEN.encode()).hexdigest()}\n")
    os.chmod(identities, 0o600)
    return key, certificate, identities


def protections(folder, spans):
    """By name: settings of the server, and options of the bench."""
    key, certificate, identities = write_files(folder)
    one = {
        "nothing": ([], []),
        "TLS": (["--tls-key-file", key, "--tls-certificate-file", certificate], ["--ca-file", certificate]),
        "tokens": (["--identity-file", identities], ["--token", TOKEN]),
        "quotas": (["--tokens-per-second", "1000000000", "--token-burst", "1000000000000"], []),
        "request log": (["--log-requests", "all", "--log-format", "json"], []),
        "traces": (["--otlp-endpoint", spans], ["--traced"]),
    }
    one["all"] = tuple([part for setting in one.values() for part in setting[side]] for side in (0, 1))
    return one


def run(options, call, where, *more, encoder="bert"):
    command = [options.bench, "--model", encoder if call == "encode" else "gpt2", "--call", call, "--new-tokens", str(TOKENS),
               "--seconds", str(options.seconds), "--warmup", "0.3", *where, *more]
    return json.loads(subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True).stdout)


def start_all(options, kinds, models, stack):
    """The servers, which the stack ends; by name the bench's options that call them."""
    where = {}
    for name, (settings, flags) in kinds.items():
        server = [options.server, "--listen", "127.0.0.1:0", "--metrics-listen", "off", "--http-listen", "off", *settings, *models]
        where[name] = ["--target", stack.enter_context(echo_process(server)).address, *flags]
    echo = [options.echo_server, "--dimensions", str(tiny_checkpoints.WIDTH), "--tokens", str(TOKENS)]
    tls_settings, tls_flags = kinds["TLS"]
    where["echo"] = ["--target", stack.enter_context(echo_process(echo)).address]
    where["echo with TLS"] = ["--target", stack.enter_context(echo_process(echo + tls_settings)).address, *tls_flags]
    where[SAME_CALLS] = [*where["echo with TLS"][:2], *kinds["all"][1]]
    return where


def measure(options, folder, spans):
    kinds = protections(folder, spans)
    models = [part for name in ("bert", "bert0", "gpt2") for part in ("--model", f"{name}={os.path.join(folder, name)},cache_bytes=16777216")]
    runs = []
    for round_number in range(max(options.rounds, options.at_once_rounds)):
        with contextlib.ExitStack() as stack:
            where = start_all(options, kinds, models, stack)
            for name in AT_ONCE:
                many = run(options, "encode", where[name.removesuffix(NO_LAYERS)], "--concurrency", str(CALLS_AT_ONCE), "--connections", str(CONNECTIONS),
                           encoder="bert0" if name.endswith(NO_LAYERS) else "bert")
                runs.append({"candidate": name, **many, "call": "many"})
                print(name, "at once", round(many["calls_per_s"]), flush=True)
            for call in ("encode", "stream") if round_number < options.rounds else ():
                runs.append({"candidate": "engine", **run(options, call, ["--folder", os.path.join(folder, "bert" if call == "encode" else "gpt2")])})
                for name, arguments in where.items():
                    runs.append({"candidate": name, **run(options, call, arguments)})
                    print(name, call, round(runs[-1]["p50_us"], 1), flush=True)
    return summary(runs)


def summary(runs):
    rows = []
    for name in dict.fromkeys(one["candidate"] for one in runs if one["call"] == "encode"):
        row = {"candidate": name}
        for call in ("encode", "stream"):
            of = [one for one in runs if one["candidate"] == name and one["call"] == call]
            row[call] = {figure: statistics.median(one[figure] for one in of) for figure in ("p50_us", "p99_us", "messages_a_call")}
        rows.append(row)
    engine = rows[0]
    for row in rows[1:]:
        row["added_unary_us"] = row["encode"]["p50_us"] - engine["encode"]["p50_us"]
        row["added_token_us"] = (row["stream"]["p50_us"] - engine["stream"]["p50_us"]) / TOKENS
    rates = {name: statistics.median(one["calls_per_s"] for one in runs if (one["candidate"], one["call"]) == (name, "many")) for name in AT_ONCE}
    ratios = [{"candidate": name, "echo": echo, "ratio": rates[name] / rates[echo]} for name, echo in BESIDE]
    return {"rows": rows, "calls_per_s": rates, "ratios": ratios, "runs": runs}


def page(result):
    lines = [
        "# What a call costs with all protection on", "",
        f"{result['date']}, {result['machine']}; Beamline at {result['commit']}; client and server share the cores. `bench/rpc/bench_secured.py`; medians",
        f"of {result['rounds']} rounds of {result['seconds']:g} s, each with servers of its own, in which the candidates take turns; one client, one call after the "
        "other. The models have", f"one layer of {tiny_checkpoints.WIDTH} hidden numbers. \"Added\" is p50 beside the engine in process. TLS is 1.3 with a key of the "
        "curve P-256; a token of each call", "is looked up in an identity file; a quota is taken from and settled by each call; the request log is a line of JSON for each",
        "call, written to /dev/null; each call has a `traceparent`, and its span goes to a collector, a gRPC server on the same cores that takes",
        "what comes. Limits of connections, sizes and queues are on in every row. \"Echo\" is a gRPC callback server that answers the same messages",
        "at once, and writes a message a token; \"called as all\" it gets the same token and `traceparent` with each call, and looks at neither.", "",
        f"| on | Encode of 4 tokens, p50; p99 (us) | added (us) | GenerateStream of {TOKENS} tokens, p50 (us) | added a token (us) |",
        "| --- | ---: | ---: | ---: | ---: |"]
    for row in result["rows"]:
        added = (f"{row['added_unary_us']:.0f}", f"{row['added_token_us']:.1f}") if "added_unary_us" in row else ("", "")
        name = "engine in process" if row["candidate"] == "engine" else row["candidate"]
        lines.append(f"| {name} | {row['encode']['p50_us']:.0f}; {row['encode']['p99_us']:.0f} | {added[0]} | {row['stream']['p50_us']:.0f} | {added[1]} |")
    lines += ["", f"Encode, {CALLS_AT_ONCE} calls at once over {CONNECTIONS} connections; without layers the model computes next to nothing. Medians of "
              f"{result['at_once_rounds']} rounds, and in brackets the quarters of them:", "", "| on | calls/s | of those of |", "| --- | ---: | --- |"]
    for name, rate in result["calls_per_s"].items():
        ratios = "; ".join(f"{of['ratio']:.2f} {of['echo']}" for of in result["ratios"] if of["candidate"] == name)
        rates = [one["calls_per_s"] for one in result["runs"] if (one["candidate"], one["call"]) == (name, "many")]
        quarters = statistics.quantiles(rates) if len(rates) > 1 else [rate] * 3
        lines.append(f"| {name} | {rate:,.0f} ({quarters[0]:,.0f} to {quarters[2]:,.0f}) | {ratios} |")
    return "\n".join(lines) + "\n"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--server", required=True)
    parser.add_argument("--echo-server", required=True)
    parser.add_argument("--bench", required=True)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--at-once-rounds", type=int, default=0, help="of the many calls at once, where more than of the others: server processes differ")
    parser.add_argument("--seconds", type=float, default=2)
    parser.add_argument("--commit", default="", help="of the measured server")
    parser.add_argument("--out", required=True, help="the result files' path without .md and .json")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="bench_secured_") as folder, echo_process([options.echo_server]) as spans:
        tiny_checkpoints.write_bert(os.path.join(folder, "bert"))
        tiny_checkpoints.write_bert(os.path.join(folder, "bert0"), num_layers=0)
        tiny_checkpoints.write_gpt2(os.path.join(folder, "gpt2"))
        result = {"date": datetime.date.today().isoformat(), "machine": machine(), "commit": options.commit, "rounds": options.rounds,
                  "at_once_rounds": max(options.rounds, options.at_once_rounds), "seconds": options.seconds,
                  **measure(options, folder, spans.address)}
    with open(options.out + ".json", "w", encoding="utf-8") as file:
        json.dump(result, file, indent=1)
        file.write("\n")
    with open(options.out + ".md", "w", encoding="utf-8") as file:
        file.write(page(result))
    print(page(result))


if __name__ == "__main__":
    main()

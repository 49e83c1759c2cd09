#!/usr/bin/env python3
"""Sends the requests of a plan, which `beamline-loadtest plan` wrote, to another server or to transformers in this process,
at the same times, and measures as `beamline-loadtest run` does. The result is for `beamline-loadtest compare`.

Exit codes: 0 all is well; 1 requests failed unexpectedly; 2 the test could not be run.
"""

from __future__ import annotations

import argparse
import asyncio
import ipaddress
import os
import platform
import resource
import shlex
import signal
import sys
import urllib.parse
from typing import Any

from peer import Peer
from plan import Plan, PlanError, read_plan
from replay import Limits, Replay, prepare
from report import Recorder, Slo, describe, describe_machine, utc_date, write_result

PEERS = ("openai", "kserve", "transformers", "beamline")


def is_loopback(host: str) -> bool:
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def check_remote(host: str, allowed: bool) -> None:
    if not allowed and not is_loopback(host):
        raise PlanError(f"{host} is not on this machine; --allow-remote loads it all the same")


def read_url(url: str | None, allow_remote: bool) -> tuple[str, int, str]:
    """Host, port and path."""
    accepted = "accepted: http://HOST:PORT/PATH"
    if not url:
        raise PlanError(f"--url is required; {accepted}")
    try:
        parts = urllib.parse.urlsplit(url)
        port = parts.port or 80
    except ValueError as error:
        raise PlanError(f"--url is '{url}': {error}; {accepted}") from error
    plain = url.isascii() and url.isprintable() and " " not in url
    if parts.scheme != "http" or not parts.hostname or parts.query or parts.fragment or parts.username or not plain:
        raise PlanError(f"--url is '{url}'; {accepted}")
    check_remote(parts.hostname, allow_remote)
    return parts.hostname, port, parts.path


def read_models(given: list[str]) -> dict[str, str]:
    """From the plan's names to the peer's; that of "" is for all others."""
    models = {}
    for text in given:
        own, equals, theirs = text.partition("=")
        key, name = (own, theirs) if equals else ("", text)
        if not name or key in models:
            raise PlanError(f"--model is '{text}'; accepted: NAME once, or PLAN'S_NAME=NAME once for each")
        models[key] = name
    return models


def make_peer(options: argparse.Namespace) -> Peer:
    models = read_models(options.model)
    if options.peer == "openai":
        from openai_peer import OpenAiPeer
        return OpenAiPeer(*read_url(options.url, options.allow_remote), models)
    if options.peer == "kserve":
        from kserve_peer import KServePeer, read_mapping
        if not options.mapping:
            raise PlanError("--mapping is required for peer kserve; accepted: a file, as those in loadtest/peers/mappings")
        return KServePeer(*read_url(options.url, options.allow_remote), models, read_mapping(options.mapping))
    if options.peer == "transformers":
        from transformers_peer import TransformersPeer
        return TransformersPeer(models, options.device, options.dtype, options.batch, options.threads)
    from beamline_peer import BeamlinePeer
    host, _, port = (options.url or "").rpartition(":")
    if not host or not port.isdigit():
        raise PlanError(f"--url is '{options.url}'; accepted: HOST:PORT for peer beamline")
    check_remote(host.strip("[]"), options.allow_remote)
    return BeamlinePeer(options.url)


def positive(kind: Any, low: float, high: float) -> Any:
    def parse(text: str) -> Any:
        try:
            value = kind(text)
        except ValueError:
            value = None
        if value is None or not low <= value <= high:
            raise argparse.ArgumentTypeError(f"'{text}'; accepted: {low} to {high}")
        return value

    return parse


def parse_flags(arguments: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter,
                                     allow_abbrev=False)
    parser.add_argument("--plan", required=True, help="file of beamline-loadtest plan")
    parser.add_argument("--peer", required=True, choices=PEERS)
    parser.add_argument("--url", help="of the server: http://HOST:PORT/v1 (openai), http://HOST:PORT (kserve), "
                        "HOST:PORT (beamline)")
    parser.add_argument("--allow-remote", action="store_true", help="loads servers on other machines too")
    parser.add_argument("--model", action="append", default=[], metavar="NAME",
                        help="the peer's name of the model, or its folder (transformers); OURS=THEIRS for that of one model "
                        "of the plan; repeatable; default: the plan's name")
    parser.add_argument("--mapping", help="kserve: JSON file that says how requests become tensors or fields")
    parser.add_argument("--device", default="cpu", choices=("cpu", "cuda"), help="transformers")
    parser.add_argument("--dtype", default="float32", choices=("float32", "bfloat16", "float16"), help="transformers")
    parser.add_argument("--batch", type=positive(int, 1, 4096), default=1,
                        help="transformers: requests that are served together, at most; default 1")
    parser.add_argument("--threads", type=positive(int, 1, 1024), help="transformers: of torch; default: its own")
    parser.add_argument("--timeout", type=positive(float, 0.001, 3600), help="s, of one request; default: the plan's")
    parser.add_argument("--drain", type=positive(float, 0, 3600), help="s for the last answers; default: the plan's")
    parser.add_argument("--max-in-flight", type=positive(int, 1, 1_000_000), default=10_000,
                        help="open requests at which the sender waits; default 10000")
    for name, what in (("ttft", "the time to the first token"), ("itl", "a request's mean time between tokens"),
                       ("e2e", "the whole request's time")):
        parser.add_argument(f"--slo-{name}-ms", type=positive(float, 0, 1e9), help=f"goodput: limit of {what}")
    parser.add_argument("--expect-code", action="append", default=[], metavar="CODE",
                        help="an error code that is no failure, such as HTTP_429 under overload; repeatable")
    parser.add_argument("--label", default="", help="name of the run in reports")
    parser.add_argument("--json", help="writes the result to this file")
    return parser.parse_args(arguments)


def allow_many_connections() -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != hard:
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


async def replay(plan: Plan, peer: Peer, recorder: Recorder, limits: Limits) -> bool:
    """Whether SIGINT ended it early, with what was done so far recorded."""
    jobs = prepare(plan, peer)
    try:
        await peer.open()
        run = Replay(peer, recorder, limits)
        interrupted = []

        def interrupt() -> None:
            asyncio.get_running_loop().remove_signal_handler(signal.SIGINT)
            interrupted.append(True)
            run.stop()

        asyncio.get_running_loop().add_signal_handler(signal.SIGINT, interrupt)
        await run.run(jobs)
    finally:
        await peer.close()
    return bool(interrupted)


def check_writable(path: str | None) -> None:
    if not path:
        return
    folder = os.path.dirname(path) or "."
    if os.path.isdir(path) or not os.path.isdir(folder) or not os.access(path if os.path.exists(path) else folder, os.W_OK):
        raise PlanError(f"--json is '{path}'; accepted: a file that can be written")


def run_load(options: argparse.Namespace) -> bool:
    """Whether all went well."""
    check_writable(options.json)
    peer = make_peer(options)
    plan = read_plan(options.plan)
    recorder = Recorder(plan.classes, Slo(options.slo_ttft_ms, options.slo_itl_ms, options.slo_e2e_ms), plan.warmup_ns())
    limits = Limits(plan.timeout_s if options.timeout is None else options.timeout,
                    plan.drain_s if options.drain is None else options.drain, options.max_in_flight)
    allow_many_connections()
    sys.setswitchinterval(0.0005)  # s; the thread that keeps the times must not wait for the others
    environment = {"date": utc_date(), "command": shlex.join(sys.argv), "machine": describe_machine(),
                   "target": options.url or options.device,
                   "models": [f"{own or 'all'}: {name}" for own, name in read_models(options.model).items()],
                   "versions": {"python": platform.python_version(), **peer.versions()}}
    interrupted = asyncio.run(replay(plan, peer, recorder, limits))
    result = recorder.to_json(options.label, environment, plan.load, plan.asked_per_s, interrupted)
    print(describe(result))
    if options.json:
        try:
            write_result(result, options.json)
        except OSError as error:
            raise PlanError(f"--json is '{options.json}': {error.strerror}") from error
    expected = sum(result["total"]["codes"].get(code, 0) for code in set(options.expect_code))
    return bool(result["total"]["errors"] <= expected)


def main() -> int:
    try:
        return 0 if run_load(parse_flags(sys.argv[1:])) else 1
    except PlanError as error:
        print(f"peer_load: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:  # before the run
        return 130


if __name__ == "__main__":
    sys.exit(main())

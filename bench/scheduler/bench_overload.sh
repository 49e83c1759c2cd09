#!/usr/bin/env bash
# What a server does with more than it carries, on this machine's CPU: docs/results/DATE-overload-cpu.{md,json}. Under 6
# minutes on 2 cores once it is built, 12 with `--clients 100 --fair-loads 1.15,3,10 --greedy`; nothing else should run meanwhile.
# usage: bench/scheduler/bench_overload.sh [OPTIONS OF bench/scheduler/bench_overload.py]
set -euo pipefail
cd "$(dirname "$0")/../.."

scripts/install_packages.sh --build
cmake --preset release
cmake --build build/release -j "$(nproc)" --target beamline-server beamline-loadtest rpc_echo_server
mkdir -p docs/results
bench/scheduler/bench_overload.py --echo build/release/bench/rpc/rpc_echo_server --out "docs/results/$(date +%F)-overload-cpu" "$@"

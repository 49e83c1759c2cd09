#!/usr/bin/env bash
# What a call costs beside the engine's work, on this machine's CPU: docs/results/DATE-rpc-cpu.{md,json}. Some 6 minutes
# once it is built; nothing else should run meanwhile.
# usage: bench/rpc/bench_rpc.sh [OPTIONS OF bench/rpc/bench_rpc.py]
set -euo pipefail
cd "$(dirname "$0")/../.."

scripts/install_packages.sh --build
cmake --preset release -DBEAMLINE_BUILD_BENCHMARKS=ON
cmake --build build/release -j "$(nproc)" --target beamline-server beamline-loadtest rpc_bench rpc_echo_server
mkdir -p docs/results
bench/rpc/bench_rpc.py --server build/release/server/beamline-server --echo-server build/release/bench/rpc/rpc_echo_server \
  --bench build/release/bench/rpc/rpc_bench --loadtest build/release/loadtest/beamline-loadtest \
  --out "docs/results/$(date +%F)-rpc-cpu" "$@"

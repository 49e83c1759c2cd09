#!/usr/bin/env bash
# The scheduler's figures on this machine's CPU: docs/results/DATE-scheduler-cpu.{md,json}. Under 8 minutes on 2 cores
# once it is built; nothing else should run meanwhile.
# usage: bench/scheduler/bench_scheduler.sh [OPTIONS OF bench/scheduler/bench_scheduler.py]
set -euo pipefail
cd "$(dirname "$0")/../.."

scripts/install_packages.sh --build --test
cmake --preset release -DBEAMLINE_BUILD_TESTS=ON
cmake --build build/release -j "$(nproc)" --target beamline-server beamline-loadtest beam_memory_test
mkdir -p docs/results
bench/scheduler/bench_scheduler.py --server build/release/server/beamline-server \
  --loadtest build/release/loadtest/beamline-loadtest --memory-test build/release/tests/engine/beam_memory_test \
  --out "docs/results/$(date +%F)-scheduler-cpu" "$@"

#!/usr/bin/env bash
# Beamline next to PyTorch and CTranslate2 on this machine's CPU: docs/results/DATE-peers-cpu.{json,md}.
# usage: PYTHON=venv/bin/python bench/peers/bench_cpu.sh [OPTIONS OF bench/peers/main.py]
# PYTHON needs: pip install torch transformers ctranslate2 sentencepiece. About 15 minutes on 2 cores.
set -euo pipefail
cd "$(dirname "$0")/../.."

python=${PYTHON:-python3}
"$python" -c 'import ctranslate2, sentencepiece, torch, transformers' || {
  echo "bench_cpu: $python lacks a peer; set PYTHON (see the head of $0)" >&2
  exit 1
}
scripts/install_packages.sh --build --test
cmake --preset release -DBEAMLINE_BUILD_BENCHMARKS=ON
cmake --build build/release -j "$(nproc)" --target beamline-bench
mkdir -p docs/results
"$python" bench/peers/main.py --beamline "$(find build/release -name beamline-bench -type f)" \
  --out "docs/results/$(date +%F)-peers-cpu" "$@"

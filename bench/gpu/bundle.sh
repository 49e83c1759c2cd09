#!/usr/bin/env bash
# Sourced by gpu_run.sh, gpu_models.sh, gpu_ladders.sh and gpu_peers.sh, which have set `output` and the folder that they lie in,
# `bundle` (scripts/gpu_bundle.sh): makes it ready to run. Where the script lies in a checkout it has set `needed`, the
# programs that it runs: they come from the build folder BUILD, or are built in build/cuda. Sets
#   python         PYTHON, or python3
#   scratch        a folder that the caller removes
#   programs       a folder of the bundle's programs, each of which finds its libraries; Python has its own
#   result         how result files of this day and GPU are named: "$(result operators)" is 2026-11-22-operators-h200
# and writes what this machine is to $output/machine.txt.
python=${PYTHON:-python3}
mkdir -p "$output"
if [[ -n ${needed:-} ]]; then
  source_folder=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
  build=$(realpath -m "${BUILD:-$source_folder/build/cuda}")
  if [[ -z ${BUILD:-} ]]; then
    (cd "$source_folder" && cmake --preset cuda && cmake --build --preset cuda --target beamline_cuda "${needed[@]}") \
      >"$output/build.log" 2>&1 || { tail -n 20 "$output/build.log"; exit 1; }
  fi
  mapfile -t binaries < <(for name in "${needed[@]}"; do find "$build/bench" -type f -executable -name "$name" 2>/dev/null; done)
  if [[ ${#binaries[@]} != "${#needed[@]}" ]]; then
    echo "$build has not all of ${needed[*]}: its build is without BEAMLINE_CUDA, or without BEAMLINE_BUILD_BENCHMARKS" >&2
    exit 1
  fi
  module=$build/kernels/cuda/libbeamline_cuda.so
  commit=$(git -C "$source_folder" rev-parse --short HEAD)
else
  if [[ ! -d $bundle/lib ]]; then
    "$python" -c "import sys, tarfile; tarfile.open(sys.argv[1]).extractall(sys.argv[2])" \
      "$bundle/payload.tar.xz" "$bundle" 2>/dev/null
  fi
  binaries=("$bundle"/bin/*)
  module=$bundle/lib/libbeamline_cuda.so
  commit=$(cat "$bundle/commit")
fi

# cuBLASLt comes with the toolkit or with a Python package.
cublas=$(find /usr/local/cuda/lib64 /usr/local/cuda/targets /opt /usr/lib -name 'libcublasLt.so.13' \
  -print -quit 2>/dev/null)
libraries="$bundle/lib:$(dirname "${cublas:-/nonexistent/x}")${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}"
scratch=$(mktemp -d)
programs=$scratch/programs
mkdir "$programs"
for program in "${binaries[@]}"; do
  printf '#!/bin/sh\nLD_LIBRARY_PATH="%s" exec "%s" "$@"\n' "$libraries" "$program" \
    >"$programs/$(basename "$program")"
done
chmod +x "$programs"/*
export BEAMLINE_CUDA_MODULE=${BEAMLINE_CUDA_MODULE:-$module} PYTHONUNBUFFERED=1

{
  date -u +%FT%RZ
  nvidia-smi --query-gpu=name,driver_version,memory.total --format=csv,noheader
  "$python" -c 'import torch, transformers; print("torch", torch.__version__, "transformers", transformers.__version__)'
  echo "commit $commit"
  echo "cuBLASLt ${cublas:-none}"
} 2>/dev/null | tee "$output/machine.txt"

# "NVIDIA H200" is h200; without a GPU it is the CPU that a dry run takes.
gpu=$(nvidia-smi --query-gpu=name --format=csv,noheader 2>/dev/null | head -n 1 | awk '{print tolower($2)}')
result() { echo "$(date -u +%F)-$1-${gpu:-cpu}"; }

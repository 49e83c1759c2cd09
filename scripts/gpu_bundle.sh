#!/usr/bin/env bash
# Collects what scripts/gpu_lane.py and the scripts of bench/gpu need on another machine: the GPU tests and benchmarks,
# the server, the CUDA backend and the shared libraries that a bare distribution lacks, compressed; the runners
# themselves, and what they call as the folder tools.
#
#   scripts/gpu_bundle.sh BUILD_FOLDER BUNDLE_FOLDER [EXTRA_BINARY ...]
#
# ONLY, a regular expression, packs the binaries that match alone; XZ_OPT sets how hard to compress.
set -euo pipefail

build=$1
bundle=$2
shift 2
source_folder=$(cd "$(dirname "$0")/.." && pwd)

binaries=()
targets=(beamline_cuda) # no program links to it
for name in tests/gpu/cuda_op_test tests/gpu/cuda_half_op_test tests/gpu/cuda_library_test \
  tests/gpu/cuda_peer_test tests/gpu/cuda_communication_test tests/gpu/gpu_ranks_test tests/kernels/cuda_loader_test bench/kernels/cuda_op_bench \
  bench/kernels/cuda_library_bench bench/kernels/cuda_all_reduce_bench \
  tests/engine/engine_golden_test tests/engine/transformer/demo_models_test \
  tests/engine/transformer/random_models_test tests/engine/classify_golden_test tests/server/classify_tokens_golden_test tests/server/fill_mask_golden_test bench/gpu/model_probe \
  tests/engine/engine_deterministic_test tests/engine/reduced_precision_test tests/engine/transformer/stream_scale_test tests/engine/chrf_test bench/engine/beamline-bench \
  tests/server/server_model_churn_test server/beamline-server loadtest/beamline-loadtest; do
  if [[ ! $name =~ ${ONLY:-.} ]]; then continue; fi
  binaries+=("$build/$name")
  targets+=("${name##*/}")
done
# What an earlier build left may be of other sources.
if ! cmake --build "$build" --target "${targets[@]}"; then
  printf '%s must be a build with tests, benchmarks, BEAMLINE_CUDA and no BEAMLINE_JOINED_TESTS\n' "$build" >&2
  exit 1
fi
binaries+=("$@")
rm -rf "$bundle"
mkdir -p "$bundle/bin" "$bundle/lib"
cp "${binaries[@]}" "$bundle/bin/"
cp "$build/kernels/cuda/libbeamline_cuda.so" "$bundle/lib/"
if [[ -e $build/tests/gpu/libbreak_gpu.so ]]; then cp "$build/tests/gpu/libbreak_gpu.so" "$bundle/lib/"; fi
strip "$bundle"/bin/* "$bundle"/lib/*
cp "$source_folder"/bench/gpu/gpu_{run,models,ladders}.sh "$source_folder"/scripts/gpu_{peers.sh,lane.py} "$bundle/"
mkdir "$bundle/tools"
cp "$source_folder"/bench/gpu/*.py "$source_folder/bench/gpu/bundle.sh" "$bundle/tools/"
git -C "$source_folder" rev-parse --short HEAD >"$bundle/commit"

# The C library and its kin come from the other machine, which must be at least as new; cuBLASLt from
# its CUDA toolkit.
ldd "${binaries[@]}" "$build/kernels/cuda/libbeamline_cuda.so" |
  awk '$2 == "=>" && $3 ~ /^\// {print $3}' | sort -u |
  grep -vE '/(libc|libm|libpthread|librt|libdl|ld-linux[^/]*|libstdc\+\+|libgcc_s|libcublasLt|libcublas)\.so' |
  xargs -I{} cp -L {} "$bundle/lib/"
strip --strip-unneeded "$bundle"/bin/* "$bundle"/lib/* 2>/dev/null || true
tar -C "$bundle" -cJf "$bundle/payload.tar.xz" bin lib
rm -r "${bundle:?}/bin" "${bundle:?}/lib"
echo "$source_folder" >"$bundle/source_folder"
du -sh "$bundle"

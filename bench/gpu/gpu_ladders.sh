#!/usr/bin/env bash
# Measures the ladders of bench/gpu/ladders.py on a machine with an NVIDIA GPU, in one run: products with their epilogues,
# softmax, GPT-2's attention, BERT by batch, translation by length. Writes OUTPUT_FOLDER/DATE-ladders-GPU.{json,md,png}.
#
#   gpu_ladders.sh OUTPUT_FOLDER        ONLY, a regular expression, chooses ladders
#
# Runs from the bundle of scripts/gpu_bundle.sh; python3 must have torch, transformers and triton.
set -uo pipefail

output=$1
bundle=$(cd "$(dirname "$0")" && pwd)
. "$bundle/tools/bundle.sh"
trap 'rm -rf "$scratch"' EXIT
checkpoints=$scratch/checkpoints

timeout 200 "$programs/cuda_library_bench" "$output/library.json" >"$output/library.log" 2>&1 ||
  tail -n 5 "$output/library.log"
"$python" "$bundle/tools/make_checkpoints.py" "$checkpoints" bert-base gpt2-124m transformer-base >"$output/checkpoints.log" 2>&1
timeout 400 "$python" "$bundle/tools/ladders.py" --bin "$programs" --models "$checkpoints" --lines "$output/library.json" \
  --only "${ONLY:-}" --out "$output/$(result ladders).json" 2>"$output/ladders.err"
status=$?
grep -vE 'Warning|warn' "$output/ladders.err" | tail -n 5
exit $status

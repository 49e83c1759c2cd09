#!/usr/bin/env bash
# Sets Beamline beside its peers on a machine with an NVIDIA GPU, row by row of the speed targets, in one run: ours, the
# best peer, how many times as fast, and the part of this GPU's ceiling. Writes OUTPUT_FOLDER/DATE-peers-GPU.json, a page
# of it (.md, .png), and a table.
#
#   gpu_peers.sh OUTPUT_FOLDER [operators|library|models ...]      (default: all)
#
# Runs in a checkout, where it builds what it measures (BUILD names a build folder that has it), or from a bundle of
# scripts/gpu_bundle.sh; python3 (PYTHON) must have torch, transformers and triton. The steps choose whose rows: operators
# those of cuda_op_bench, library the softmax of cuda_library_bench, models whole models through the engine. ONLY, a
# regular expression, chooses rows; REPEAT (default 2) how often each is measured.
set -uo pipefail

output=${1:?OUTPUT_FOLDER is missing: gpu_peers.sh OUTPUT_FOLDER [operators|library|models ...]}
shift
steps=("$@")
if [[ ${#steps[@]} == 0 ]]; then steps=(operators library models); fi
if ! nvidia-smi -L >/dev/null 2>&1; then
  echo "no NVIDIA GPU (nvidia-smi -L shows none): nothing to measure" >&2
  exit 1
fi
if ! "${PYTHON:-python3}" -c 'import torch, transformers' 2>/dev/null; then
  echo "${PYTHON:-python3} has not the peers, torch and transformers: name a Python that has by PYTHON" >&2
  exit 1
fi
bundle=$(cd "$(dirname "$0")" && pwd)
tools=$bundle/tools
if [[ ! -d $tools ]]; then
  tools=$bundle/../bench/gpu
  # shellcheck disable=SC2034  # bundle.sh's
  needed=(cuda_op_bench cuda_library_bench beamline-bench)
fi
. "$tools/bundle.sh"
trap 'rm -rf "$scratch"' EXIT
repeat=${REPEAT:-2}
checkpoints=$scratch/checkpoints

# The lines that have peers. "No such row" keeps the other kind out where it is not asked for.
operators='prefill( in place| paged)? bfloat16: B[0-9]+ H|decode bfloat16: B(1|32) H(64|32|28|12)/'
operators+='|12288 x 768 x 50|32768 x 768 x 3072|square'
operators+='|4096 x 14336|norm \+ residual|candidates: (256|64) x 3'
only='no such row'
arguments=()
add() { only+="|$1"; }
for step in "${steps[@]}"; do
  case $step in
    operators | library)
      program=cuda_op_bench
      if [[ $step == library ]]; then program=cuda_library_bench; fi
      for ((i = 1; i <= repeat; ++i)); do
        timeout 200 "$programs/$program" "$output/$step$i.json" "$operators" >"$output/$step$i.log" 2>&1 ||
          tail -n 5 "$output/$step$i.log"
        if [[ -s $output/$step$i.json ]]; then arguments+=(--lines "$output/$step$i.json"); fi
      done
      if [[ $step == library ]]; then add '^softmax'; else add '^(attention|matmul|layer norm|top)'; fi
      ;;
    models)
      "$python" "$tools/make_checkpoints.py" --jobs 4 "$checkpoints" bert-base gpt2-124m transformer-base transformer-big \
        >"$output/checkpoints.log" 2>&1
      add '^(encode|write|translate)'
      ;;
    *)
      echo "$step: unknown step"
      exit 1
      ;;
  esac
done
timeout 1500 "$python" "$tools/peers.py" --bin "$programs" --models "$checkpoints" --repeat "$repeat" \
  --only "${ONLY:-$only}" --out "$output/$(result peers).json" "${arguments[@]}" 2>"$output/peers.err" |
  tee "$output/table.txt"
status=$?
grep -vE 'Warning|warn' "$output/peers.err" | tail -n 5
exit $status

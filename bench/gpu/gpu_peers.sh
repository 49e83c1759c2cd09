#!/usr/bin/env bash
# Sets Beamline beside its peers on a machine with an NVIDIA GPU, row by row of the speed targets, in one run: ours, the
# best peer, how many times as fast, and the part of this GPU's ceiling. Writes OUTPUT_FOLDER/DATE-peers-GPU.json, a page
# of it (.md, .png), and a table.
#
#   gpu_peers.sh OUTPUT_FOLDER [operators|library|models ...]      (default: all)
#
# Runs from the bundle of scripts/gpu_bundle.sh; python3 must have torch, transformers and triton. The steps choose
# whose rows: operators those of cuda_op_bench, library the softmax of cuda_library_bench, models whole models
# through the engine. ONLY, a regular expression, chooses rows; REPEAT (default 2) how often each is measured.
set -uo pipefail

output=$1
shift
steps=("$@")
if [[ ${#steps[@]} == 0 ]]; then steps=(operators library models); fi
bundle=$(cd "$(dirname "$0")" && pwd)
. "$bundle/tools/bundle.sh"
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
      "$python" "$bundle/tools/make_checkpoints.py" "$checkpoints" >"$output/checkpoints.log" 2>&1
      add '^(encode|write|translate)'
      ;;
    *)
      echo "$step: unknown step"
      exit 1
      ;;
  esac
done
timeout 500 "$python" "$bundle/tools/peers.py" --bin "$programs" --models "$checkpoints" --repeat "$repeat" \
  --only "${ONLY:-$only}" --out "$output/$(result peers).json" "${arguments[@]}" 2>"$output/peers.err" |
  tee "$output/table.txt"
status=$?
grep -vE 'Warning|warn' "$output/peers.err" | tail -n 5
exit $status

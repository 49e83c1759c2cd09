#!/usr/bin/env bash
# Sets Beamline beside its peers on a machine with an NVIDIA GPU, row by row of the speed targets, in one run: ours, the
# best peer, how many times as fast, and the part of this GPU's ceiling. Writes peers.json, a page of it
# (peers.md, peers.png), and a table.
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
python=${PYTHON:-python3}
repeat=${REPEAT:-2}
mkdir -p "$output"
if [[ ! -d $bundle/lib ]]; then
  "$python" -c "import sys, tarfile; tarfile.open(sys.argv[1]).extractall(sys.argv[2])" \
    "$bundle/payload.tar.xz" "$bundle" 2>/dev/null
fi

# cuBLASLt comes with the toolkit or with a Python package. The programs alone see these libraries:
# Python has its own.
cublas=$(find /usr/local/cuda/lib64 /usr/local/cuda/targets /opt /usr/lib -name 'libcublasLt.so.13' \
  -print -quit 2>/dev/null)
libraries="$bundle/lib:$(dirname "${cublas:-/nonexistent/x}")${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}"
programs=$(mktemp -d)
checkpoints=$(mktemp -d)
trap 'rm -rf "$programs" "$checkpoints"' EXIT
for program in "$bundle"/bin/*; do
  printf '#!/bin/sh\nLD_LIBRARY_PATH="%s" exec "%s" "$@"\n' "$libraries" "$program" \
    >"$programs/$(basename "$program")"
done
chmod +x "$programs"/*
export BEAMLINE_CUDA_MODULE=${BEAMLINE_CUDA_MODULE:-$bundle/lib/libbeamline_cuda.so} PYTHONUNBUFFERED=1

{
  date -u +%FT%RZ
  nvidia-smi --query-gpu=name,driver_version,memory.total --format=csv,noheader
  echo "commit $(cat "$bundle/commit")"
} 2>/dev/null | tee "$output/machine.txt"

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
  --only "${ONLY:-$only}" --out "$output/peers.json" "${arguments[@]}" 2>"$output/peers.err" |
  tee "$output/table.txt"
status=$?
grep -vE 'Warning|warn' "$output/peers.err" | tail -n 5
exit $status

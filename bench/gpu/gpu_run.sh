#!/usr/bin/env bash
# Measures the operators with the bundle of scripts/gpu_bundle.sh on a machine with an NVIDIA GPU and ends with a
# table of what ended well; the exit status is 1 when something did not. Whether the operators are right is
# scripts/gpu_lane.py's to show.
#
#   gpu_run.sh OUTPUT_FOLDER [bench|library-bench ...]      (default: bench)
#
# OUTPUT_FOLDER gets DATE-cuda-operators-GPU.json of bench, and DATE-cuda-matmul-softmax-GPU.json of library-bench,
# which measures what the CUDA operators offer past the backend, beside PyTorch's; and the logs.
set -uo pipefail

output=$1
shift
steps=("$@")
if [[ ${#steps[@]} == 0 ]]; then steps=(bench); fi
bundle=$(cd "$(dirname "$0")" && pwd)
. "$bundle/tools/bundle.sh"
trap 'rm -rf "$scratch"' EXIT

table=()
failed=0
run() {  # NAME COMMAND...: records the exit status and keeps the log
  local name=$1 begin=$SECONDS status=0
  shift
  "$@" >"$output/$name.log" 2>&1 || status=$?
  table+=("$(printf '%-28s exit %-4s %4ss' "$name" "$status" "$((SECONDS - begin))")")
  if [[ $status != 0 ]]; then
    failed=1
    tail -n 30 "$output/$name.log"
  fi
}

for step in "${steps[@]}"; do
  case $step in
    bench)
      run bench timeout 240 "$programs/cuda_op_bench" "$output/$(result cuda-operators).json"
      grep -E ' us ' "$output/bench.log"
      ;;
    library-bench)
      run library_bench timeout 200 "$programs/cuda_library_bench" "$scratch/library.json"
      run torch_operators timeout 200 "$python" "$bundle/tools/compare_torch_operators.py" \
        "$scratch/library.json" "$output/$(result cuda-matmul-softmax).json"
      cat "$output/torch_operators.log"
      ;;
    *)
      table+=("$step: unknown step")
      failed=1
      ;;
  esac
done

(cd "$output" && tar -czf logs.tgz --remove-files -- ./*.log)
printf '%s\n' "${table[@]}" | tee "$output/table.txt"
exit $failed

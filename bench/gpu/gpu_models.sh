#!/usr/bin/env bash
# Shows on a machine with an NVIDIA GPU that whole models are right there, and how fast they are: the
# demo models' golden files in float32, float16 and bfloat16; 1,000 requests over gRPC; models of
# well-known sizes next to transformers; timings next to PyTorch. Ends with a table of what passed; the exit status is
# 1 when something failed or was skipped. (scripts/gpu_lane.py runs the first three among all that shows correctness.)
#
#   gpu_models.sh OUTPUT_FOLDER [golden|load|parity|timing ...]      (default: all)
#
# Runs from the bundle of scripts/gpu_bundle.sh, in the repository as the working folder; python3 must
# have torch and transformers. DEVICE=cpu QUICK=1 is a dry run on small models.
set -uo pipefail

output=$1
shift
steps=("$@")
if [[ ${#steps[@]} == 0 ]]; then steps=(golden load parity timing); fi
bundle=$(cd "$(dirname "$0")" && pwd)
. "$bundle/tools/bundle.sh"
trap 'rm -rf "$scratch"' EXIT
device=${DEVICE:-cuda}
export BEAMLINE_TEST_DEVICE=$device

# The tests find the models and the golden files where they were built.
source_folder=$(cat "$bundle/source_folder")
if [[ ! -e $source_folder ]]; then
  mkdir -p "$(dirname "$source_folder")"
  ln -s "$PWD" "$source_folder"
fi

table=()
failed=0
run() {  # NAME PATTERN COMMAND...: keeps the log; the last lines that match go to the table
  local name=$1 pattern=$2 begin=$SECONDS status=0
  shift 2
  "$@" >"$output/$name.log" 2>&1 || status=$?
  table+=("$(printf '%-20s exit %-4s %4ss  %s' "$name" "$status" "$((SECONDS - begin))" \
    "$(grep -E "$pattern" "$output/$name.log" | tail -2 | tr -s ' ' | tr '\n' ' ' | cut -c1-200)")")
  if [[ $status != 0 ]] || grep -q '^\[  SKIPPED ' "$output/$name.log"; then
    failed=1
    tail -n 30 "$output/$name.log"
  fi
}

gtest='^\[  (PASSED|FAILED|SKIPPED) '
checkpoints=$scratch/checkpoints
make_checkpoints() {
  if [[ -e $checkpoints/made ]]; then return; fi
  mkdir -p "$checkpoints"
  run checkpoints parameters "$python" "$bundle/tools/make_checkpoints.py" "$checkpoints" ${QUICK:+--tiny}
  touch "$checkpoints/made"
}
for step in "${steps[@]}"; do
  case $step in
    golden)
      run golden_float32 "$gtest" timeout 100 "$programs/engine_golden_test"
      run golden_forward "$gtest" timeout 60 "$programs/demo_models_test"
      run random_forward "$gtest" timeout 60 "$programs/random_models_test"
      run golden_half "$gtest" timeout 200 "$programs/reduced_precision_test" \
        "--gtest_output=json:$output/golden_half.json"
      grep -E '^b?float16 ' "$output/golden_half.log"
      ;;
    load)
      run load '^load' timeout 150 "$python" "$bundle/tools/load.py" --bin "$programs" --models models \
        --workload bench/workloads/soak.yaml --device "$device" --out "$output/load.json"
      ;;
    parity)
      make_checkpoints
      types=float32,float16,bfloat16
      if [[ $device == cpu ]]; then types=float32,bfloat16; fi
      run parity '^parity|FAILED' timeout 220 "$python" "$bundle/tools/parity.py" --bin "$programs" \
        --models "$checkpoints" --device "$device" --dtypes "$types" --out "$output/parity.json"
      grep -E 'relative error|greedy:|beam 4' "$output/parity.log"
      ;;
    timing)
      make_checkpoints
      run timing '^timing' timeout 300 "$python" "$bundle/tools/timing.py" --bin "$programs" \
        --models "$checkpoints" --device "$device" ${QUICK:+--quick} --out "$output/timing.json"
      grep -E 'tok/s' "$output/timing.log"
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

#!/usr/bin/env bash
# Runs the bundle of scripts/gpu_bundle.sh on a machine with an NVIDIA GPU and ends with a table of
# what passed. Logs and measurements go to a folder.
#
#   gpu_run.sh OUTPUT_FOLDER [test|library|golden|sanitize|library-sanitize|bench|library-bench ...]
#
# Default: test bench. The library steps are those of what the CUDA operators offer past the backend.
#
# golden runs the demo models on the GPU and wants the repository as the working folder.
set -uo pipefail

output=$1
shift
steps=("$@")
if [[ ${#steps[@]} == 0 ]]; then steps=(test bench); fi
bundle=$(cd "$(dirname "$0")" && pwd)
mkdir -p "$output"
if [[ ! -d $bundle/lib ]]; then
  python3 -c "import sys, tarfile; tarfile.open(sys.argv[1]).extractall(sys.argv[2])" \
    "$bundle/payload.tar.xz" "$bundle" 2>/dev/null
fi

# cuBLASLt comes with the toolkit or with a Python package.
cublas=$(find /usr/local/cuda/lib64 /usr/local/cuda/targets /opt /usr/lib -name 'libcublasLt.so.13' \
  -print -quit 2>/dev/null)
LD_LIBRARY_PATH="$bundle/lib:$(dirname "${cublas:-/nonexistent/x}")${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}"
export LD_LIBRARY_PATH
export BEAMLINE_CUDA_MODULE="$bundle/lib/libbeamline_cuda.so"
# What these compare needs equal bits in every batch, which cuBLASLt does not give.
same_bits='*RowsDoNotDependOnTheirBatch*:*SequencesDoNotDependOnTheirBatch*:*ChunkedPrefillGivesTheSameBits*'

{
  date -u
  nvidia-smi --query-gpu=name,driver_version,memory.total,clocks.sm,clocks.mem --format=csv
  uname -r
  echo "cuBLASLt: ${cublas:-none}"
} | tee "$output/machine.txt"

table=()
run() {  # NAME COMMAND...: records the exit status and keeps the log
  local name=$1 begin=$SECONDS status=0
  shift
  "$@" >"$output/$name.log" 2>&1 || status=$?
  table+=("$(printf '%-28s exit %-4s %4ss  %s' "$name" "$status" "$((SECONDS - begin))" \
    "$(grep -E '^\[  (PASSED|FAILED|SKIPPED) |tests ran|ERROR SUMMARY|RACECHECK SUMMARY' "$output/$name.log" |
      tr -s ' ' | tr '\n' ' ' | cut -c1-220)")")
  if [[ $status != 0 ]]; then grep -E 'Failure|error|Error|CHECK|Which|tolerance|=====' -A3 "$output/$name.log" | head -40; fi
}

sanitizer=$(command -v compute-sanitizer || echo /usr/local/cuda/bin/compute-sanitizer)
for step in "${steps[@]}"; do
  case $step in
    test)
      run loader timeout 60 "$bundle/bin/cuda_loader_test"
      run half_ops timeout 200 "$bundle/bin/cuda_half_op_test"
      run ops timeout 240 "$bundle/bin/cuda_op_test" "--gtest_filter=-$same_bits"
      ;;
    library)
      run library timeout 240 "$bundle/bin/cuda_library_test"
      ;;
    golden)
      # The tests find the models and the golden files where they were built.
      source_folder=$(cat "$bundle/source_folder")
      if [[ ! -e $source_folder ]]; then
        mkdir -p "$(dirname "$source_folder")"
        ln -s "$PWD" "$source_folder"
      fi
      run golden_transformer timeout 100 "$bundle/bin/demo_models_test"
      run golden_random timeout 60 "$bundle/bin/random_models_test"
      run golden_engine timeout 200 "$bundle/bin/engine_golden_test"
      ;;
    sanitize)
      # A GPU under the sanitizer runs ten to a hundred times slower: the small cases.
      for tool in memcheck racecheck; do
        run "${tool}_half" timeout 150 "$sanitizer" --tool $tool --error-exitcode 9 \
          "$bundle/bin/cuda_half_op_test" \
          '--gtest_filter=*Norm*/*float16:*Embed*/*float16:*Pools*/*float16:*Heads*/*float16:*Overlap*/float16'
        run "${tool}_attention" timeout 150 "$sanitizer" --tool $tool --error-exitcode 9 \
          "$bundle/bin/cuda_half_op_test" '--gtest_filter=*CrossAttention*/float16:*CrossAttention*/float32:*LargeScores*/bfloat16:*DoesNotDependOnItsBatch/float16:*MiddlingContexts*/bfloat16'
        # Products of few rows, and what goes before and after those of cuBLASLt.
        run "${tool}_matmul" timeout 200 "$sanitizer" --tool $tool --error-exitcode 9 \
          "$bundle/bin/cuda_half_op_test" \
          '--gtest_filter=*MatMulWithEveryEpilogue/float16:*MatMulWithEveryEpilogue/float32'
        # Vocabularies of real models take minutes there.
        run "${tool}_choice" timeout 200 "$sanitizer" --tool $tool --error-exitcode 9 \
          "$bundle/bin/cuda_op_test" \
          '--gtest_filter=*Candidates*:*FiltersALargeVocabulary*:*NeverDraws*:*FillTokens*:*Replay*:*BeamOp*:-*RealVocabularies*'
        # One recording test makes a refused call on purpose.
        run "${tool}_moves" timeout 150 "$sanitizer" --tool $tool --error-exitcode 9 \
          "$bundle/bin/cuda_library_test" \
          '--gtest_filter=*CopyTest.*/float16:*CopyTest.*/float32:RecorderTest.*:DeviceTest.*:-*RunsWhatCannotBeRecorded*'
      done
      ;;
    library-sanitize)
      for tool in memcheck racecheck; do
        run "${tool}_softmax" timeout 100 "$sanitizer" --tool $tool --error-exitcode 9 \
          "$bundle/bin/cuda_library_test" \
          '--gtest_filter=*EveryWidth*/float16:*ReadTwice*/bfloat16:*InPlace*/float32:*WithoutASum*/float16'
        run "${tool}_products" timeout 100 "$sanitizer" --tool $tool --error-exitcode 9 \
          "$bundle/bin/cuda_library_test" \
          '--gtest_filter=*LtMatMulTest.AddsToItsOutput/float16:*StridedBatch*/bfloat16:*GroupOfUnequal*/float16:QueryScale*:*Float8*'
        # No kernel of cuBLASLt is in the first three.
        run "${tool}_gradients" timeout 100 "$sanitizer" --tool $tool --error-exitcode 9 \
          "$bundle/bin/cuda_library_test" \
          '--gtest_filter=*ColumnSums*/float16:*PassOfTheirOwn*/bfloat16:*PassOfTheirOwn*/float32:*LtSumsTest.AddsToItsOutput/float16'
      done
      ;;
    bench)
      run bench timeout 240 "$bundle/bin/cuda_op_bench" "$output/operators.json"
      grep -E ' us ' "$output/bench.log"
      ;;
    library-bench)
      run library_bench timeout 200 "$bundle/bin/cuda_library_bench" "$output/library.json"
      # PyTorch brings its own CUDA libraries.
      run torch_operators timeout 200 env -u LD_LIBRARY_PATH python3 \
        "$bundle/compare_torch_operators.py" "$output/library.json" "$output/library_and_torch.json"
      cat "$output/torch_operators.log"
      ;;
    *)
      table+=("$step: unknown step")
      ;;
  esac
done

(cd "$output" && tar -czf logs.tgz --remove-files -- ./*.log)
printf '%s\n' "${table[@]}" | tee "$output/table.txt"

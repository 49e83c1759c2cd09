#!/usr/bin/env bash
# Measures the operators with the bundle of scripts/gpu_bundle.sh on a machine with an NVIDIA GPU and ends with a
# table of what ended well; the exit status is 1 when something did not. Logs and measurements go to a folder.
# Whether the operators are right is scripts/gpu_lane.py's to show.
#
#   gpu_run.sh OUTPUT_FOLDER [bench|library-bench ...]      (default: bench)
#
# library-bench measures what the CUDA operators offer past the backend.
set -uo pipefail

output=$1
shift
steps=("$@")
if [[ ${#steps[@]} == 0 ]]; then steps=(bench); fi
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

{
  date -u
  nvidia-smi --query-gpu=name,driver_version,memory.total,clocks.sm,clocks.mem --format=csv
  uname -r
  echo "cuBLASLt: ${cublas:-none}"
} | tee "$output/machine.txt"

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
      failed=1
      ;;
  esac
done

(cd "$output" && tar -czf logs.tgz --remove-files -- ./*.log)
printf '%s\n' "${table[@]}" | tee "$output/table.txt"
exit $failed

#!/usr/bin/env bash
# All tests: release build with warnings as errors and its tests, then all but end-to-end ones under
# AddressSanitizer + UBSan, and the engine's threads under ThreadSanitizer. Unit tests that a sanitizer runs in
# full are built for it alone. Ends with "N passed, N failed".
# usage: scripts/test.sh [--fast] [--only REGEX]
#   --fast        without the sanitizer builds: every test in the release build
#   --only REGEX  only tests whose name matches; implies --fast
set -uo pipefail
cd "$(dirname "$0")/.." || exit

sanitizers=yes
filter=()
while (($# > 0)); do
  case $1 in
    --fast) sanitizers=no ;;
    --only) sanitizers=no; filter=(-R "${2:?--only needs a regular expression}"); shift ;;
    *) echo "usage: $0 [--fast] [--only REGEX]" >&2; exit 2 ;;
  esac
  shift
done

jobs=$(nproc)
slots=3 # of tests on two cores, a third of whose time is waiting (CORES of beamline_test)
passed=0
failed=0
logs=$(mktemp -d)
ahead= # what compiles beside tests
trap '[[ -z $ahead ]] || kill "$ahead" 2>/dev/null; rm -rf "$logs"' EXIT

# Of a test program that fails: its failures, not the many cases that passed before them.
export GTEST_BRIEF=1

parts=() # "NAME: N s" of what has ended
finish() {
  printf '\n'
  printf '%s\n' "${parts[@]}"
  # What ctest lists as "<number> - <name> (Failed)", (Timeout), (SEGFAULT) ...
  sed -nE 's/^\s+[0-9]+ - (\S+ \(.*\)).*$/failed: \1/p' "$logs"/* 2>/dev/null | grep -v '(Skipped)'
  printf '%d s\n%d passed, %d failed\n' "$SECONDS" "$passed" "$failed"
  ((failed == 0 && passed > 0))
  exit
}

# step NAME LIMIT_S COMMAND...: a failing step counts as one failure and ends the run.
step() {
  local name=$1 limit_s=$2 begin=$SECONDS status=0
  shift 2
  printf '\n== %s (at %d s)\n' "$name" "$SECONDS"
  timeout --kill-after=10 "$limit_s" "$@" </dev/null || status=$?
  parts+=("$name: $((SECONDS - begin)) s")
  ((status == 0)) && return
  printf '%s failed with status %d (limit %d s)\n' "$name" "$status" "$limit_s"
  failed=$((failed + 1))
  finish
}

# run_tests NAME LIMIT_S CTEST_ARGUMENTS...: adds the figures of ctest's own summary line.
run_tests() {
  local name=$1 limit_s=$2 log=$logs/$1 begin=$SECONDS
  shift 2
  printf '\n== %s tests (at %d s)\n' "$name" "$SECONDS"
  timeout --kill-after=10 "$limit_s" ctest --output-on-failure --no-tests=error --stop-time "$(date -d "+$limit_s seconds" +%T)" "$@" </dev/null 2>&1 |
    tee "$log"
  local status=${PIPESTATUS[0]} summary bad total skipped
  parts+=("$name tests: $((SECONDS - begin)) s")
  # "98% tests passed, 1 tests failed out of 50"; tests that skip themselves are neither.
  summary=$(sed -nE 's/^[0-9]+% tests passed, ([0-9]+) tests failed out of ([0-9]+)$/\1 \2/p' "$log")
  if [[ -z $summary ]]; then
    printf 'ctest printed no summary (status %d, limit %d s)\n' "$status" "$limit_s"
    failed=$((failed + 1))
    return
  fi
  read -r bad total <<<"$summary"
  skipped=$(grep -cE '\*\*\*Skipped' "$log" || true)
  passed=$((passed + total - bad - skipped))
  failed=$((failed + bad))
  # A status without a failed test: ctest itself had a problem.
  if ((status != 0 && bad == 0)); then failed=$((failed + 1)); fi
}

step "packages" 900 scripts/install_packages.sh --build --test
# The CUDA kernels for one architecture, in half the time where no GPU runs them. Two dozen sources of a
# folder compile as one, as in the sanitizers' builds, and the tests of the largest folders are one program each.
apart='base;engine;server;client;fuzz'
[[ $sanitizers == yes ]] || apart=
no_gpu=$([[ -e /dev/nvidiactl ]] && echo OFF || echo ON)
step "configure release" 120 cmake --preset release -DBEAMLINE_WARNINGS_AS_ERRORS=ON \
  -DBEAMLINE_BUILD_TESTS=ON -DBEAMLINE_BUILD_BENCHMARKS=ON -DBEAMLINE_CUDA_ARCHITECTURES=90 -DBEAMLINE_CUDA_FAST_COMPILE="$no_gpu" \
  '-DBEAMLINE_JOINED_TESTS=e2e;engine;loadtest;server' "-DBEAMLINE_TESTS_APART=$apart"
step "build release" 2400 cmake --build build/release -j "$jobs"
run_tests release 900 --test-dir build/release -j "$slots" "${filter[@]}"

if [[ $sanitizers == yes ]]; then
  export ASAN_OPTIONS=detect_stack_use_after_return=1:strict_string_checks=1
  export UBSAN_OPTIONS=print_stacktrace=1:halt_on_error=1
  export TSAN_OPTIONS="halt_on_error=1 suppressions=$PWD/tests/tsan_suppressions.txt"
  step "configure asan" 120 cmake --preset asan
  asan_parts=(base kernels engine server client fuzz)
  asan_targets=()
  for part in "${asan_parts[@]}"; do asan_targets+=("tests/$part/all"); done
  step "build asan" 1800 cmake --build build/asan -j "$jobs" --target "${asan_targets[@]}"
  # All folders' tests in one list, beside each other: their figures are no timings here.
  mkdir -p build/asan/tests/sanitized
  printf 'subdirs("../%s")\n' "${asan_parts[@]}" >build/asan/tests/sanitized/CTestTestfile.cmake
  # The code in which threads meet and that Debian's uninstrumented gRPC does not hide.
  threaded=(engine_test lifecycle_test run_ahead_test engine_soak_test scheduler_test inbox_test waiting_step_test thread_pool_test
    base_test replica_pool_test thread_communicator_test rank_group_test pipeline_test decode_threads_test job_list_test)
  step "configure tsan" 120 cmake --preset tsan
  # While tests wait the processor compiles ahead; what fails then, fails again in its own step.
  chrt --idle 0 timeout 1800 ninja -C build/tsan -j "$jobs" "${threaded[@]}" </dev/null &>/dev/null &
  ahead=$!
  run_tests asan 1800 --test-dir build/asan/tests/sanitized -j $((jobs > slots ? jobs : slots))
  kill "$ahead" 2>/dev/null
  wait "$ahead"
  ahead=
  step "build tsan" 900 cmake --build build/tsan -j "$jobs" --target "${threaded[@]}"
  run_tests tsan 900 --test-dir build/tsan -j "$slots" -R "^($(IFS='|'; echo "${threaded[*]}"))\$"
fi
finish

#!/usr/bin/env python3
"""The GPU correctness lane: everything that shows on a machine with an NVIDIA GPU that Beamline is right there.

usage: gpu_lane.py OUTPUT_FOLDER [--build FOLDER] [--module FILE] [--jobs N] [--limit SECONDS] [--within SECONDS] [--only REGEX]
                   [PART ...]

Parts (default: all but ranks): operators, the kernels against their float64 twins; sanitize, the same on small cases under
compute-sanitizer; golden, the demo models' and random models' golden files; models, a server under load and models of
well-known sizes next to transformers (python3 must have both and torch); ranks, what several GPUs compute together, on
a machine with two and NCCL.

Runs from a bundle of scripts/gpu_bundle.sh, in the repository as the working folder; --build names a build folder to
take the programs from instead. --module names another CUDA backend than the build's: one that is broken on purpose must
fail here.

A step passes when its program ends with status 0 within its limit, says how many tests it ran, that is not none, and
all of them passed: a skip is a failure, and so are a program that is missing, a finding of a sanitizer and a report
without its last line. The exit status is 0 when every step passed, and 1 otherwise; --only REGEX runs the steps whose
names match. OUTPUT_FOLDER/table.txt is written step by step, OUTPUT_FOLDER/logs.tar holds every log that is done.

Long because a bundle takes it along as one file.
"""

import argparse
import concurrent.futures
import glob
import os
import queue
import re
import shlex
import shutil
import signal
import subprocess
import sys
import tarfile
import tempfile
import threading
import time

PARTS = ("operators", "sanitize", "golden", "models")
SEVERAL_GPUS = "ranks"
MOST_JOBS = 8
# Where the build has what the bundle has in bin/.
BUILD_FOLDERS = ("tests/gpu", "tests/kernels", "tests/engine", "tests/engine/transformer", "bench/engine", "bench/gpu",
                 "server", "tests/server", "loadtest")
CUBLASLT = ("/usr/local/cuda*/lib64", "/usr/local/cuda*/targets/*/lib", "/usr/lib/*-linux-gnu",
            f"{sys.prefix}/lib/python*/site-packages/nvidia/*/lib")
NCCL = (f"{sys.prefix}/lib/python*/site-packages/nvidia/nccl/lib",)
CLEAN = {"memcheck": "ERROR SUMMARY: 0 errors", "initcheck": "ERROR SUMMARY: 0 errors",
         "racecheck": "RACECHECK SUMMARY: 0 hazards displayed (0 errors, 0 warnings)"}
# What runs under the sanitizers, the longest first: name, program, filter, and the tools that do not see it. Together
# every kernel file of kernels/cuda.
SMALL_CASES = (
    ("matmul", "cuda_half_op_test", "*MatMulWithEveryEpilogue/float*:*FewRowsOfEverySize*", ()),
    ("heads", "cuda_half_op_test", "*ProjectsHeads*/float32", ()),
    ("rows", "cuda_half_op_test",
     "*HalfOp*Norm*/float16:*Embed*/float16:*PoolsEveryWay/float16:*ProjectsHeads*/float16", ()),
    ("attention", "cuda_half_op_test",
     "*CrossAttention*/float*:*LargeScores*/bfloat16:*Prefill*/float16:*InPlace/float16:*SeveralTiles*/float16:"
     "*ContextsEnd*/float16", ()),
    # racecheck takes the waits of cuBLASLt's kernels for bulk copies for races, and initcheck does not see what these
    # copies write, which the finishing pass reads; ours of these kernels have no shared memory.
    ("finish", "cuda_half_op_test", "*ManyRowsAreFinished/bfloat16:*Logits*/float16", ("racecheck", "initcheck")),
    ("experts", "cuda_half_op_test", "*HalfExperts*/float*", ()),
    ("positions", "cuda_half_op_test", "*HalfPositions*/float16", ()),
    ("overlap", "cuda_half_op_test", "*Overlap*/float16", ()),
    ("short", "cuda_half_op_test", "*ShortContexts*/float32:*ShortContexts*/bfloat16:*MiddlingContexts*/float16:"
     "*LongContextsOfMany*/bfloat16", ()),
    ("splits", "cuda_half_op_test", "*LongContextsOfGroups/float32:*LongContextsOfGroups/bfloat16", ()),
    ("groups", "cuda_half_op_test", "*FewRowsShare*/float16:*GroupsOf*/bfloat16", ()),
    ("choice", "cuda_op_test",
     "*CandidatesTest.MatchesReference/*:*Candidates*Ties*:*FindsNeighbours*:*FewRowsOfFew*:*FewEditsThatMany*:*MergesManyChunks*:*FiltersALarge*:"
     "*NeverDraws*:*FillTokens*:*Replay*", ()),
    # No kernel of cuBLASLt is in the first two.
    ("gradients", "cuda_library_test",
     "*ColumnSums*/float16:*PassOfTheirOwn*/bfloat16:*LtSumsTest.AddsToItsOutput/float16", ()),
    # One recording test makes a refused call on purpose; one of the device's fills it with minutes of norms.
    ("moves", "cuda_library_test",
     "*CopyTest.*/float16:*CopyTest.*/float32:RecorderTest.*:DeviceTest.*:"
     "-*RunsWhatCannotBeRecorded*:*AReadBackThatIsNotDone*", ()),
    ("softmax", "cuda_library_test",
     "*EveryWidth*/float16:*ReadTwice*/bfloat16:*InPlace*/float32:*WithoutASum*/float16:*LongRowsWith*/bfloat16:"
     "*ManyLong*/float16:QueryScale*", ()),
    ("beams", "cuda_op_test", "*BeamOpTest*", ()),
    ("products", "cuda_library_test", "*WgmmaProduct*:*ClusterProduct*", ()),
    ("streams", "cuda_library_test",
     "*StreamTiles*EveryShape*/bfloat16:*StreamTiles*NotANumber*/float16:*StreamTiles*E4m3*/bfloat16:"
     "*StreamTiles*Int4*/float16", ()),
)
# The checkpoints of bench/gpu/shapes.py, each list a step of its own beside the others.
PARITY = (
    ("bert-base", "gpt2-124m", "llama-160m", "phi3", "mixtral", "gptj", "bloom", "m2m100"),
    ("transformer-base", "qwen3-160m", "smollm3", "qwen2-moe", "gpt-neo-125m", "falcon", "t5-base", "deberta-v2-conv"),
    ("transformer-big", "mistral-window", "starcoder2", "qwen3-moe", "gemma", "opt-125m", "mbart", "deberta-base"),
    ("bart-base", "olmo", "olmo2", "olmoe", "pythia-160m", "gemma2", "gemma3", "t5-gated", "deberta-v3-base"),
)


class Step:
    """One line of the table: commands one after the other, with one log and one limit of seconds.

    `judge` takes the log of a run that ended with status 0 and gives the fault ("" when there is none) and what to say.
    A step that is `alone` measures what others on the GPU would disturb. `program` is there or the step fails.
    """

    def __init__(self, part, name, commands, limit_s, judge, program, alone=False, **environment):
        self.part, self.name, self.commands, self.limit_s = part, name, commands, limit_s
        self.judge, self.program, self.alone, self.environment = judge, program, alone, environment


def judge_tests(log):
    """Of what GoogleTest prints at its end."""
    ran = re.search(r"^\[==========\] (\d+) tests? from \d+ test suites? ran", log, re.M)
    passed = re.search(r"^\[  PASSED  \] (\d+) tests?\.", log, re.M)
    skipped = re.search(r"^\[  SKIPPED \] (\d+) tests?, listed below", log, re.M)
    if not ran or not passed:
        return "no summary of tests", ""
    said = f"{passed.group(1)} of {ran.group(1)} tests passed"
    if skipped:
        return f"{skipped.group(1)} skipped", said
    if ran.group(1) != passed.group(1):
        return "not all passed", said
    return ("" if int(ran.group(1)) > 0 else "no test ran"), said


def judge_sanitizer(tool):
    def judge(log):
        fault, said = judge_tests(log)
        summary = re.findall(r"^========= (?:\w+ )?SUMMARY: .*|^========= ERROR SUMMARY: .*", log, re.M)
        said += f"; {summary[-1].strip('= ') if summary else ''}"
        if not fault and (len(summary) != 1 or CLEAN[tool] not in summary[0]):
            fault = "a finding of the sanitizer" if summary else "no summary of the sanitizer"
        return fault, said
    return judge


def judge_report(name):
    def judge(log):
        line = re.search(rf"^{name}: .*$", log, re.M)
        if not line:
            return "no report", ""
        return ("" if line.group(0).startswith(f"{name}: ok") else "the report says so"), line.group(0)
    return judge


def count_gpus():
    try:
        listed = subprocess.run(["nvidia-smi", "-L"], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, timeout=60,
                                check=False).stdout
    except (OSError, subprocess.TimeoutExpired):
        return 0
    return listed.count("GPU ")


def visible_gpus():
    """As CUDA_VISIBLE_DEVICES has them."""
    if os.environ.get("CUDA_VISIBLE_DEVICES"):
        return os.environ["CUDA_VISIBLE_DEVICES"].split(",")
    return [str(gpu) for gpu in range(max(1, count_gpus()))]


class Lane:
    """The steps on one machine."""

    def __init__(self, options):
        self.options = options
        self.end = time.monotonic() + options.within
        self.here = os.path.dirname(os.path.abspath(__file__))
        self.output = os.path.abspath(options.output)
        os.makedirs(self.output, exist_ok=True)
        self.logs = tempfile.mkdtemp(prefix="gpu_lane_")
        self.free_gpus = queue.Queue()  # each as often as it takes steps beside each other
        self.lock = threading.Lock()  # guards what follows: one step at a time comes to its end
        self.results = {}
        self.tools = os.path.join(self.here, "tools")
        if options.build:
            self.tools = os.path.join(self.here, "../bench/gpu")
        elif not os.path.isdir(os.path.join(self.here, "bin")):  # not unpacked yet
            with tarfile.open(os.path.join(self.here, "payload.tar.xz")) as payload:
                payload.extractall(self.here)
        self.module = os.path.abspath(options.module) if options.module else self.find("kernels/cuda", "lib", "libbeamline_cuda.so")
        # cuBLASLt comes with the toolkit or with a Python package.
        found = [path for pattern in CUBLASLT for path in glob.glob(os.path.join(pattern, "libcublasLt.so.13"))]
        libraries = [os.path.join(self.here, "lib")] + [os.path.dirname(path) for path in found[:1]]
        libraries += [path for pattern in NCCL for path in glob.glob(pattern)]
        if os.environ.get("LD_LIBRARY_PATH"):
            libraries.append(os.environ["LD_LIBRARY_PATH"])
        self.libraries = ":".join(libraries)
        self.environment = dict(os.environ, BEAMLINE_CUDA_MODULE=self.module, BEAMLINE_TEST_DEVICE="cuda",
                                TEST_SEED="random", BEAMLINE_REQUIRE_GPU="1", PYTHONUNBUFFERED="1")
        self.place_source()

    def find(self, build_folder, bundle_folder, name):
        if self.options.build:
            return os.path.join(os.path.abspath(self.options.build), build_folder, name)
        return os.path.join(self.here, bundle_folder, name)

    def program(self, name):
        for folder in BUILD_FOLDERS:
            path = self.find(folder, "bin", name)
            if os.access(path, os.X_OK):
                break
        return path

    def place_source(self):
        """The tests find the models and the golden files where they were built."""
        note = os.path.join(self.here, "source_folder")
        if self.options.build or not os.path.exists(note):
            return
        with open(note, encoding="utf-8") as file:
            source = file.read().strip()
        if not os.path.exists(source):
            os.makedirs(os.path.dirname(source), exist_ok=True)
            os.symlink(os.getcwd(), source)

    def wrap_programs(self):
        """A folder of the programs that sees their libraries; Python has its own."""
        folder = os.path.join(self.logs, "programs")
        os.makedirs(folder, exist_ok=True)
        for name in ("beamline-server", "beamline-loadtest", "beamline-bench", "model_probe"):
            path = os.path.join(folder, name)
            with open(path, "w", encoding="utf-8") as file:
                file.write(f'#!/bin/sh\nLD_LIBRARY_PATH={shlex.quote(self.libraries)} '
                           f'exec {shlex.quote(self.program(name))} "$@"\n')
            os.chmod(path, 0o755)
        return folder

    def steps(self):
        def test(part, name, program, limit_s, *arguments, **how):
            path = self.program(program)
            return Step(part, name, [[path, *arguments]], limit_s, judge_tests, path, **how)

        # The float64 twin of attention takes most of the operators' time.
        yield test("operators", "half_attention", "cuda_half_op_test", 480, "--gtest_filter=*Attention*")
        yield test("operators", "half_ops", "cuda_half_op_test", 420, "--gtest_filter=-*Attention*")
        yield test("operators", "loader", "cuda_loader_test", 60)
        # Its memory counts want the GPU for themselves.
        yield test("operators", "library", "cuda_library_test", 240, alone=True)
        yield test("operators", "ops", "cuda_op_test", 400)
        # Its ranks wait for each other on GPUs that must have room for all of them.
        yield test("operators", "peers", "cuda_peer_test", 120, alone=True)
        for tool in ("racecheck", "initcheck", "memcheck"):
            for name, program, tests, blind in SMALL_CASES:
                if tool in blind:
                    continue
                path = self.program(program)
                command = [self.options.sanitizer, "--tool", tool, "--error-exitcode", "9", path,
                           f"--gtest_filter={tests}"]
                yield Step("sanitize", f"{tool}_{name}", [command], 400, judge_sanitizer(tool), path,
                           BEAMLINE_SMALL_CASES="1")
        yield from self.ranks(test)
        yield test("golden", "golden_engine", "engine_golden_test", 120)
        yield test("golden", "golden_forward", "demo_models_test", 120)
        yield test("golden", "random_forward", "random_models_test", 400)
        yield test("golden", "classifiers", "classify_golden_test", 400)
        yield test("golden", "classifiers of tokens", "classify_tokens_golden_test", 400)
        yield test("golden", "masks", "fill_mask_golden_test", 400)
        yield test("golden", "golden_half", "reduced_precision_test", 200)
        yield test("golden", "deterministic", "engine_deterministic_test", 400)
        yield test("golden", "stream_scale", "stream_scale_test", 120)
        # Counts what is used of the GPU.
        yield test("models", "model_churn", "server_model_churn_test", 200, alone=True)
        # Takes most of the GPU's memory, and counts what is used of it.
        programs, python = self.wrap_programs(), sys.executable
        yield Step("models", "load", [[python, f"{self.tools}/load.py", "--bin", programs, "--models", "models",
                                       "--workload", "bench/workloads/soak.yaml", "--device", "cuda", "--out",
                                       f"{self.output}/load.json"]], 150, judge_report("load"),
                   f"{self.tools}/load.py", alone=True)
        for number, names in enumerate(PARITY, 1):
            checkpoints = os.path.join(self.logs, f"checkpoints_{number}")
            yield Step("models", f"parity_{number}",
                       [[python, f"{self.tools}/make_checkpoints.py", "--jobs", "4", checkpoints, *names],
                        [python, f"{self.tools}/parity.py", "--bin", programs, "--models", checkpoints, "--device", "cuda",
                         "--dtypes", "float32,float16,bfloat16", "--out", f"{self.output}/parity_{number}.json", *names]],
                       540, judge_report("parity"), f"{self.tools}/parity.py")

    def ranks(self, test):
        """They wait for each other on GPUs that must have room for all of them: one step at a time."""
        how = {"part": SEVERAL_GPUS, "alone": True}
        yield test(name="ranks_peers", program="cuda_peer_test", limit_s=120, **how)
        yield test(name="ranks_communication", program="cuda_communication_test", limit_s=120, **how)
        yield test(name="ranks_models", program="gpu_ranks_test", limit_s=240, **how)
        yield test(name="ranks_random", program="random_models_test", limit_s=120, **how)
        for ranks in ("two", "two_stages"):
            yield test(name=f"ranks_golden_{ranks}", program="engine_golden_test", limit_s=120,
                       BEAMLINE_TEST_RANKS=ranks, **how)
        path = self.program("cuda_peer_test")
        yield Step(SEVERAL_GPUS, "ranks_memcheck", [[self.options.sanitizer, "--tool", "memcheck", "--error-exitcode",
                                                     "9", path, "--gtest_filter=*SmallSums*"]],
                   120, judge_sanitizer("memcheck"), path, alone=True)
        # Of processes, of which one is killed: of more than two, those that are left hear of it one after the other.
        programs, tool = self.wrap_programs(), f"{self.tools}/rank_faults.py"
        for ways in ("2", "4"):
            if int(ways) > max(2, count_gpus()):
                continue
            yield Step(SEVERAL_GPUS, f"ranks_killed_{ways}",
                       [[sys.executable, tool, "--bin", programs, "--models", "models", "--workload",
                         "bench/workloads/rank_faults.yaml", "--out", f"{self.output}/rank_faults_{ways}.json", "--rounds", "6",
                         "--concurrency", "500", "--requests", "40000", "--tensor-parallel", ways]],
                       300, judge_report("rank faults"), tool, alone=True)

    def run(self, step, gpu):
        """The fault, what to say, and the log."""
        environment = dict(self.environment, **step.environment)
        if gpu is not None:
            environment["CUDA_VISIBLE_DEVICES"] = gpu
        left_s = self.end - time.monotonic()
        limit_s = min(step.limit_s, self.options.limit, left_s)
        end = time.monotonic() + limit_s
        path = os.path.join(self.logs, step.name + ".log")
        with open(path, "w", encoding="utf-8") as log:
            if left_s <= 0:
                return f"not begun within {self.options.within:g} s", "", path
            if not os.path.isfile(step.program):
                return f"{os.path.basename(step.program)} is missing", "", path
            for command in step.commands:
                # Python has its own libraries.
                of_python = command[0] == sys.executable
                own = environment if of_python else dict(environment, LD_LIBRARY_PATH=self.libraries)
                try:
                    child = subprocess.Popen(command, stdout=log, stderr=subprocess.STDOUT, env=own,
                                             stdin=subprocess.DEVNULL, start_new_session=True)
                except OSError as error:
                    return f"{error}", "", path
                try:
                    status = child.wait(timeout=max(0.1, end - time.monotonic()))
                except subprocess.TimeoutExpired:
                    os.killpg(child.pid, signal.SIGKILL)
                    child.wait()
                    return f"not done in {limit_s:.0f} s", "", path
                if status != 0:
                    with open(path, encoding="utf-8", errors="replace") as file:
                        return f"exit status {status}", step.judge(file.read())[1], path
        with open(path, encoding="utf-8", errors="replace") as file:
            return (*step.judge(file.read()), path)

    def finish_on_one(self, step):
        """Beside others, on a GPU that has room for one more."""
        gpu = self.free_gpus.get()
        self.finish(step, gpu)
        self.free_gpus.put(gpu)

    def finish(self, step, gpu=None):
        begin = time.monotonic()
        fault, said, path = self.run(step, gpu)
        line = f"{'FAILED' if fault else 'passed':6} {step.name:20} {time.monotonic() - begin:5.0f} s  " + \
            "; ".join(part for part in (fault, said) if part)
        with self.lock:
            self.results[step.name] = not fault
            print(line, flush=True)
            if fault:
                with open(path, encoding="utf-8", errors="replace") as file:
                    print("\n".join("    " + row[:300] for row in file.read().splitlines()[-25:]), flush=True)
            with open(os.path.join(self.output, "table.txt"), "a", encoding="utf-8") as table:
                table.write(line + "\n")
            # Appended and closed, so that a lane that is killed leaves what was done.
            with tarfile.open(os.path.join(self.output, "logs.tar"), "a") as logs:
                logs.add(path, os.path.basename(path))

    def main(self):
        wanted = [step for step in self.steps()
                  if step.part in self.options.parts and re.search(self.options.only, step.name)]
        if not wanted:
            print("FAILED: no step has that name")
            return 1
        for name in ("table.txt", "logs.tar"):
            if os.path.exists(os.path.join(self.output, name)):
                os.remove(os.path.join(self.output, name))
        begin = time.monotonic()
        for gpu in visible_gpus() * self.options.jobs:
            self.free_gpus.put(gpu)
        with concurrent.futures.ThreadPoolExecutor(self.free_gpus.qsize()) as pool:
            list(pool.map(self.finish_on_one, [step for step in wanted if not step.alone]))
        for step in wanted:
            if step.alone:
                self.finish(step)
        failed = sum(not passed for passed in self.results.values())
        line = f"{len(wanted)} steps, {failed} failed, {time.monotonic() - begin:.0f} s"
        with open(os.path.join(self.output, "table.txt"), "a", encoding="utf-8") as table:
            table.write(line + "\n")
        print(line)
        return 1 if failed > 0 or len(self.results) != len(wanted) else 0


def describe_machine(output, here):
    rows = [time.strftime("%FT%RZ", time.gmtime())]
    try:
        rows.append(subprocess.run(["nvidia-smi", "--query-gpu=name,driver_version,memory.total",
                                    "--format=csv,noheader"], capture_output=True, text=True, timeout=60)
                    .stdout.strip())
        with open(os.path.join(here, "commit"), encoding="utf-8") as file:
            rows.append("commit " + file.read().strip())
    except (OSError, subprocess.TimeoutExpired):
        pass
    with open(os.path.join(output, "machine.txt"), "w", encoding="utf-8") as file:
        file.write("\n".join(rows) + "\n")
    print("\n".join(rows), flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("output", metavar="OUTPUT_FOLDER")
    parser.add_argument("parts", nargs="*", metavar="PART", default=PARTS, help="operators, sanitize, golden, models, ranks")
    parser.add_argument("--build", help="a build folder, instead of the bundle that this file lies in")
    parser.add_argument("--module", help="the CUDA backend to open")
    parser.add_argument("--jobs", type=int, default=4, metavar="N",
                        help=f"steps beside each other on each GPU, 1 to {MOST_JOBS}: more have no room for their contexts")
    parser.add_argument("--only", default="", metavar="REGEX")
    parser.add_argument("--limit", type=float, default=3600, metavar="SECONDS", help="for any step, at most")
    parser.add_argument("--within", type=float, default=24 * 3600, metavar="SECONDS",
                        help="for all steps: those that have no time left fail")
    parser.add_argument("--sanitizer",
                        default=shutil.which("compute-sanitizer") or "/usr/local/cuda/bin/compute-sanitizer")
    options = parser.parse_intermixed_args()
    if not 1 <= options.jobs <= MOST_JOBS:
        parser.error(f"--jobs is {options.jobs}; accepted: 1 to {MOST_JOBS}")
    known = (*PARTS, SEVERAL_GPUS)
    unknown = set(options.parts) - set(known)
    if unknown:
        parser.error(f"PART is {', '.join(sorted(unknown))}; accepted: {', '.join(known)}")
    lane = Lane(options)
    describe_machine(lane.output, lane.here)
    sys.exit(lane.main())


if __name__ == "__main__":
    main()

#!/usr/bin/env bash
# From a clean clone to answers: installs what is missing, builds, serves the demo models, calls every
# RPC through the command line, and OpenAI's API with curl, shows metrics, and stops the server.
# usage: scripts/demo.sh [--port N] [--metrics-port N] [--no-build | --built FOLDER]
#   --no-build      nothing is installed or built: the programs of build/release are used, without these those on PATH, as
#                   Debian's package `beamline` installs them
#   --built FOLDER  the same with the programs of that build folder
# The ports are any free ones by default. What it builds is for this machine alone (the preset `quick`): the CPU kernels of its
# SIMD level, and GPU code where a GPU is.
set -uo pipefail
cd "$(dirname "$0")/.." || exit 1

port=0
metrics_port=0
build=$PWD/build/release
builds=yes
while (($# > 0)); do
  case $1 in
    --port) port=${2:?--port needs a number}; shift ;;
    --metrics-port) metrics_port=${2:?--metrics-port needs a number}; shift ;;
    --no-build) builds= ;;
    --built) builds=; build=$(realpath "${2:?--built needs a folder}") || exit 2; shift ;;
    *) echo "usage: $0 [--port N] [--metrics-port N] [--no-build | --built FOLDER]" >&2; exit 2 ;;
  esac
  shift
done

server=$build/server/beamline-server
client=$build/client/cli/beamline
server_pid=
failures=0
scratch=$(mktemp -d)

clean_up() {
  if [[ -n $server_pid ]] && kill -0 "$server_pid" 2>/dev/null; then
    kill -TERM "$server_pid" 2>/dev/null
    timeout 10 tail --pid="$server_pid" -f /dev/null || kill -KILL "$server_pid" 2>/dev/null
  fi
  rm -rf "$scratch"
}
trap clean_up EXIT
trap 'exit 130' INT
trap 'exit 143' TERM

fail() {
  printf 'demo: %s\n' "$1" >&2
  exit 1
}

title() { printf '\n== %s\n' "$1"; }

# Sets `gpu_options`, CMake's options for the GPUs that are here. Without one no GPU code is compiled, which would be two thirds
# of the time.
find_gpus() {
  local capabilities capability architecture architectures=
  gpu_options=(-DBEAMLINE_CUDA=OFF)
  [[ -e /dev/nvidiactl ]] && gpu_options=(-DBEAMLINE_CUDA=AUTO)
  capabilities=$(nvidia-smi --query-gpu=compute_cap --format=csv,noheader 2>/dev/null) || return
  for capability in $capabilities; do
    case $capability in
      8.*) architecture=80-real ;;
      9.0) architecture=90-real ;;
      9.* | [1-9][0-9].*) architecture=90 ;; # by its intermediate code
      *) continue ;; # older than what the kernels need
    esac
    [[ ";$architectures;" == *";$architecture;"* ]] || architectures+=${architectures:+;}$architecture
  done
  gpu_options=(-DBEAMLINE_CUDA=OFF)
  [[ -z $architectures ]] || gpu_options=(-DBEAMLINE_CUDA=AUTO "-DBEAMLINE_CUDA_ARCHITECTURES=$architectures")
}

build_all() {
  scripts/install_packages.sh --build || exit 1
  local packages_s=$SECONDS
  if [[ ! -f "$build/CMakeCache.txt" ]]; then
    find_gpus
    cmake --preset quick "${gpu_options[@]}" >"$scratch/configure" 2>&1 ||
      { cat "$scratch/configure"; fail "cmake failed"; }
  fi
  cmake --build "$build" -j "$(nproc)" --target beamline-server beamline || fail "the build failed"
  printf 'Ready after %d s, %d s of which for packages.\n' "$SECONDS" "$packages_s"
}

# With --no-build and without a build folder: what is installed.
find_programs() {
  [[ -x $server && -x $client ]] && return
  [[ $build == "$PWD/build/release" ]] || fail "$build has no server/beamline-server or no client/cli/beamline"
  server=$(command -v beamline-server) && client=$(command -v beamline) ||
    fail "there are no programs in $build, and beamline-server or beamline is not on PATH; run it without --no-build, or install the packages (docs/install.md)"
}

# Starts the server and sets `address`, `admin_address`, `metrics_url` and `http_address` from the line that it prints when it can answer.
start_server() {
  printf '$ beamline-server --admin-listen 127.0.0.1:0 --http-listen 127.0.0.1:0 --model-root models\n'
  "$server" --listen "127.0.0.1:$port" --metrics-listen "127.0.0.1:$metrics_port" \
    --admin-listen 127.0.0.1:0 --http-listen 127.0.0.1:0 --model-root models \
    </dev/null >"$scratch/out" 2>"$scratch/log" &
  server_pid=$!
  local line=
  for _ in {1..300}; do
    line=$(grep -m1 'serving on' "$scratch/out") && break
    kill -0 "$server_pid" 2>/dev/null || { cat "$scratch/log" >&2; fail "the server ended"; }
    sleep 0.1
  done
  [[ -n $line ]] || { cat "$scratch/log" >&2; fail "the server was not ready after 30 s"; }
  printf '%s\n' "$line"
  address=$(sed -nE 's/.*serving on ([^ ]+).*/\1/p' <<<"$line")
  metrics_url=$(sed -nE 's/.*\(metrics ([^,)]+).*/\1/p' <<<"$line")
  admin_address=$(sed -nE 's/.*, admin ([^,)]+).*/\1/p' <<<"$line")
  http_address=$(sed -nE 's/.*, http ([^,)]+).*/\1/p' <<<"$line")
  [[ -n $address && -n $metrics_url && -n $admin_address && -n $http_address ]] || fail "cannot read the server's address from: $line"
}

# Writes the words as lines of a file in the scratch folder, as a user would.
lines_of() {
  local file=$1
  shift
  printf '%s\n' "$@" >"$scratch/$file"
  printf '\n$ printf %s' "'%s\n'"
  printf ' "%s"' "$@"
  printf ' >%s\n' "$file"
}

# Runs the command line as a user would, prints it so that a shell would take it, and how long it took. Its standard input is the
# file `input` of the scratch folder, where that is set.
beamline() {
  local word shown='' started ended status
  for word in "$@"; do
    case $word in
      *[$'\n"$`\\']*) word=${word@Q} ;;
      *[!A-Za-z0-9_.=/-]*) word=\"$word\" ;;
    esac
    shown+=" $word"
  done
  printf '\n$ beamline%s%s\n' "$shown" "${input:+ <$input}"
  started=$(date +%s%N)
  (cd "$scratch" && BEAMLINE_ADDRESS=$address BEAMLINE_METRICS=$metrics_url timeout 60 "$client" "$@" <"${input:-/dev/null}")
  status=$?
  ended=$(date +%s%N)
  printf '[%d.%03d s]\n' $(((ended - started) / 1000000000)) $(((ended - started) / 1000000 % 1000))
  return $status
}

ok() { beamline "$@" || { printf 'demo: this call failed\n'; failures=$((failures + 1)); }; }
refused() { ! beamline "$@" || { printf 'demo: this call should have failed\n'; failures=$((failures + 1)); }; }

# Asks for a chat completion as a user would, and prints the answer.
ask_openai() {
  printf '\n$ curl %s -H %s -d %s\n' "http://$http_address/v1/chat/completions" "'Content-Type: application/json'" "'$1'"
  curl -sS --fail-with-body --max-time 30 "http://$http_address/v1/chat/completions" -H 'Content-Type: application/json' -d "$1" &&
    printf '\n' || { printf 'demo: this call failed\n'; failures=$((failures + 1)); }
}

call_every_rpc() {
  title "What is served (ListModels, GetModel, Health)"
  ok health
  ok models
  ok models write-en

  title "Translate (Generate: beam search by the model's own defaults; GenerateStream: greedy)"
  ok translate --no-stream "The package was not found." "Open the file, change the first line and save it."
  ok translate --stream --greedy "Click the button to start the game, then press any key to continue."
  ok translate --no-stream --beam 4 --n 3 "A small, fast and secure web browser for the desktop."

  title "Write (GenerateStream, sampling with a seed; log-probabilities)"
  ok generate --model write-en --stream --greedy --max-new-tokens 60 \
    $'Package: password-gorilla\nSynopsis: cross-platform password manager\nDescription:'
  ok generate --model write-en --no-stream --temperature 0.8 --top-p 0.95 --seed 7 --n 2 --max-new-tokens 24 \
    "This package contains"
  ok --json generate --model write-en --greedy --max-new-tokens 3 --logprobs 2 "This package contains"

  title "Chat (GenerateStream with the model's chat template; each line is a turn, and later ones know the earlier)"
  lines_of turns "My name is Anna." "What is the capital of France?" "And of Italy?" "What is 12 plus 30?" "What is my name?"
  input=turns ok chat
  title "Chat (OpenAI's API)"
  ask_openai '{"model": "chat-en", "messages": [{"role": "user", "content": "What is a tokenizer?"}]}'

  title "Many at once (GenerateMany, EncodeMany: every line of a file over one stream, answers in their order)"
  lines_of prompts "Cannot open the file." "Save changes before closing?" "No network connection."
  ok translate --file prompts
  ok encode --file prompts

  title "Score (how likely continuations are, none of them generated; of a translator: translations)"
  ok score --model write-en "Package: vim" $'\nSynopsis:' $'\nElephants:' " is a text editor"
  ok score --model translate-en-de "The package was not found." "Das Paket wurde nicht gefunden." "Der Hund schläft."

  title "Embed (Encode)"
  ok encode "edit photos" "an image manipulation program" "a mail server"

  title "Rerank (Rerank: how well texts answer a question; Classify: the same of pairs)"
  ok rerank --top 3 "How do I install a package?" "A package is a box that the post brings." "The museum opens at nine." \
    "To install a package, run apt install with its name." "Start the program from the menu."
  ok classify --model rerank-en --pairs "What is the capital of France?" "Paris is the capital of France." \
    "What is the capital of France?" "Berlin is the capital of Germany."

  title "Names in texts (ClassifyTokens)"
  ok classify-tokens --aggregation simple "Anna Keller moved to Berlin in May 2021 and works for Northwind Energy."

  title "Tokens (Tokenize, Detokenize)"
  ok tokenize --model embed-en "Unbelievably fast tokenizers!"
  ok detokenize --model write-en 50 41 68

  title "Models come and go (LoadModel, UnloadModel, RestartReplica, at the operators' address)"
  ok --address "$admin_address" load write-en --model-version 2 --set max_sequences=16 --set replicas=2
  ok --address "$admin_address" unload write-en --model-version 1
  ok models
  ok generate --model write-en --no-stream --greedy --max-new-tokens 8 "This package contains"
  ok --address "$admin_address" restart write-en --replica 1
  refused load write-en --model-version 3

  title "Masks (FillMask, of a model that is not served from the start)"
  ok --address "$admin_address" load mask-en
  ok fill-mask --model mask-en --top 3 "The capital of France is [MASK]." "The opposite of hot is [MASK]."
  ok --address "$admin_address" unload mask-en

  title "A bad request is refused by name"
  refused generate --model write-en --max-new-tokens 0 "Hello"
  refused encode --model write-en "Hello"
}

show_metrics() {
  title "Metrics"
  ok top --once --interval 1
  printf '\n'
  printf '$ curl %s\n' "$metrics_url"
  curl -sf --max-time 10 "$metrics_url" >"$scratch/metrics" ||
    { printf 'demo: no metrics\n'; failures=$((failures + 1)); return; }
  grep -E '^beamline_(requests_total|generated_tokens_total|encoded_tokens_total|kv_blocks)' "$scratch/metrics"
  printf '(%d lines in all)\n' "$(wc -l <"$scratch/metrics")"
}

stop_server() {
  title "SIGTERM"
  kill -TERM "$server_pid"
  wait "$server_pid"
  local status=$?
  server_pid=
  sed -E 's/^\[[^]]*\] *//' "$scratch/log" | tail -n 2
  printf 'The server ended with status %d.\n' "$status"
  ((status == 0)) || failures=$((failures + 1))
}

if [[ -n $builds ]]; then
  title "Install and build"
  build_all
else
  find_programs
fi
title "Serve"
start_server
call_every_rpc
show_metrics
stop_server
printf '\n%d of the demo'\''s calls failed.\n' "$failures"
((failures == 0))

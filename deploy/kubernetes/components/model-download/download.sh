#!/bin/sh
# Downloads models of the Hub to a volume that pods share. One pod downloads; the others wait for it, and find what is there. A model
# counts as there when all of its files are.
# usage: download.sh LIST FOLDER
#   LIST  a line a model: folder below FOLDER, id on the Hub, revision (a commit, a tag or a branch); # begins a comment
# HF_TOKEN, where it is set, is the token of gated and private models. Needs flock, and hf or pip, which installs it.
set -eu

list=$1
folder=$2
hub_version=2.4.0

marks=$folder/.downloads
mkdir -p "$marks"
exec 9>"$marks/lock"
flock 9

if ! command -v hf >/dev/null; then
  tools=${TMPDIR:-/tmp}/hub
  pip install --quiet --disable-pip-version-check --no-cache-dir --target "$tools" "huggingface_hub==$hub_version"
  export PATH="$tools/bin:$PATH" PYTHONPATH="$tools"
fi

while read -r name id revision rest; do
  case $name in '' | '#'*) continue ;; esac
  if [ -z "$revision" ] || [ -n "$rest" ]; then
    echo "download: '$name $id $revision $rest' in $list; accepted: folder, id on the Hub, revision" >&2
    exit 1
  fi
  case $id in *://*) echo "download: '$id' in $list; accepted: an id on the Hub, as BAAI/bge-small-en-v1.5" >&2; exit 1 ;; esac
  case /$name/ in */../* | //* | */.downloads/*) echo "download: '$name' in $list leads out of the folder" >&2; exit 1 ;; esac
  mark=$marks/$(echo "$name" | tr / _)
  if [ -f "$mark" ] && [ "$(cat "$mark")" = "$id $revision" ]; then
    echo "there is $name"
    continue
  fi
  rm -f "$mark"
  # All shards, and what the server reads beside them; not the same weights in other formats.
  hf download "$id" --revision "$revision" --local-dir "$folder/$name" \
    --include '*.safetensors' --include '*.json' --include '*.jinja' --include '*.txt' --include '*.model' --include '*.spm' \
    --exclude 'onnx/*' --exclude 'openvino/*' --exclude 'original/*' </dev/null
  echo "$id $revision" >"$mark"
  echo "downloaded $name"
done <"$list"

#!/usr/bin/env bash
# Writes the Go stubs of the API (package beamlinev1) to a folder (default: this one).
# Needs protoc, protoc-gen-go and protoc-gen-go-grpc.
# usage: generate.sh [FOLDER]
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
out=${1:-$here}
module=beamline.example
packages=Mbeamline/v1/inference.proto=$module/beamlinev1,Mbeamline/v1/common.proto=$module/beamlinev1
packages=$packages,Mbeamline/v1/classify.proto=$module/beamlinev1,Mgoogle/rpc/status.proto=google.golang.org/genproto/googleapis/rpc/status
protoc -I "$here/../../proto" \
  --go_out="$out" --go_opt="module=$module,$packages" \
  --go-grpc_out="$out" --go-grpc_opt="module=$module,$packages" \
  beamline/v1/common.proto beamline/v1/classify.proto beamline/v1/inference.proto

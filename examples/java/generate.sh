#!/usr/bin/env bash
# Writes the Java stubs of the API to a folder. Only needed without Maven, which generates them itself.
# Needs protoc and gRPC's plugin for Java, grpc_java_plugin.
# usage: generate.sh FOLDER
set -euo pipefail
proto=$(cd "$(dirname "$0")/../../proto" && pwd)
protoc -I "$proto" --java_out="$1" --grpc-java_out="$1" --plugin=protoc-gen-grpc-java="$(command -v grpc_java_plugin)" \
  google/rpc/status.proto google/rpc/error_details.proto beamline/v1/common.proto beamline/v1/classify.proto \
  beamline/v1/inference.proto

#!/usr/bin/env bash
# Installs the distribution packages that Beamline needs (Debian 12 and 13).
# usage: scripts/install_packages.sh [--build] [--test]
#   --build  what building and running the server and the client needs (the default)
#   --test   also what scripts/test.sh needs
# Does nothing when everything is there. Uses sudo when it is not run as root.
set -euo pipefail

build_packages=(
  ca-certificates ccache cmake curl g++ git mold ninja-build pkg-config
  libgrpc++-dev protobuf-compiler protobuf-compiler-grpc libprotobuf-dev libabsl-dev
  libfmt-dev libspdlog-dev nlohmann-json3-dev libcli11-dev libyaml-cpp-dev prometheus-cpp-dev
  libboost-dev libcurl4-openssl-dev libdnnl-dev libedit-dev libhwy-dev libicu-dev libonig-dev libssl-dev
  python3 python3-venv # the Python client, tools/convert_weights
)
test_packages=(
  libgtest-dev libgmock-dev libbenchmark-dev clang-format dpkg-dev file haproxy openssl prometheus python3-grpcio
  python3-protobuf python3-numpy python3-hatchling python3-yaml mypy zsh fish mandoc
  # Libraries alone, 20 MB: the example in Java is run where there is a JDK too.
  protobuf-compiler-grpc-java-plugin libgrpc-java libprotobuf-java libnetty-java libperfmark-java libguava-java
  libgeronimo-annotation-1.3-spec-java
)

wanted=("${build_packages[@]}")
for option in "$@"; do
  case $option in
    --build) ;;
    --test) wanted+=("${test_packages[@]}") ;;
    *) echo "usage: $0 [--build] [--test]" >&2; exit 2 ;;
  esac
done

fail() {
  printf 'install_packages: %s\nThese packages are missing: %s\n' "$1" "${missing[*]}" >&2
  exit 1
}

missing=()
for package in "${wanted[@]}"; do
  # Quietly: dpkg-query complains about packages that it has never seen.
  status=$(dpkg-query -W -f '${db:Status-Abbrev}' "$package" 2>/dev/null || true)
  [[ $status == ii* ]] || missing+=("$package")
done
if ((${#missing[@]} == 0)); then
  echo "All ${#wanted[@]} packages are installed."
  exit 0
fi

command -v apt-get >/dev/null || fail "there is no apt-get here; install their equivalents by hand."
as_root=()
if [[ $(id -u) != 0 ]]; then
  command -v sudo >/dev/null || fail "run it as root, or install sudo."
  as_root=(sudo)
fi

echo "Installing: ${missing[*]}"
install=("${as_root[@]}" env DEBIAN_FRONTEND=noninteractive
  apt-get install -y -q --no-install-recommends "${missing[@]}")
# A stale package list is the usual reason for a failure, so try again with a fresh one.
if ! "${install[@]}" </dev/null; then
  "${as_root[@]}" apt-get update -q </dev/null || fail "apt-get update failed (no network?)."
  "${install[@]}" </dev/null || fail "apt-get install failed."
fi
# Their packages start services, which nobody asked for here: tests start their own.
for service in haproxy prometheus; do
  if [[ " ${missing[*]} " == *" $service "* && -d /run/systemd/system ]]; then
    "${as_root[@]}" systemctl disable --now "$service" </dev/null
  fi
done

#!/usr/bin/env bash
# The parts of test_package.sh that run inside the root, on /packages/*.deb and /client: install, serve, remove.
set -euo pipefail
unit=/usr/lib/systemd/system/beamline-server.service
config=/etc/beamline/server.yaml

fail() {
  echo "test_package: $*" >&2
  exit 1
}
# expect TEXT COMMAND...: the command succeeds and prints the text.
expect() {
  local text=$1 output
  shift
  output=$("$@" 2>&1) || fail "$* ended with status $?: $output"
  [[ $output == *"$text"* ]] || fail "$* printed '$output' without '$text'"
  printf '$ %s\n%s\n' "$*" "$output"
}
installed() { dpkg-query -W -f '${db:Status-Abbrev}' "$1" 2>/dev/null || true; }
beamline_files() { find /etc /usr /var -xdev -path '*beamline*' | sort; }

install_packages() {
  . /etc/os-release
  echo "$PRETTY_NAME, $(dpkg-query -W -f '${Package}\n' | wc -l) packages"
  [[ $(installed beamline) == ii* ]] && fail "beamline is installed in this root already"
  beamline_files >/packages/before

  apt-get update -q
  apt-get install -y -q --no-install-recommends /packages/beamline_*.deb /packages/beamline-demo-models_*.deb
  for program in beamline-server beamline beamline-loadtest; do
    expect "$program " "$program" --version
  done
  [[ ! -e /etc/systemd/system/multi-user.target.wants/beamline-server.service ]] || fail "the service is enabled"
  if compgen -G '/packages/libbeamline-client-dev_*.deb' >/dev/null; then
    apt-get install -y -q --no-install-recommends /packages/libbeamline-client-dev_*.deb cmake g++ make
    cmake -S /client -B /client/build && cmake --build /client/build
  fi
}

# As systemd does: the unit's command line and environment, by a user that is nobody else, without any capability.
cache=/var/cache/private-test
serve() {
  local command
  command=$(sed -n 's/^ExecStart=//p' "$unit")
  # shellcheck disable=SC2086  # words of the command line
  setpriv --reuid 61184 --regid 61184 --clear-groups --no-new-privs --bounding-set=-all --inh-caps=-all \
    env -i PATH=/usr/bin XDG_CACHE_HOME="$cache" "$@" $command >/tmp/log 2>&1 &
  server=$!
  for _ in $(seq 600); do
    beamline-server --health >/dev/null 2>&1 && return
    kill -0 "$server" 2>/dev/null || fail "the server ended: $(cat /tmp/log)"
    sleep 0.1
  done
  fail "the server does not serve: $(cat /tmp/log)"
}
stop() {
  local status=0
  kill -TERM "$server"
  wait "$server" || status=$?
  ((status == 0)) || fail "the server ended with status $status: $(cat /tmp/log)"
}

serve_requests() {
  install -d -m 700 -o 61184 -g 61184 "$cache"
  serve
  expect SERVING beamline-server --health --config "$config"
  expect Datei beamline translate --no-stream "Open the file, change the first line and save it."
  expect "256 dimensions" beamline encode --file - <<<"a mail server"
  expect "requests/s" beamline-loadtest run --model write-en --requests 20 --rate 20
  if [[ -x /client/build/translate ]]; then
    expect Datei /client/build/translate 127.0.0.1:50051 "Open the file."
  fi
  stop

  # A setting as /etc/default/beamline-server has it.
  serve BEAMLINE_MODEL=embed-en=/usr/share/beamline/models/embed-en
  expect "embed-en " beamline models
  [[ $(beamline models) != *write-en* ]] || fail "BEAMLINE_MODEL does not go before the demo models"
  stop
}

remove_packages() {
  # An upgrade keeps the administrator's configuration, removal too; a purge leaves nothing.
  echo "threads: 1" >>"$config"
  apt-get install -y -q --reinstall /packages/beamline_*.deb
  grep -q '^threads: 1$' "$config" || fail "the upgrade changed $config"
  apt-get remove -y -q beamline
  [[ -e $config ]] || fail "the removal took $config with it"
  [[ ! -e /usr/bin/beamline-server ]] || fail "the removal left the server"
  apt-get purge -y -q beamline beamline-demo-models
  if [[ $(installed libbeamline-client-dev) == ii* ]]; then apt-get purge -y -q libbeamline-client-dev; fi
  rm -rf "$cache"
  beamline_files | diff /packages/before - || fail "the purge left these"
}

case ${1:-} in
  install) install_packages ;;
  serve) serve_requests ;;
  remove) remove_packages ;;
  *) fail "part is '${1:-}'; accepted: install, serve, remove" ;;
esac

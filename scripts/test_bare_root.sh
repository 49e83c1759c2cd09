#!/usr/bin/env bash
# Builds and tests a clean clone of HEAD inside a bare root of a Debian or Ubuntu release, as on a machine that
# was just installed. Needs root, debootstrap and unshare; the mounts end with the command.
# usage: scripts/test_bare_root.sh SUITE FOLDER [COMMAND ...]
#   SUITE    bookworm (Debian 12), trixie (Debian 13), noble (Ubuntu 24.04), ...
#   FOLDER   where the root is made; one that is there already is used again
#   COMMAND  what runs in the clone; default: scripts/demo.sh and then scripts/test.sh --fast
set -euo pipefail

if (($# < 2)); then
  sed -n '2,7s/^# //p' "$0" >&2
  exit 2
fi
suite=$1
root=$(realpath -m "$2")
shift 2
command=${*:-scripts/demo.sh && scripts/test.sh --fast}
repository=$(cd "$(dirname "$0")/.." && pwd)

if [[ ! -x $root/bin/bash ]]; then
  mkdir -p "$root"
  # git, to clone with; everything else is for scripts/install_packages.sh to bring.
  options=(--variant=minbase --include=git,ca-certificates)
  source=()
  if [[ $suite == noble ]]; then
    options+=(--components=main,universe)
    # A debootstrap of Debian may know neither the suite nor its keys.
    [[ -e /usr/share/keyrings/ubuntu-archive-keyring.gpg ]] || options+=(--no-check-gpg)
    source=(http://archive.ubuntu.com/ubuntu)
    [[ -e /usr/share/debootstrap/scripts/noble ]] || source+=(/usr/share/debootstrap/scripts/gutsy)
  fi
  debootstrap "${options[@]}" "$suite" "$root" "${source[@]}"
fi
# The build folder stays, so that a second run builds what has changed since.
if [[ -d $root/src/.git ]]; then
  git -C "$root/src" fetch --quiet "$repository" HEAD
  git -C "$root/src" checkout --quiet --force --detach FETCH_HEAD
else
  git clone --quiet "$repository" "$root/src"
fi

exec unshare --mount --pid --fork --kill-child bash -euc '
  root=$1
  mount -t proc proc "$root/proc"
  mount --rbind /dev "$root/dev"
  mount --rbind /sys "$root/sys"
  cp --dereference /etc/resolv.conf /etc/hosts "$root/etc/"
  exec chroot "$root" /usr/bin/env -i HOME=/root TERM=dumb LANG=C.UTF-8 \
    PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin \
    bash -c "cd /src && . /etc/os-release && echo \"\$PRETTY_NAME\" && $2"
' _ "$root" "$command"

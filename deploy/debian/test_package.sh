#!/usr/bin/env bash
# Installs the packages in a bare root of a Debian release, serves a request there by the service's own command line as a user
# without rights, upgrades, removes and purges them. Needs root, debootstrap, unshare, ip and a mirror; the mounts end with the command.
# usage: deploy/debian/test_package.sh SUITE FOLDER PACKAGE.deb ...
#   SUITE    bookworm (Debian 12), trixie (Debian 13), ...
#   FOLDER   where the root is made; one that is there already is used again, when it has no Beamline
#   PACKAGE  beamline and beamline-demo-models; with libbeamline-client-dev, examples/client is built there too, which takes a
#            compiler's packages
set -euo pipefail

if (($# < 4)); then
  sed -n '2,9s/^# //p' "$0" >&2
  exit 2
fi
suite=$1
root=$(realpath -m "$2")
shift 2
repository=$(cd "$(dirname "$0")/../.." && pwd)

if [[ ! -x $root/bin/sh ]]; then
  debootstrap --variant=minbase "$suite" "$root"
fi
rm -rf "$root/packages" "$root/client"
mkdir "$root/packages"
cp "$@" "$root/packages"
cp -r "$repository/examples/client" "$root/client"
cp "$repository/deploy/debian/test_package_inside.sh" "$root/packages"

# inside PART [OPTION_OF_UNSHARE]: a part of test_package_inside.sh. Without the machine's network, ports are those of the package.
inside() {
  unshare --mount --pid --fork --kill-child ${2:+"$2"} bash -euc '
    root=$1
    if [[ $3 == --net ]]; then ip link set lo up; fi
    mount -t proc proc "$root/proc"
    mount --rbind /dev "$root/dev"
    mount --rbind /sys "$root/sys"
    mount -t tmpfs tmpfs "$root/tmp"
    cp --dereference /etc/resolv.conf /etc/hosts "$root/etc/"
    exec chroot "$root" /usr/bin/env -i HOME=/root TERM=dumb LANG=C.UTF-8 DEBIAN_FRONTEND=noninteractive \
      PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin bash /packages/test_package_inside.sh "$2"
  ' _ "$root" "$1" "${2:-}"
}
inside install
inside serve --net
inside remove
echo "test_package: all is well"

#!/bin/sh
# Which part of Debian's archive apt takes packages from, and of which day.
# usage: use_archive.sh COMPONENTS [SNAPSHOT]
#   COMPONENTS  "main", "main contrib non-free"
#   SNAPSHOT    20261101T000000Z: the archive as it was then; none: as it is
set -eu

components=$1
snapshot=${2:-}
. /etc/os-release
if [ -n "$snapshot" ]; then
  archive=http://snapshot.debian.org/archive/debian/$snapshot
  security=http://snapshot.debian.org/archive/debian-security/$snapshot
  options="[check-valid-until=no] "
else
  archive=http://deb.debian.org/debian
  security=http://deb.debian.org/debian-security
  options=
fi
rm -f /etc/apt/sources.list.d/debian.sources
cat >/etc/apt/sources.list <<LIST
deb $options$archive $VERSION_CODENAME $components
deb $options$archive $VERSION_CODENAME-updates $components
deb $options$security $VERSION_CODENAME-security $components
LIST

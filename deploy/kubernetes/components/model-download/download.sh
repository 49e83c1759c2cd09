#!/bin/sh
# Downloads the files of a list into a folder. A file that is there with the right sum stays; one that came in part or wrong
# never gets its name.
# usage: download.sh LIST FOLDER
#   LIST  a line a file: path below FOLDER, URL, and its SHA-256, or - for none; # begins a comment
set -eu

list=$1
folder=$2

has_sum() { # FILE SUM
  [ "$2" = - ] || [ "$(sha256sum "$1" | cut -d' ' -f1)" = "$2" ]
}

while read -r path url sum rest; do
  case $path in '' | '#'*) continue ;; esac
  if [ -z "$url" ] || [ -z "$sum" ] || [ -n "$rest" ]; then
    echo "download: '$path $url $sum $rest' in $list; accepted: path, URL and SHA-256 or -" >&2
    exit 1
  fi
  case /$path/ in */../*) echo "download: '$path' in $list leads out of the folder" >&2; exit 1 ;; esac
  file=$folder/$path
  if [ -f "$file" ] && has_sum "$file" "$sum"; then
    echo "there is $path"
    continue
  fi
  mkdir -p "$(dirname "$file")"
  curl -sS --fail --location --retry 5 --retry-delay 2 --connect-timeout 20 -o "$file.part" "$url"
  if ! has_sum "$file.part" "$sum"; then
    echo "download: $url has not the SHA-256 $sum" >&2
    rm -f "$file.part"
    exit 1
  fi
  mv "$file.part" "$file"
  echo "downloaded $path"
done <"$list"

#!/bin/bash
# usage: without_proc.sh TESSERA: where no /proc is mounted (a bare chroot), the program finds its libraries all the same, however it
# was started. Skipped (77) where this machine lets nobody have mounts of his own.
set -u
if [ -z "${TESSERA_HIDDEN:-}" ]; then
  mine=-rm
  [ "$(id -u)" -ne 0 ] || mine=-m
  unshare $mine true 2>/dev/null || exit 77
  TESSERA_HIDDEN=1 exec unshare $mine bash "$0" "$1"
fi
program=$(realpath "$1")
mount -t tmpfs tmpfs /proc || exit 77
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
ln -s "$program" "$folder/linked"
agrees() { "$@" run add_vectors --case 2 | grep -q 'agrees with reference::add_vectors' || { echo "not found: $*"; exit 1; }; }
agrees "$program"
agrees "$folder/linked"
cd "$(dirname "$program")" && agrees ./tessera
PATH=$PWD:$PATH agrees tessera

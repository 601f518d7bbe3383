#!/bin/bash
# usage: system.sh ROOT: the steps of Dockerfile in a bare system (debootstrap --variant=minbase bookworm ROOT), where no Docker
# runs: COPY and RUN in its order, by chroot. Then what ENTRYPOINT is to run.
set -eu
root=$1
# Processes of its own to see: bash's <(...) opens /proc/self/fd.
[ -n "${TESSERA_UNSHARED:-}" ] || TESSERA_UNSHARED=1 exec unshare -m bash "$0" "$root"
mount -t proc proc "$root/proc"
tree=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
export LANG=C.UTF-8
copy() { # sources in the tree, then a folder
  local to=${!#}
  mkdir -p "$root/$to"
  (cd "$tree" && git ls-files -z -- "${@:1:$#-1}" | tar -c --null -T -) | tar -x -C "$root/$to"
}
sed -e ':a' -e '/\\$/{N;s/\\\n//;ba}' "$tree/Dockerfile" | while read -r word rest; do
  # shellcheck disable=SC2086
  case $word in
    '' | '#'* | FROM) ;;
    COPY) copy $rest ;;
    RUN) echo "+ $rest" && chroot "$root" /bin/sh -c "$rest" </dev/null ;;
    ENTRYPOINT) chroot "$root" "$(tr -d '["]' <<<"$rest")" run matmul_relu </dev/null ;;
    *) echo "Dockerfile: $word is not known here" && exit 1 ;;
  esac
done

#!/bin/bash
# usage: replay.sh TRACE TESSERA: runs the commands of a trace ("$ tessera ...") in an empty folder and
# compares what they print with what follows them; TESSERA_BLESS=1 rewrites the trace instead.
# Times and thread counts are not compared. "exit N" follows a command whose status is not 0.
set -u
trace=$(realpath "$1")
tessera=$(realpath "$2")
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder" || exit 1
export TESSERA_BACKEND=interpret # on a machine with a GPU too
tessera() { "$tessera" "$@"; }
fresh=$folder.fresh
while IFS= read -r line; do
  case $line in
    '$ '*)
      echo "$line"
      (eval "${line#\$ }") 2>&1 </dev/null
      status=$?
      [[ $status -eq 0 ]] || echo "exit $status"
      ;;
    '#'*) echo "$line" ;;
  esac
done <"$trace" | sed -E 's/interpreted in [0-9.]+ [a-z]+ on [0-9]+ threads?/interpreted in TIME/; s/interpreted in [0-9.]+ [a-z]+ on/interpreted in TIME on/; s/counted in [0-9.]+ [a-z]+/counted in TIME/' >"$fresh"
if [[ -n ${TESSERA_BLESS-} ]]; then
  cp "$fresh" "$trace"
else
  diff -u "$trace" "$fresh"
fi
status=$?
rm -f "$fresh"
exit $status

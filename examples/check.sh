#!/bin/bash
# usage: check.sh SOURCE PROGRAM ARGS...: the program prints what the source says at its end.
# TESSERA_BLESS=1 writes what it printed into the source instead.
set -u
source=$1
shift
printed=$("$@") || { echo "$printed"; exit 1; }
if [[ -n ${TESSERA_BLESS-} ]]; then
  { sed '/^\/\* expected output$/q' "$source"; echo "$printed"; echo "*/"; } >"$source.tmp" && mv "$source.tmp" "$source"
  exit
fi
diff <(sed '1,/^\/\* expected output$/d;/^\*\/$/d' "$source") <(echo "$printed")

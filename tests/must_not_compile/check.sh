#!/bin/bash
# usage: check.sh FILE COMPILER FLAGS...: FILE compiles; with -DBAD it does not, and says what it should. If a line ends in
# "// wrong", the first line of what cmake/name_the_line says names it and says that.
set -u
file=$1
shift
root=$(cd "$(dirname "$0")/../.." && pwd)
expected=$(sed -n 's|^// expect: ||p' "$file")
"$@" -fsyntax-only "$file" || { echo "the good twin does not compile"; exit 1; }
if log=$("$root/cmake/name_the_line" "$root" "$@" -fsyntax-only -DBAD "$file" 2>&1); then
  echo "the bad program compiles"
  exit 1
fi
grep -qF -- "$expected" <<<"$log" || { echo "no '$expected' in:"; head -c 3000 <<<"$log"; exit 1; }
wrong=$(grep -n '// wrong$' "$file" | cut -d: -f1)
[[ -z $wrong ]] || head -1 <<<"$log" | grep -qF -- "${file##*/}:$wrong: error: $expected" || {
  echo "line $wrong is not named at once:"
  head -c 1000 <<<"$log"
  exit 1
}

#!/bin/bash
# usage: check.sh FILE COMPILER FLAGS...: FILE compiles; with -DBAD it does not, and says what it should. If a line ends in
# "// wrong", the first three lines of what the compiler says name it.
set -u
file=$1
shift
expected=$(sed -n 's|^// expect: ||p' "$file")
"$@" -fsyntax-only "$file" || { echo "the good twin does not compile"; exit 1; }
if log=$("$@" -fsyntax-only -DBAD "$file" 2>&1); then
  echo "the bad program compiles"
  exit 1
fi
grep -qF -- "$expected" <<<"$log" || { echo "no '$expected' in:"; head -c 3000 <<<"$log"; exit 1; }
wrong=$(grep -n '// wrong$' "$file" | cut -d: -f1)
[[ -z $wrong ]] || head -3 <<<"$log" | grep -q "${file##*/}:$wrong:" || {
  echo "line $wrong is not named at once:"
  head -c 1000 <<<"$log"
  exit 1
}

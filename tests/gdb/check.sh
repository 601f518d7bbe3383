#!/bin/bash
# usage: check.sh PROGRAM ROOT: gdb stops in the body, prints its tiles and frames readably, goes on to the next cell.
set -u
command -v gdb >/dev/null || { echo "skipped: no gdb"; exit 77; }
line=$(grep -n 'gdb stops here' "$2/tests/gdb/stepped.cpp" | cut -d: -f1)
printed=$(gdb -q -batch -x "$2/scripts/tessera_gdb.py" -ex 'set breakpoint pending on' -ex "break stepped.cpp:$line" -ex run \
  -ex 'print v' -ex 'print narrow' -ex 'print x' -ex 'print o' -ex 'print *o' -ex bt -ex delete -ex tessera-cell -ex next -ex 'print x' "$1" 2>&1)
if grep -q 'ptrace: Operation not permitted' <<<"$printed"; then echo "skipped: no ptrace here"; exit 77; fi
for wanted in 'Tile of float (8, 128)' '0.5        1.5        2.5' 'Tile of tessera::bf16 (8, 128)' 'ref to float (8, 128)' \
  '0          1          2' 'ref to tessera::bf16 (8, 128)' '$5 = ref to tessera::bf16 (8, 128)' '      1000       1001' \
  '#0  Stepped::operator() (' 'tessera::detail::TypedBody::run ('; do
  grep -qF -- "$wanted" <<<"$printed" || { echo "no '$wanted' in:"; echo "$printed"; exit 1; }
done
long=$(grep -E '^#[0-9]+ ' <<<"$printed" | awk 'length > 250')
[[ -z $long ]] || { echo "a frame takes more than a line or two: $long"; exit 1; }

#!/bin/bash
# usage: ill_behaved.sh PROGRAM: bodies that do not end, or end the program, are told by kernel, step and line.
set -u
program=$1
faults=${2:-handled}
log=$(mktemp)
trap 'rm -f "$log"' EXIT
failed=0

# expect CODE SECONDS TEXT...: of the last command.
expect() {
  local code=$1 seconds=$2
  shift 2
  [ "$got" = "$code" ] || { echo "exit $got, not $code:"; failed=1; }
  ((took <= seconds)) || { echo "took $took s, not $seconds:"; failed=1; }
  for text in "$@"; do
    grep -qF -- "$text" "$log" || { echo "no '$text' in:"; failed=1; }
  done
  [ "$failed" = 0 ] || { echo "$what"; cat "$log"; exit 1; }
}
run() {
  what=$*
  SECONDS=0
  timeout 30 "$program" "$@" >"$log" 2>&1
  got=$? took=$SECONDS
}
interrupt() {
  what="Ctrl-C: $*"
  SECONDS=0
  timeout --preserve-status -s INT 1 "$program" "$@" >"$log" 2>&1
  got=$? took=$SECONDS
}

run run ill_behaved
expect 0 10
for threads in 1 3; do
  run run ill_behaved mode=1 --threads "$threads" --time-limit 1
  expect 1 5 'error[time-limit]: the run took longer than its limit of time' 'grid (i=2)' \
    'ill_behaved.cpp:' 'while (for_ever) *y = *x;'
done
# What never looks at its flag is told by a handler, which has no line under a sanitizer.
loop=('while (m == Mode::empty_loop && for_ever) {')
there=('ill_behaved.cpp:')
[ "$faults" = handled ] || loop=() there=()
run run ill_behaved mode=2 --threads 1 --time-limit 1
expect 1 5 'error[time-limit]' 'ill_behaved (mode=2, blocks=4), grid (i=2)' "${loop[@]}"
run run ill_behaved mode=1 --threads 1 --schedule random:1 --time-limit 1
expect 1 5 'error[time-limit]' 'grid (i=2)' 'while (for_ever) *y = *x;'
run run ill_behaved mode=2 --dry --time-limit 1
expect 1 5 'error[time-limit]' "${loop[@]}"
run golden make ill_behaved mode=1 --out "$log.golden" --time-limit 1
expect 1 5 'error[time-limit]' 'while (for_ever) *y = *x;'
run sweep ill_behaved mode=1 blocks=4,8 --time-limit 1
line=('while (for_ever) *y = *x;')
[ "$faults" = handled ] || line=()
expect 1 5 'error[time-limit]' 'grid (i=2)' "${line[@]}"
if [ "$faults" = handled ]; then
  for threads in 1 3; do
    run run ill_behaved mode=3 --threads "$threads"
    expect 1 5 "error[crash]: the kernel's body reads or writes memory that is not its own, at 0x0" \
      'grid (i=2)' 'if (m == Mode::null) *nowhere = 1;'
  done
  run run ill_behaved mode=4 --threads 1
  expect 1 5 'error[crash]' 'grid (i=2)' 'ill_behaved.cpp:'
fi
for threads in 1 3; do
  run run ill_behaved mode=5 --threads "$threads"
  expect 1 5 'error[check]' 'grid (i=1)' 'the second step is right'
  if grep -q 'the last step is right' "$log"; then echo "more than the first error:"; cat "$log"; exit 1; fi
  run run ill_behaved mode=5 --threads "$threads" --keep-going
  expect 1 5 'grid (i=1)' 'the second step is right' 'grid (i=3)' 'the last step is right'
done
for mode in 1 2; do
  interrupt run ill_behaved mode=$mode --threads 1
  expect 130 3 'error[interrupted]: the run was interrupted' 'grid (i=2)' "${there[@]}"
done

#!/bin/bash
# usage: aarch64.sh BUILD ARM [WHEEL]: what was built for ARM (scripts/wheel --arch aarch64, in build/aarch64/release), run by qemu, has the
# bits of BUILD, made for this machine: results and traffic of every kernel of it that both have, their goldens, modules (kernels' TPU
# builds, and the corpus of ../shared where it is). WHEEL is unpacked for an ARM Python, which then finds the race of an example's kernel.
set -u
[ $# -ge 2 ] || exit 2
tree=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
here=$(realpath "$1")/cli/tessera
built=$(realpath "$2")
wheel=${3:+$(realpath "$3")}
root=$tree/build/aarch64/root
emulator=(qemu-aarch64 -L "$root")
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder" || exit 1
same=0 failed=0

# No kernel of a machine starts another machine's programs by itself: the one that the program starts is started so.
by_qemu() { # the program, the script that starts it
  rm -f "$2"
  printf '#!/bin/sh\nexec %s %s "$@"\n' "${emulator[*]}" "$1" >"$2"
  chmod +x "$2"
}
by_qemu "$built/program/tessera-import" "$built/cli/tessera-import"
arm() { "${emulator[@]}" "$built/cli/tessera" "$@"; }

# What a run moved and predicted, of tessera.run/1; neither its seconds nor the oracle's rounding.
counted() {
  python3 -c 'import json, sys; r = json.load(open(sys.argv[1])); print(json.dumps([r[k] for k in ("traffic", "memory", "grid", "undefined", "timeline", "lines")]))' "$1"
}

# The same words for both; then outputs are compared bit by bit.
compare() { # name, then words
  local name=$1 file
  shift
  rm -rf here arm
  "$here" run "$@" --output here --json here.json >here.txt 2>&1 || { echo "$name: does not run here: $(grep -m1 error here.txt)"; return; }
  arm run "$@" --output arm --json arm.json >arm.txt 2>&1 || { echo "$name: fails on ARM: $(cat arm.txt)"; failed=$((failed + 1)); return; }
  [ -n "$(ls here)" ] || { echo "$name: no outputs"; failed=$((failed + 1)); return; }
  for file in here/*.npy; do
    cmp "$file" "arm/${file#here/}" || { echo "$name: other bits"; failed=$((failed + 1)); return; }
  done
  [ "$(counted here.json)" = "$(counted arm.json)" ] || { echo "$name: other traffic"; failed=$((failed + 1)); return; }
  same=$((same + 1))
}

for library in "$built"/cli/libtessera_kernel_*.so; do
  kernel=${library##*_kernel_}
  kernel=${kernel%.so}
  for dtype in f32 bf16; do
    compare "$kernel $dtype" "$kernel" --case 1 --dtype "$dtype"
  done
  "$here" golden make "$kernel" --case 1 --out "gold_$kernel" >/dev/null || failed=$((failed + 1))
  if arm golden check "gold_$kernel" --backend interpret >arm.txt 2>&1 && grep -q 'bit-exact' arm.txt; then same=$((same + 1)); else
    cat arm.txt
    failed=$((failed + 1))
  fi
  if "$here" build "$kernel" --case 1 --target tpu --out "module_$kernel" >/dev/null 2>&1; then compare "module of $kernel" "module_$kernel"; fi
done
for call in "$tree"/../shared/mosaic-corpus/*/kernel.mlirbc; do
  [ ! -e "$call" ] || compare "$(basename "$(dirname "$call")")" "$(dirname "$call")"
done
echo "on ARM the same: $same; not: $failed"

if [ -n "$wheel" ]; then
  # pip chooses by an ARM system's tags; a wheel of another is refused.
  python3 -m venv pip
  platforms=
  for glibc in $(seq 17 36); do platforms+=" --platform manylinux_2_${glibc}_aarch64"; done
  # shellcheck disable=SC2086
  pip/bin/pip install -q --disable-pip-version-check --target site --only-binary=:all: $platforms --implementation cp --python-version 3.11 \
    "$wheel" || exit 1
  for program in site/tessera/armv8-a/tessera-import site/tessera/armv8-a/tessera; do
    mv "$program" "$program.arm"
    by_qemu "$PWD/$program.arm" "$program"
  done
  PYTHONPATH=$PWD/site "${emulator[@]}" "$root/usr/bin/python3.11" "$tree/examples/pallas/40_double_buffer.py" >first.txt 2>&1
  grep '^error\[race\]' first.txt || { cat first.txt; failed=$((failed + 1)); }
fi
[ "$failed" = 0 ] && [ "$same" != 0 ]

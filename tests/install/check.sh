#!/bin/bash
# usage: check.sh BUILD: installs into a clean prefix, starts a project with `tessera new`, builds it
# against the installed library alone, runs it and its tests.
set -eu
build=$(cd "$1" && pwd)
tests=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cmake --install "$build" --prefix "$folder/prefix" >/dev/null
cd "$folder"
# What it loads and hands out lies beside it: an installation may be moved, and its sources may go.
mv prefix moved
moved/bin/tessera run add_vectors | grep 'agrees with reference::add_vectors'
[[ ! -x moved/bin/tessera-import ]] || moved/bin/tessera show "$tests/pallas/rich.mlirbc" | grep '^VMEM'
if [[ -e moved/lib/tessera/libtessera_mpi.so ]]; then
  OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 mpirun --oversubscribe -n 2 moved/bin/tessera run ring_all_gather --devices 4 |
    grep 'agrees with reference::ring_all_gather'
fi
for words in 'completion bash:bash-completion/completions/tessera' 'completion zsh:zsh/site-functions/_tessera' \
  'completion fish:fish/vendor_completions.d/tessera.fish' 'man:man/man1/tessera.1'; do
  # shellcheck disable=SC2086
  moved/bin/tessera ${words%:*} | cmp - "moved/share/${words#*:}"
done
moved/bin/tessera bless add_vectors --out goldens >/dev/null
diff goldens/tessera_golden.py moved/share/tessera/tessera_golden.py
mv moved prefix
prefix/bin/tessera new scaled_sum
(prefix/bin/tessera new scaled_sum 2>&1 || true) | grep -q 'exists already'
cmake -S scaled_sum -B build -G Ninja -DCMAKE_PREFIX_PATH="$folder/prefix" >/dev/null
cmake --build build
build/scaled_sum run scaled_sum | grep 'agrees with reference::scaled_sum'
# What is exported says nothing of processors; for any of them the bits are the same.
! grep -rn 'march=\|mtune=\|mavx' prefix/lib/cmake/tessera || exit 1
build/scaled_sum run scaled_sum --case 1 --output native >/dev/null
cmake -S scaled_sum -B anywhere -G Ninja -DNATIVE=OFF -DCMAKE_PREFIX_PATH="$folder/prefix" >/dev/null
cmake --build anywhere
grep -q 'march' anywhere/build.ninja && exit 1
anywhere/scaled_sum run scaled_sum --case 1 --output anywhere.out >/dev/null
for file in native/*.npy; do cmp "$file" "anywhere.out/$(basename "$file")"; done
build/scaled_sum show scaled_sum >/dev/null
(build/scaled_sum run scaled_summ 2>&1 || true) | grep -F 'help    build/scaled_sum list'
build/scaled_sum run scaled_sum --case 1 --json run.json >/dev/null
grep -q '"schema": "tessera.run/1"' run.json
ctest --test-dir build --output-on-failure
# Its CUDA build, where the library was built with one: loaded, if not run for want of a GPU.
if nvcc=$(grep -oP '^TESSERA_NVCC:FILEPATH=\K/.*' "$build/CMakeCache.txt"); then
  cmake -S scaled_sum -B build -DTESSERA_CUDA=ON "-DTESSERA_NVCC=$nvcc" >/dev/null
  cmake --build build
  printed=$(build/scaled_sum compare scaled_sum --backend cuda 2>&1) ||
    [[ $printed == *"no CUDA device"* || $printed == *"no Hopper GPU"* ]] || { echo "$printed"; exit 1; }
  cmake -S scaled_sum -B build -DTESSERA_CUDA=OFF >/dev/null
fi
# Its TPU build, where tessera reads modules: the interpreter's bits on this machine.
if [[ -x prefix/bin/tessera-import ]]; then
  cmake -S scaled_sum -B build -DTESSERA_TPU=ON >/dev/null
  cmake --build build
  build/scaled_sum build scaled_sum --case 1 --target tpu --out module
  grep -q 'scaled_sum/scaled_sum.hpp":' module/kernel.mlir
  prefix/bin/tessera run module --output tpu
  build/scaled_sum run scaled_sum --case 1 --output here
  cmp tpu/*.npy here/*.npy
  cmake -S scaled_sum -B build -DTESSERA_TPU=OFF >/dev/null
fi
# An error in the user's kernel names the user's line.
sed -i 's/\*o = cast/*o = *o; *o = cast/' scaled_sum/scaled_sum.hpp
sed -i 's/\*o = \*o;/*o += cast<T>(0.f * cast<float>(*x));/' scaled_sum/scaled_sum.hpp
cmake --build build
if build/scaled_sum run scaled_sum 2>err.txt; then exit 1; fi
grep -q 'error\[uninit-read\]' err.txt
grep -q 'scaled_sum/scaled_sum.hpp:[0-9]*  \*o += cast' err.txt || { cat err.txt; exit 1; }
# What does not compile is said at the user's line first.
sed -i 's/\*o += cast<T>(0.f/*o += tanh(0.f/' scaled_sum/scaled_sum.hpp
if cmake --build build >err.txt 2>&1; then exit 1; fi
grep -m1 ': error: ' err.txt | grep -q 'scaled_sum/scaled_sum.hpp:[0-9]*: error: .*#include "sim/ops/tanh.hpp"' || { cat err.txt; exit 1; }

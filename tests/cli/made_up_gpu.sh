#!/bin/bash
# usage: made_up_gpu.sh TESSERA KERNELS MODULE: tune, why and run --tuned with --backend cuda, beside a module of
# kernels whose times are made up (made_up_gpu.cpp): all but the GPU.
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cp "$1" "$folder/tessera"
cp "$2" "$folder/"
cp "$3" "$folder/libtessera_cuda.so"
cd "$folder"
fail() {
  echo "made_up_gpu: $1: $said" >&2
  exit 1
}
ask() { said=$(./tessera "$1" matmul m=512 n=1024 k=512 --dtype bf16 --backend cuda --cache c.sqlite "${@:2}" 2>&1) || fail "$1 ${*:2}"; }
has() { grep -q -- "$1" <<<"$said" || fail "no '$1'"; }
grid=(bm=64,128 bn=64,128,256 bk=64,128)

# What is predicted serves, and says that nothing is measured.
said=$(./tessera tune matmul m=512 n=1024 k=512 "${grid[@]}" --dtype bf16 --device h200 --cache c.sqlite)
ask why
has 'persistent nothing for m=512 n=1024 k=512 on NVIDIA H200 in c.sqlite'
has 'persistent the fastest of 12 candidates, predicted, for m=512 n=1024 k=512 on h200; in c.sqlite'
has '^0 candidates, measured'

ask tune "${grid[@]}" --candidates all
has '^matmul bf16 m=512 n=1024 k=512 on NVIDIA H200, driver 1.2.3: 12 of 12 candidates, the first as predicted for h200, 0 known'
has '^  bm=64 bn=256 bk=64  *[0-9.]* us  *±0.[0-9]* %  *1.00x  *[0-9.]* us .*<- chosen'
has '^bm=64 bn=256 bk=64: measured, with 95 % confidence'
ask tune "${grid[@]}" --candidates all
has '12 known from before'

ask why
has 'persistent the fastest of 12 candidates, measured, with 95 % confidence, for m=512 n=1024 k=512 on NVIDIA H200; in c.sqlite'
has '^12 candidates, measured'
has '^bm=64 bn=256 bk=64 by the persistent tier'

# For other sizes, in time; what this module has not cannot be compiled here, and says so.
said=$(./tessera tune matmul m=256 n=256 k=256 bm=64,128 bn=64,96 bk=64 --dtype bf16 --backend cuda --budget 20s --cache d.sqlite --export e.json 2>&1) || fail tune
has '^  bm=64 bn=96 bk=64: .*not 64,96,64'
grep -q '"how": "measured, ' e.json || fail "$(cat e.json)"
grep -q '"device": "NVIDIA H200"' e.json || fail "$(cat e.json)"

said=$(./tessera tune matmul --dtype bf16 --backend cuda --device tpu-v5e --cache c.sqlite 2>&1) && fail 'a TPU'
has 'error\[bad-usage\]: --backend cuda times candidates that are predicted for a GPU, not tpu-v5e'

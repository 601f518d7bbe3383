#!/bin/bash
# usage: same_bits.sh TESSERA: every case of every kernel, in f32 and bf16, on the GPU and
# interpreted. Skipped without a GPU.
set -u
tessera=$1
kernels=$("$tessera" list | sed -nE '/^$/q; s/^([a-z0-9_]+) .*/\1/p')
ran=0
for kernel in $kernels; do
  for dtype in f32 bf16; do
    printed=$("$tessera" compare "$kernel" --backend cuda --oversubscribe --dtype "$dtype" 2>&1)
    status=$?
    echo "$printed"
    [[ $status -eq 2 && $printed == *"error[no-backend]"* ]] && continue
    [[ $status -eq 0 ]] || exit 1
    ran=1
  done
done
[[ $ran -eq 1 ]] || { echo "skipped: no GPU"; exit 77; }

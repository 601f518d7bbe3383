#!/bin/bash
# usage: portable_instance.sh TESSERA: the path without TMA and wgmma, compiled for a GPU that is not
# Hopper; blocks that fit one GPU and not another are told before.
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
export XDG_CACHE_HOME=$folder
ask() { "$1" build matmul m=512 n=512 k=512 bm=128 bn=128 bk="$2" --dtype bf16 --target cuda --device "$3" 2>&1; }
made=$(ask "$1" 64 a100)
grep -q 'bm=128 bn=128 bk=64, portable, sm_80: [0-9]* registers a thread, compiled in' <<<"$made"
[[ $made != *warning* ]]
if refused=$(ask "$1" 256 l4); then exit 1; fi
grep -q 'error\[no-backend\]: blocks of matmul take 128 KiB of the 98.0 KiB of shared memory that a CTA has on sm_89: x 64.0 KiB, y 64.0 KiB' <<<"$refused"
[[ $(find "$folder" -name '*.so' | wc -l) -eq 1 ]]
# Attention of 128 queries beside 64 keys has its registers.
attention=$("$1" build flash_attention batch=1 heads=1 kv_heads=1 q_len=128 kv_len=128 head_dim=128 bq=128 bk=64 bd=128 --dtype bf16 --target cuda --device a100 2>&1)
grep -q 'bk=64 bd=128.*, portable, sm_80: 168 registers a thread, compiled in' <<<"$attention"
[[ $attention != *"find no register"* ]]

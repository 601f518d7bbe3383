#!/bin/bash
# usage: one_instance.sh TESSERA: nvcc compiles the instance that is asked for, once; blocks that do not
# fit are told before.
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
export XDG_CACHE_HOME=$folder
ask() { "$1" build softmax_rows m=64 n=700 bm=4 bn="$2" --target cuda 2>&1; }
first=$(ask "$1" 704)
grep -q 'compiling softmax_rows f32 with tiles 4,704, by nvcc, once' <<<"$first"
grep -q 'softmax_rows f32 m=64 n=700, bm=4 bn=704: [0-9]* registers a thread, compiled in' <<<"$first"
[[ $first != *warning* ]]
second=$(ask "$1" 704)
grep -q 'registers a thread, compiled before' <<<"$second"
[[ -f $(tail -1 <<<"$second") ]]
# What launches is compiled no second time.
if refused=$(ask "$1" 70000); then exit 1; fi
grep -q 'error\[no-backend\]: blocks of softmax_rows take [0-9.]* [KM]iB of the 227 KiB of shared memory that a CTA has: x ' <<<"$refused"
[[ $(find "$folder" -name 'backend-*.o' | wc -l) -eq 1 ]]
# A prediction from nvcc's code counts the bytes of local memory that ptxas does; the code is kept.
predicted() { "$1" run matmul m=512 n=512 k=256 bm=256 bn=128 bk=64 --device h100 --dry --timing compiler "${@:2}"; }
said=$(predicted "$1" 2>&1)
grep -q 'compiling matmul f32 with tiles 256,128,64, by nvcc, once' <<<"$said"
grep -q "nvcc's code: [0-9]* registers a thread, [1-9][0-9]* bytes of local memory" <<<"$said"
said=$(predicted "$1" --json - 2>&1)
[[ $said != *compiling* ]]
log=$(ls "$folder"/tessera/cuda/matmul-f32-256x128x64-*.cubin.log)
stores=$(grep -o '[0-9]* bytes spill stores' "$log" | sort -n | tail -1)
loads=$(grep -o '[0-9]* bytes spill loads' "$log" | sort -n | tail -1)
grep -q "\"local_store_bytes\": ${stores%% *}," <<<"$said"
grep -q "\"local_load_bytes\": ${loads%% *}," <<<"$said"
# Block shapes are ranked by it: the same time, of the same code.
rank_seconds=$(sed -n 's/.*"rank_seconds": \([0-9.e-]*\),*$/\1/p' <<<"$said")
"$1" tune matmul m=512 n=512 k=256 bm=256 bn=128 bk=64 --device h100 --timing compiler --candidates all --cache "$folder/tiles.sqlite" >"$folder/tuned" 2>&1
grep -q '^bm=256 bn=128 bk=64: by the code that nvcc made' "$folder/tuned"
if grep compiling "$folder/tuned"; then exit 1; fi
"$1" tune matmul --export "$folder/tiles.json" --cache "$folder/tiles.sqlite" >/dev/null
grep -q "\"seconds\": $rank_seconds," "$folder/tiles.json"
# A program whose sources are gone says so.
mkdir "$folder/alone"
cp "$1" "$folder/alone/tessera"
ln -s "$(dirname "$(readlink -f "$1")")"/libtessera_kernel_softmax_rows.so "$folder/alone"
if refused=$("$folder/alone/tessera" run softmax_rows m=64 n=700 bm=4 bn=704 --device h100 --dry --timing compiler 2>&1); then exit 1; fi
grep -q 'error\[no-backend\]: --timing compiler asks nvcc: this program was built without its CUDA kernels: nvcc was not found' <<<"$refused"
recipe=$(dirname "$(readlink -f "$1")")/../cuda/libtessera_cuda.recipe
sed 's#^headers .*#headers /gone#' "$recipe" >"$folder/alone/libtessera_cuda.recipe"
if refused=$(ask "$folder/alone/tessera" 704); then exit 1; fi
grep -q 'error\[no-backend\]: nothing can be compiled for a GPU here: what this program was built of is no longer at /gone' <<<"$refused"
# Nor does one compile with other headers than it was built with itself: it could not run what comes of that.
headers=$(sed -n 's/^headers //p' "$recipe")
mkdir "$folder/changed"
cp -r "$headers"/{cuda,kernels,memory_model,sim} "$folder/changed"
echo '// changed' >>"$folder/changed/cuda/backend.hpp"
sed "s#^headers .*#headers $folder/changed#" "$recipe" >"$folder/alone/libtessera_cuda.recipe"
if refused=$(ask "$folder/alone/tessera" 704); then exit 1; fi
grep -q "error\[no-backend\]: the headers in $folder/changed are not those that this program was built of" <<<"$refused"

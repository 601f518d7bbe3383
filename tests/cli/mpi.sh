#!/bin/bash
# usage: mpi.sh TESSERA EVERY: a mesh spread over 2 and 4 ranks gives the bytes and the ledger of one process,
# and a hazard is told alike; a sweep, and tuning, shared by ranks are those of one. EVERY=false: some kernels, one
# schedule; true: all that have meshes, each schedule with 2 or 4 ranks, one of them with both.
set -u
tessera=$(realpath "$1")
schedules=(random:3/4)
kernels=(ring_all_gather all_reduce ring_attention)
if [[ $2 == true ]]; then
  schedules=(eager/2 on_wait/4 random:3/2 random:3/4)
  kernels+=(reduce_scatter all_to_all all_gather_matmul matmul_reduce_scatter halo_exchange matmul)
fi
command -v mpirun >/dev/null || { echo "skipped: no mpirun"; exit 77; }
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder" || exit 1
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
# Open MPI's plug-ins never free what they allocate, and are unloaded before a suppression could name them.
export ASAN_OPTIONS=detect_leaks=0
failed=0
for kernel in "${kernels[@]}"; do
  for schedule in "${schedules[@]}"; do
    ranks=${schedule#*/}
    run=("$tessera" run "$kernel" --devices 6 --case 1 --schedule "${schedule%/*}")
    rm -rf one many
    "${run[@]}" --output one --json one.json >/dev/null || failed=1
    if ! timeout 60 mpirun --oversubscribe -n "$ranks" "${run[@]}" --output many --json many.json >out 2>&1; then
      echo "FAILED: $kernel, $schedule, $ranks ranks"
      cat out
      failed=1
      continue
    fi
    for file in one/*; do cmp "$file" "many/${file#one/}" || failed=1; done
    diff <(grep -v '"seconds"' one.json) <(grep -v '"seconds"' many.json) || failed=1
  done
done
sweep=("$tessera" sweep matmul m=1024 n=1024 k=1024 bm=64,128 bn=64,128 bk=32,64 --device tpu-v5e,h200)
"${sweep[@]}" --json one.json >one.txt || failed=1
for ranks in 3 20; do
  timeout 60 mpirun --oversubscribe -n "$ranks" "${sweep[@]}" --json many.json >many.txt 2>out || { cat out; failed=1; }
  cmp one.json many.json && cmp one.txt many.txt || failed=1
done
# Ranks share the candidates, whether or not they share a cache; rank 0's has all of them.
tune=("$tessera" tune matmul m=1024 n=1024 k=1024 bm=128,256 bn=128,512 bk=512,64)
told() { sed 's/tuned in.*//; s/^[a-z0-9]*\.sqlite has it/CACHE has it/'; }
"${tune[@]}" --cache one.sqlite | told >one.txt || failed=1
# shellcheck disable=SC2016
timeout 60 mpirun --oversubscribe -n 3 bash -c '"$@" --cache "rank$OMPI_COMM_WORLD_RANK.sqlite"' tune "${tune[@]}" 2>out | told >many.txt || { cat out; failed=1; }
diff one.txt many.txt || failed=1
for share in 0/8 1/3 2/2; do
  "${tune[@]}" --cache "rank${share%/*}.sqlite" | grep -q ", ${share#*/} known from before" || { echo "FAILED: the share of rank ${share%/*}"; failed=1; }
done
for known in 0 8; do
  timeout 60 mpirun --oversubscribe -n 3 "${tune[@]}" --cache shared.sqlite >many.txt 2>out || { cat out; failed=1; }
  grep -q ": 8 candidates, $known known from before, 4 cannot run" many.txt || { echo "FAILED: tuning into one cache"; cat many.txt; failed=1; }
done
for cache in one shared; do "$tessera" tune matmul --export $cache.json --cache $cache.sqlite; done
cmp one.json shared.json || failed=1
# What is wrong in one process is wrong in several: input that no rank takes, a schedule that needs one process.
for bad in "matmul m=0" "ring_all_gather rows=10" "ring_all_gather --schedule explore:5"; do
  # shellcheck disable=SC2086
  timeout 60 mpirun --oversubscribe -n 2 "$tessera" run $bad --devices 4 >out 2>&1
  [[ $? -eq 2 ]] && grep -q '^error\[bad-input\]' out || { echo "FAILED: $bad"; cat out; failed=1; }
done
exit $failed

#!/bin/bash
# usage: script.sh ROOT: the script ./tessera asks for what reads Mosaic modules exactly where a module is among its
# arguments, and builds what the arguments need. In a folder of its own, with programs that only note how they were called.
set -u
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cp "$1/tessera" "$1/packages.txt" "$folder/"
cd "$folder" || exit 1
mkdir bin
for program in cmake ninja sudo apt-get; do
  printf '#!/bin/bash\necho "%s $*" >>"%s/called"\n' "$program" "$folder" >"bin/$program"
done
chmod +x bin/*
mkdir -p calls/000_k "a golden/inputs" plain/inputs kernels/entries recorded/calls kernels_alone
touch {recorded,kernels_alone}/records.jsonl
touch kernels/entries/{matmul,softmax_rows}.hpp
mkdir -p launch
touch launch/kernel.generic.mlir
touch kernel.mlirbc kernel.mlir calls/000_k/kernel.mlirbc "a golden/inputs/kernel.mlir" plain/inputs/x.npy
failed=0

asks() { # yes or no, then arguments
  local wanted=$1 found=no
  shift
  rm -rf called build
  mkdir -p build/release/cli
  printf '#!/bin/bash\necho "ran $*"\n' >build/release/cli/tessera
  chmod +x build/release/cli/tessera
  local printed
  printed=$(PATH=$folder/bin:$PATH ./tessera "$@" 2>/dev/null)
  [[ $printed == "ran $*" ]] || { echo "./tessera $*: '$printed'"; failed=1; }
  grep -q -e '^cmake .*-DTESSERA_MOSAIC=ON' called && found=yes
  [[ $found == "$wanted" ]] || { echo "./tessera $*: Mosaic $found, not $wanted"; failed=1; }
}

asks yes run kernel.mlirbc
asks yes run --dry calls/000_k
asks yes show kernel.mlir
asks yes extract program.txt
asks yes run launch
asks yes golden make calls/000_k --out gold
asks yes golden check "a golden" --outputs of_a_tpu
asks yes golden bisect "a golden" --backend interpret
asks yes sweep calls/000_k --device tpu-v5e,tpu-v6e
asks yes advise kernel.mlirbc --input 0=x.npy
asks yes bless kernel.mlirbc
asks yes compare calls/000_k --backend cuda
asks yes replay recorded
asks no replay kernels_alone
asks no run matmul m=512 --input x=x.npy
asks no golden check plain --backend cuda
asks no compare a.json b.json
asks no

builds() { # targets, then arguments
  local wanted=$1 found
  shift
  rm -f called
  PATH=$folder/bin:$PATH ./tessera "$@" >/dev/null 2>&1
  found=$(sed -n 's/^ninja -C [^ ]* //p' called)
  [[ $found == "$wanted" ]] || { echo "./tessera $*: builds '$found', not '$wanted'"; failed=1; }
}

builds 'tessera tessera_kernel_matmul' run matmul m=512
builds 'tessera tessera_kernel_softmax_rows' sweep softmax_rows br=8,16
builds 'tessera tessera_modules' run calls/000_k
builds 'tessera tessera_modules tessera_kernel_matmul tessera_mosaic_matmul' run matmul --timing units
builds 'tessera tessera_kernel_matmul' run matmul --timing model
builds 'tessera' run a_typing_error
builds 'tessera' devices
builds 'tessera_everything' list
builds 'tessera_everything' replay kernels_alone
builds 'tessera_everything' golden check plain --backend interpret

says() { # what standard error has, then a program for ninja, then every how many seconds
  local wanted=$1 said
  printf '#!/bin/bash\n%s\n' "$2" >bin/ninja
  said=$(PATH=$folder/bin:$PATH TESSERA_PROGRESS_SECONDS=${3-0.4} ./tessera run matmul 2>&1 >/dev/null | grep -v -e '^tessera: compiling' -e '^tessera: configuring')
  [[ $said =~ ^($wanted.?)*$ && ( -n $said || -z $wanted ) ]] || { echo "a build in a pipe that does '$2' says '$said', not '$wanted'"; failed=1; }
}

says 'tessera: \[7/9\], [0-9]+ s' 'echo "[6/9] a.o"; echo "[7/9] Building b.o"; sleep 0.6'
says 'tessera: Fetching a thing, [0-9]+ s' 'echo "Fetching a thing"; sleep 0.6'
# Nothing is left that holds the pipe.
took=$SECONDS
says '' 'echo "[7/9] Building b.o"' 60
[[ $((SECONDS - took)) -lt 10 ]] || { echo "the pipe is held after the build"; failed=1; }
exit $failed

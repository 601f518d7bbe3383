#!/bin/bash
# usage: new_kernel.sh SOURCE BUILD: what a new kernel touches. Lays its header and its entry (with an oracle of its own)
# over SOURCE, configures that, compiles the objects that are new and links them with the rest of BUILD: the program
# and kernels_test have the kernel, and the blessed traces hold as they are.
set -eu
source=$(cd "$1" && pwd)
build=$(cd "$2" && pwd)
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
mkdir "$folder/tree"
for part in "$source"/*; do
  case ${part##*/} in
    build) ;;
    kernels) cp -r "$part" "$folder/tree" ;;
    *) ln -s "$part" "$folder/tree" ;;
  esac
done

# The kernel: as `tessera new` starts one.
cd "$folder"
"$build/cli/tessera" new scaled_sum >/dev/null
cp scaled_sum/scaled_sum.hpp tree/kernels/
# Beside it: a header in reference/ is one that all libraries are compiled with (cli/interface.hpp).
cp scaled_sum/oracle.hpp tree/kernels/scaled_sum_oracle.hpp
cat >tree/kernels/entries/scaled_sum.hpp <<'END'
#pragma once

#include "kernels/entry.hpp"
#include "kernels/scaled_sum.hpp"
#include "kernels/scaled_sum_oracle.hpp"

namespace tessera::kernels::entries {

constexpr auto scaled_sum = entry<ScaledSum>(
    [](const auto& k, In in) { return scaled_sum_oracle(in["x"], in["y"], k.alpha); });

}  // namespace tessera::kernels::entries
END

cached() { sed -n "s/^$1:[A-Z]*=//p" "$build/CMakeCache.txt"; }
cmake -S tree -B build -G Ninja -DCMAKE_BUILD_TYPE=Release "-DCMAKE_CXX_COMPILER=$(cached CMAKE_CXX_COMPILER)" \
  "-DTESSERA_DTYPES=$(cached TESSERA_DTYPES)" >/dev/null
# No other kernel is compiled again: only the lists are others.
diff -rq "$build/cli/builtin" build/cli/builtin | sed "s#$build#BUILD#; s#$folder/##" >changed || true
diff - changed <<'END'
Files BUILD/cli/builtin/list.cpp and build/cli/builtin/list.cpp differ
Only in build/cli/builtin: scaled_sum.cpp
Only in build/cli/builtin: scaled_sum_library.cpp
END
made() { # each by its own command: ninja would make the libraries of the tree first
  local file
  for file in "$@"; do
    (cd build && mkdir -p "${file%/*}" && eval "$(ninja -t commands "$file" | tail -1)")
  done
}
in_cli=cli/CMakeFiles
kernel=$in_cli/tessera_objects_scaled_sum.dir/builtin/scaled_sum.cpp.o
list=$in_cli/tessera_builtin.dir/builtin/list.cpp.o
names=$in_cli/tessera.dir/loaded_kernels.cpp.o
made generated/cli/interface.hpp "$kernel" "$list" "$names" $in_cli/tessera_kernel_scaled_sum.dir/builtin/scaled_sum_library.cpp.o \
  cli/libtessera_kernel_scaled_sum.so

# Links a program of BUILD once more, with other objects.
relink() { # program, sed script
  local link
  link=$(cd "$build" && ninja -t commands "$1" | tail -1 | sed "s# && cd .*##; s# -o $1 # -o $folder/${1##*/} #; $2")
  (cd "$build" && eval "$link")
}
relink cli/tessera "s# $names # $folder/build/$names #"
export LD_LIBRARY_PATH=$folder/build/cli:$build/cli # where a program's libraries lie, beside it elsewhere
diff <("$build/cli/tessera" list) <(./tessera list) >listed || true
diff <(grep '^[<>]' listed) - <<<'> scaled_sum             a scaled sum'
./tessera show scaled_sum >/dev/null
./tessera run scaled_sum | grep 'agrees with reference::scaled_sum'
for trace in kernels bad_input; do "$source/tests/cli/replay.sh" "$source/tests/cli/$trace.trace" tessera; done
# New objects come before the archive that has the others.
relink tests/kernels_test "s# -o # $folder/build/$list $folder/build/$kernel -o #"
./kernels_test 'scaled_sum: *' | grep 'All tests passed (.* in 4 test cases)'

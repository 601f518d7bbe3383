#!/bin/bash
# usage: check.sh RECIPE ROOT BUILD COMPILER: follows a recipe of CONTRIBUTING.md in a copy of the tree. What it adds is there
# once the places that the recipe lists are done, and scripts/recipes says which are not.
set -eu
recipe=$1 root=$2 build=$3 compiler=$4
copy=$(mktemp -d)
trap 'rm -rf "$copy"' EXIT
(cd "$root" && cp -r --parents cli cuda golden kernels memory_model pallas predict program python reference report sim triton docs cmake tests/cli \
  tests/diagnostics tests/hazards README.md "$copy")
fail() { echo "$*"; exit 1; }
says() { # what scripts/recipes says of the copy, all of it
  local said
  said=$("$root/scripts/recipes" "$copy" 2>&1) || true
  diff <(printf '%s' "$1") <(printf '%s' "$said") || fail "scripts/recipes says something else"
}
# The program, with an object before the archive's.
link() {
  (cd "$build" && eval "$(ninja -t commands cli/tessera | tail -n 1 | sed "s# -o cli/tessera # -Wl,-z,muldefs -o $copy/tessera $1 #")")
}
export LD_LIBRARY_PATH=$build/cli # where the program's libraries lie, beside it elsewhere
adds() { # one line to what a command prints
  diff <("$build/cli/tessera" "$1") <("$copy/tessera" "$1") >"$copy/diff" || true
  [[ $(grep -c '^[<>]' "$copy/diff") -eq 1 && $(grep '^>' "$copy/diff") == "> $2"* ]] || { cat "$copy/diff"; fail "tessera $1"; }
}
says ''

case $recipe in
  device)
    sed -e 's/"name": "tpu-v6e"/"name": "tpu-v0x"/; s/TPU v6 lite/TPU v0 extra/; s/"chip": "v6e"/"chip": "v0x"/' \
      "$root/memory_model/devices/tpu-v6e.json" >"$copy/memory_model/devices/tpu-v0x.json"
    cmake -DDIR="$copy/memory_model/devices" -DOUT="$copy/devices.cpp" -DNAMESPACE=tessera -DHEADER=memory_model/embedded_devices.hpp \
      -DTYPE=EmbeddedDevice -DFUNCTION=embedded_devices -P "$root/cmake/embed_files.cmake"
    "$compiler" -std=c++20 -I"$root" -c "$copy/devices.cpp" -o "$copy/devices.o"
    link "$copy/devices.o"
    adds devices 'tpu-v0x '
    "$copy/tessera" run add_vectors --device tpu-v0x | grep -q '^tpu-v0x ' || fail 'a run'
    if [[ -x $build/program/tessera-import ]]; then # a call that was recorded on one
      mkdir "$copy/call"
      ln -s "$build/program/tessera-import" "$copy/"
      cp "$root/tests/pallas/rich.mlirbc" "$copy/call/kernel.mlirbc"
      echo '{"chip": "v0x"}' >"$copy/call/meta.json"
      "$copy/tessera" show "$copy/call" | grep -q ' on tpu-v0x$' || fail 'a recorded call'
    fi
    says 'recipes: device tpu-v0x: bless tests/cli/kernels.trace'
    "$copy/tessera" devices >>"$copy/tests/cli/kernels.trace"
    says ''
    echo 'const char* kind = "TPU v0 extra";' >"$copy/pallas/kind.cpp"
    says 'recipes: pallas/kind.cpp names the chip TPU v0 extra: memory_model/devices alone lists chips'
    ;;
  op)
    cat >"$copy/sim/ops/twice.hpp" <<'END'
#pragma once

#include "sim/ops/op.hpp"

namespace tessera {

struct Twice {
  static constexpr OpInfo info{.name = "twice", .math = "a + a", .mosaic = "", .arity = 1, .max_ulp = 0};

  template <class T>
  TESSERA_FN static T apply(T a) {
    return a + a;
  }
};

template <TileLike A>
TESSERA_FN auto twice(const A& a) {
  return A::Backend::template map<Twice>(a);
}

}  // namespace tessera
END
    says 'recipes: op twice: sim/ops/all.hpp does not include sim/ops/twice.hpp
recipes: op twice is not in docs/ops.md: scripts/docs'
    sed -i -e 's/^#include "sim\/ops\/where.hpp"/#include "sim\/ops\/twice.hpp"\n&/; s/Tanh, Select/Tanh, Twice, Select/' \
      "$copy/sim/ops/all.hpp"
    object=cli/CMakeFiles/tessera_cli.dir/show_commands.cpp.o
    (cd "$build" && eval "$(ninja -t commands $object | grep -- "-o $object " | sed "s#-o $object #-I$copy -o $copy/show.o #; s# -I$root # -I$copy -I$root #")")
    link "$copy/show.o"
    adds ops 'twice '
    { echo; "$copy/tessera" ops --markdown; } >"$copy/docs/ops.md"
    says ''
    ;;
  diagnostic)
    cat >"$copy/sim/diagnostics/too_slow.cpp" <<'END'
#include "sim/diagnostics/slugs.hpp"
namespace tessera {
Diagnostic too_slow() { return {.slug = "too-slow", .headline = "it takes a day"}; }
}  // namespace tessera
END
    "$compiler" -std=c++20 -I"$copy" -fsyntax-only "$copy/sim/diagnostics/too_slow.cpp"
    says "recipes: sim/diagnostics/too_slow.cpp: diagnostic too-slow is not in README.md's table
recipes: sim/diagnostics/too_slow.cpp: diagnostic too-slow has no golden text in tests/"
    sed -i 's/^| `race` |/| `too-slow` | it takes a day |\n&/' "$copy/README.md"
    echo 'error[too-slow]: it takes a day' >"$copy/tests/diagnostics/too-slow.txt"
    says ''
    ;;
esac

// The compiler's messages, as libtpu 0.0.42 printed them, in one sentence.
#include "tpu_compiler/verdict.hpp"

#include <catch2/catch.hpp>

namespace tessera::tpu_compiler {
namespace {

Verdict read(const std::string& message) {
  Verdict v;
  read_message(message, v);
  return v;
}

TEST_CASE("a refusal by Mosaic has a code, a sentence and the kernel's line", "[tpu_compiler]") {
  const Verdict v = read(
      "INTERNAL: Mosaic failed to compile TPU kernel: E2001: CompileTimeMosaicUnsupportedRhsType: "
      "Unsupported matmul RHS type on target: vector<256x128xi4>\n"
      "See https://openxla.org/xla/errors/error_2001 for more details.\n\n"
      "at location: loc(\"dot_general:\"(\"dot_general/dot_general\"(callsite(\"matmul_kernel\"("
      "\"/env/jax/_src/numpy/lax_numpy.py\":10:2 to 11:3) at \"matmul_kernel\"("
      "\"ops/matmul.py\":33:32 to 37:3)))))\n\n"
      "The MLIR operation involved:\n  %180 = \"tpu.matmul\"(%151)");
  CHECK(v.code == "E2001");
  CHECK(v.sentence == "Unsupported matmul RHS type on target: vector<256x128xi4>");
  CHECK(v.file == "ops/matmul.py");
  CHECK(v.line == 33);
}

TEST_CASE("a name that is all of its line is not the sentence", "[tpu_compiler]") {
  Verdict v;
  read_message(
      "INVALID_ARGUMENT: Mosaic failed to compile TPU kernel: Failed to set window params for "
      "input 0: E2002: CompileTimeMosaicMisalignedBlockAndTiling:\n"
      "Operand of shape (..., 32, 256) has tiling (32, 128), but its block shape (..., 16, 256) is "
      "not divisible by tiling evenly nor matches the full shape\n"
      "See https://openxla.org/xla/errors/error_2002 for more details. \n",
      v);
  CHECK(v.code == "E2002");
  CHECK(v.sentence ==
        "Operand of shape (..., 32, 256) has tiling (32, 128), but its block shape (..., 16, 256) "
        "is not divisible by tiling evenly nor matches the full shape");
}

TEST_CASE("a code may stand behind what it is about", "[tpu_compiler]") {
  const Verdict v = read(
      "INVALID_ARGUMENT: Mosaic failed to compile TPU kernel: Failed to set window params for "
      "input "
      "0: E2002: CompileTimeMosaicMisalignedBlockAndTiling: Operand of shape (..., 64, 128) has "
      "tiling (32, 128), but its block does not. More words.");
  CHECK(v.code == "E2002");
  CHECK(v.sentence ==
        "Operand of shape (..., 64, 128) has tiling (32, 128), but its block does not");
  CHECK(v.file.empty());
}

TEST_CASE("of a list of allocations the sentence with the sizes is left", "[tpu_compiler]") {
  const Verdict v = read(
      "RESOURCE_EXHAUSTED: E1001: CompileTimeScopedVmemOom: Ran out of memory in memory space vmem "
      "while allocating on stack for %f.1 = f32[32,128]{1,0:T(8,128)} custom-call(%a). Scoped "
      "allocation with size 18.01M and limit 16.00M exceeded scoped vmem limit by 2.01M. It should "
      "not be possible to run out of scoped memory.");
  CHECK(v.code == "E1001");
  CHECK(v.sentence ==
        "Scoped allocation with size 18.01M and limit 16.00M exceeded scoped vmem limit by 2.01M");
  CHECK(read("RESOURCE_EXHAUSTED: XLA:TPU compile permanent error. Ran out of memory in memory "
             "space vmem. Used 16.01M of 16.00M vmem. Exceeded vmem capacity by 8.0K.\n\nProgram")
            .sentence == "Used 16.01M of 16.00M vmem");
  CHECK(read("RESOURCE_EXHAUSTED: Allocation (size=134225920) would exceed memory "
             "(size=134217728) :: #allocation2 [shape = 'f32[262160,128]']")
            .sentence == "Allocation (size=134225920) would exceed memory (size=134217728)");
}

TEST_CASE("a message of another form is given as it is, in one line", "[tpu_compiler]") {
  const Verdict v = read("Something else went wrong\nand more");
  CHECK(v.code.empty());
  CHECK(v.sentence == "Something else went wrong");
  CHECK(v.message == "Something else went wrong\nand more");
}

TEST_CASE("the last words of a compiler that aborts are its reason", "[tpu_compiler]") {
  CHECK(
      last_words("I1124 08:16:35.1 7 a.cc:1] all is well\n"
                 "F1124 08:16:35.400628   29319 latency_table_vf.cc:714] Operation not supported: "
                 "kVectorAddS16\n*** Check failure stack trace: ***\n") ==
      "Operation not supported: kVectorAddS16");
  CHECK(last_words("").empty());
}

TEST_CASE("a refusal is an error with the kernel's name and the compiler's code",
          "[tpu_compiler]") {
  Verdict v = read("INTERNAL: E2003: CompileTimeX: cannot prove it");
  v.kind = Verdict::Kind::refused;
  CHECK(does_not_compile(v, "flash", "tpu-v4").text() ==
        "error[does-not-compile]: the compiler of tpu-v4 refuses it: cannot prove it\n"
        "  kernel  flash\n"
        "  code    E2003 of libtpu\n");
}

}  // namespace
}  // namespace tessera::tpu_compiler

// What the TPU's compiler says of a module, in one sentence, with the line of the kernel's source.
//
// Its messages are read as they are printed (libtpu 0.0.42); one of another form is given whole, in
// one line. A compiler that aborts has refused: its last words are the sentence.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "sim/diagnostics/diagnostic.hpp"

namespace tessera::tpu_compiler {

struct Verdict {
  enum class Kind { accepted, refused, unknown };  ///< unknown: it did not end in time
  Kind kind = Kind::unknown;
  std::string code;      ///< "E2001"; "" if it gives none
  std::string sentence;  ///< why it is refused, or unknown
  std::string file;      ///< the kernel's line that it names; "" if it names none
  int line = 0;
  std::string message;                        ///< all that it said
  double seconds = 0;                         ///< that it took
  std::optional<std::int64_t> vmem_bytes;     ///< allocated by the kernel, its spills included
  std::optional<std::int64_t> spilled_bytes;  ///< of them, for registers
  std::string bundles;      ///< the listing of the kernel's schedule, where it was asked for
  std::string utilization;  ///< the slots of each unit that its bundles use
  bool cached = false;
};

const char* name(Verdict::Kind kind);

/// Fills in code, sentence, file and line of a refusal.
void read_message(const std::string& message, Verdict& verdict);

/// An object as `tessera check --json` has it.
std::string json_of(const Verdict& verdict);

/// error[does-not-compile], of a refusal.
Diagnostic does_not_compile(const Verdict& verdict, const std::string& kernel,
                            const std::string& device);

/// The reason that an aborted process printed: of "F1124 08:16:35.400628 29319
/// latency_table.cc:714] Operation not supported: kVectorAddS16", what follows the bracket. "" if
/// there is none.
std::string last_words(const std::string& standard_error);

}  // namespace tessera::tpu_compiler

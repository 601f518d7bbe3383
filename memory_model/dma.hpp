// A transfer: bytes on their way from one ref to another, local or to another device.
//
// `start` fixes source and destination; the bytes are read and land when the schedule says so, at
// the latest when a wait needs them. A local transfer adds its bytes to one semaphore when it has
// landed. A remote one adds them to the sender's semaphore when its source has been read, and to
// the receiver's when its destination is written.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "memory_model/history.hpp"
#include "memory_model/ref.hpp"
#include "memory_model/semaphore.hpp"

namespace tessera {

/// Sums of n elements: out[i] = in[0][i] + in[1][i].
using Adding = void (*)(std::byte* out, const std::byte* const* in, std::int64_t n);

struct Transfer {
  Transfer(Ref from_, Ref to_) : from(from_), to(to_) {}

  std::int64_t id = 0;  ///< in the order of the starts
  int core = 0;         ///< that started it
  Ref from;
  Ref to;
  Semaphore* sent = nullptr;    ///< remote only
  Semaphore* landed = nullptr;  ///< of the destination's core
  // What messages say of them: their scopes may have ended.
  std::string sent_name;
  std::string landed_name;
  int landed_core = 0;
  int elsewhere =
      -1;  ///< the target core, if another process has it: `to` and `landed` name places
  int priority = 0;
  Adding add = nullptr;           ///< to what is there; null: it is replaced
  std::int64_t padded_bytes = 0;  ///< what the tiled layout moves
  int ref = -1;                   ///< as in Movement
  int to_ref = -1;
  Clock clock;  ///< of its core at the start
  Site site;
  TransferHalf source{this, {}, &destination};  ///< of a local transfer: both halves
  TransferHalf destination{this, {}, nullptr};  ///< remote only
  Staged staged;  ///< between the reading and the writing of a remote transfer
  bool read = false;
  /// What it writes, where other cores may write the same.
  std::shared_ptr<const Staged> writes;

  /// Before their scopes can end.
  void name_semaphores() {
    if (sent != nullptr) sent_name = sent->name;
    landed_name = landed->name;
    landed_core = landed->core;
  }
  bool remote() const { return sent != nullptr; }
  std::int64_t bytes() const { return from.bytes(); }
};

/// True if both are known to write the same values to what is theirs in common.
bool write_the_same(const Transfer& a, const Transfer& b);

/// A half that keeps the whole transfer: a message may have to tell where it started.
inline std::shared_ptr<TransferHalf> half_of(const std::shared_ptr<Transfer>& t, bool destination) {
  return {t, destination && t->remote() ? &t->destination : &t->source};
}

}  // namespace tessera

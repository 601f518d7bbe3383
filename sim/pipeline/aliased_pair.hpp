// An output block that overwrites an input's array, and that input's block, on one core: does a
// step lose what an earlier one wrote?
//
// As long as neither moves, the input's block keeps what was fetched before the first of these
// steps. A body that adds to it and stores the sum to the output's block, without reading that,
// loses what the steps before had added (`stale-alias`). Told are elements that an earlier step
// made another value than the input's, that nobody has read from the output's block, and to which a
// later step, which reads them from the input's block, gives yet another one. A kernel that does so
// may mean it, so it is worth a warning and no error. Cost: of blocks that stay, a copy and a
// comparison per step that writes.
#pragma once

#include <cstdint>
#include <vector>

#include "sim/pipeline/block.hpp"

namespace tessera {

/// What steps wrote and later ones lost, of one output on one core.
struct LostUpdate {
  int operand = -1;         ///< of the plan: the output
  std::int64_t elems = 0;   ///< in all steps
  std::int64_t steps = 0;   ///< that lost something
  std::int64_t block = -1;  ///< number of the first block
  Site wrote;               ///< what was lost there
  Site read;                ///< of the input's block, by the step that lost it
};

class AliasedPair {
 public:
  /// Both are told of to this from here on (Buffer::watch).
  AliasedPair(Block& in, Block& out, int operand);
  AliasedPair(const AliasedPair&) = delete;
  AliasedPair& operator=(const AliasedPair&) = delete;

  /// True if what is said here can be known of them: they have one shape, of whole bytes.
  static bool applies(const Block& in, const Block& out);

  /// One of the blocks holds something else from here on.
  void moved();
  /// A step ends. `in_index`, `out_index`: where the blocks are.
  void end_step(const std::int64_t* in_index, const std::int64_t* out_index);

  const LostUpdate& lost() const { return lost_; }

 private:
  struct Watch final : AccessWatch {
    AliasedPair* pair = nullptr;
    bool of_output = false;
    bool wants() const override { return of_output || pair->standing_; }
    void access(const Access& a) override { pair->access(a, of_output); }
  };
  void access(const Access& a, bool of_output);

  Block& in_;
  Block& out_;
  Watch in_watch_;
  Watch out_watch_;
  bool standing_ = false;  ///< a step before this one wrote, and neither has moved
  bool writing_ = false;   ///< this step writes
  Site wrote_;             ///< the first write of this step
  Site wrote_before_;      ///< of the last one that wrote
  Site read_in_;           ///< the first read of the input's block in this step
  bool reading_ = false;
  std::vector<char> from_in_;      ///< per element: this step has read it from the input's block
  std::vector<char> read_out_;     ///< per element: read from the output's block, in any step
  std::vector<std::byte> before_;  ///< the output's block before this step wrote
  Shadow defined_before_;
  LostUpdate lost_;
};

}  // namespace tessera

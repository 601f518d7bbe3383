// Where a multiprocessor is on the chip, as far as it matters to L2: in groups of 16 or 18 that
// share a way to it (GPCs), which CTAs fill one after the other, each near one of L2's two
// partitions. As an H100's 132 are (its latencies and shares by SM: predict/ACCURACY.md); of other
// chips the groups are as nearly alike as pairs of SMs can be.
#pragma once

#include <cstdint>

namespace tessera::predict {

constexpr int kSmGroups = 8;

/// The group of an SM, numbered in the order in which CTAs take them.
constexpr int group_of(int sm, int sms) {
  const int pairs = sms / 2 / kSmGroups;
  const int larger = sms / 2 % kSmGroups;  // groups with a pair more come first
  const int pair = sm / 2;
  const int in_larger = larger * (pairs + 1);
  const int group = pair < in_larger ? pair / (pairs + 1)
                    : pairs > 0      ? larger + (pair - in_larger) / pairs
                                     : larger;
  return group < kSmGroups ? group : kSmGroups - 1;
}

/// The SM of a CTA: each has one before any has two, and where a round has fewer CTAs than there
/// are SMs they are spread over all groups (%smid of 64, 200 and 264 CTAs of an H200: one of each
/// pair of SMs for 64, and for the 68 behind the first 132).
constexpr std::int64_t sm_of(std::int64_t cta, std::int64_t ctas, std::int64_t sms) {
  const std::int64_t before = cta / sms * sms;
  const std::int64_t there = ctas - before < sms ? ctas - before : sms;
  return (cta - before) * sms / there;
}

/// The partition that it is near to, 0 or 1.
constexpr int side_of(int sm, int sms) { return group_of(sm, sms) % 2; }

}  // namespace tessera::predict

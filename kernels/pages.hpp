// Sequences whose keys lie in the pages of a cache: how many each has, and where. Key j of sequence
// b is row j % page of page table[b * pages + j / page] (Kwon et al., arXiv:2309.06180).
#pragma once

#include <utility>
#include <vector>

#include "kernels/cases.hpp"
#include "sim/body/kernel.hpp"
#include "sim/body/smem.hpp"

namespace tessera::kernels {

/// Keys of each sequence: the first is full, the third empty, the others uneven.
template <class Host>
Smem<int> sequence_lengths(Host& host, int batch, int most) {
  std::vector<int> keys(static_cast<std::size_t>(batch), most);
  for (std::size_t b = 1; b < keys.size(); ++b) keys[b] = host.random(1, most);
  if (batch > 2) keys[2] = 0;
  const Smem<int> lengths = host.scalars("lengths", std::move(keys));
  if (lengths.size != batch) host.fail("lengths has one entry per sequence");
  for (int b = 0; b < batch; ++b) {
    if (lengths[b] < 0 || lengths[b] > most) host.fail("lengths lie in [0, pages page]");
  }
  return lengths;
}

/// The pages of each sequence, anywhere in a cache of batch * pages.
template <class Host>
Smem<int> page_table(Host& host, int batch, int pages) {
  std::vector<int> places;
  for (int p = 0; p < batch * pages; ++p) places.push_back(p);
  for (int p = batch * pages - 1; p > 0; --p)
    std::swap(places[static_cast<std::size_t>(p)],
              places[static_cast<std::size_t>(host.random(0, p))]);
  const Smem<int> table = host.scalars("table", std::move(places));
  if (table.size != batch * pages) host.fail("table has `pages` entries per sequence");
  return table;
}

/// Entries [first, end) of the table are read: they name pages that the cache has.
template <class Host>
void check_pages(Host& host, const Smem<int>& table, int first, int end) {
  for (int p = first; p < end; ++p) {
    if (table[p] < 0 || table[p] >= table.size) host.fail("table names pages of the cache");
  }
}

}  // namespace tessera::kernels

#include "golden/bisect.hpp"

#include <algorithm>
#include <map>
#include <vector>

#include "memory_model/npy.hpp"
#include "sim/diagnostics/diagnostic.hpp"
#include "sim/ops/checksum.hpp"

namespace tessera::golden {

std::string step_text(const Steps& steps, const std::int64_t* row) {
  std::string text = row[0] > 0 ? "device " + std::to_string(row[0]) + ", (" : "(";
  for (std::size_t d = 0; d < steps.dims.size(); ++d)
    text += (d > 0 ? ", " : "") + steps.dims[d] + "=" + std::to_string(row[d + 1]);
  return text + ")";
}

Parting bisect(const Steps& golden, const Array& theirs) {
  const auto dims = static_cast<std::int64_t>(golden.dims.size());
  const std::int64_t columns = dims + 4;
  if (theirs.shape().rank != 2 || theirs.shape()[1] != columns) {
    throw InputError("bad-input", "the other side's steps are " +
                                      tessera::describe(theirs.dtype(), theirs.shape()) +
                                      "; rows of the golden have " + std::to_string(columns) +
                                      " columns: device, " + std::to_string(dims) +
                                      " ids, ref, block, checksum");
  }
  const auto key = [&](const std::int64_t* row) {
    return std::vector<std::int64_t>(row, row + columns - 1);
  };
  std::map<std::vector<std::int64_t>, std::int64_t> others;
  const auto* other = theirs.data<std::int64_t>();
  for (std::int64_t i = 0; i < theirs.shape()[0]; ++i, other += columns)
    others[key(other)] = other[columns - 1];
  Parting parting;
  const auto* row = golden.rows.data<std::int64_t>();
  for (std::int64_t i = 0; i < golden.rows.shape()[0]; ++i, row += columns) {
    const auto found = others.find(key(row));
    if (found == others.end()) {
      ++parting.missing;
      continue;
    }
    ++parting.compared;
    if (found->second == row[columns - 1]) continue;
    if (parting.differ++ > 0) continue;
    parting.step = step_text(golden, row);
    parting.ref = golden.refs.at(static_cast<std::size_t>(row[dims + 1]));
    parting.block = row[dims + 2];
  }
  return parting;
}

Array read_steps(const Steps& golden, const std::filesystem::path& path) {
  const bool folder = std::filesystem::is_directory(path);
  const auto file = folder ? path / "steps.npy" : path;
  if (std::filesystem::exists(file)) return read_npy(file.string(), DType::i64);
  if (folder) return rows_of(golden, {});
  throw InputError("bad-input", file.string() + " is missing");
}

int steps_per_cell(const Steps& golden) {
  // Rows of each device, ref and cell.
  std::map<std::vector<std::int64_t>, int> rows;
  const auto dims = static_cast<std::int64_t>(golden.dims.size());
  const auto* row = golden.rows.data<std::int64_t>();
  int most = 0;
  for (std::int64_t i = 0; i < golden.rows.shape()[0]; ++i, row += dims + 4) {
    std::vector<std::int64_t> cell(row, row + 1 + golden.parallel);
    cell.push_back(row[dims + 1]);
    most = std::max(most, ++rows[cell]);
  }
  return most;
}

Array rows_of(const Steps& golden, const StepChecksums& checksums) {
  const std::size_t dims = golden.dims.size();
  Array rows(DType::i64,
             {static_cast<std::int64_t>(checksums.size()), static_cast<std::int64_t>(dims) + 4});
  auto* to = rows.data<std::int64_t>();
  for (const StepChecksum& c : checksums) {
    *to++ = c.device;
    for (std::size_t d = 0; d < dims; ++d) *to++ = c.ids[d];
    *to++ = c.operand;
    *to++ = c.block;
    *to++ = static_cast<std::int64_t>(c.checksum);
  }
  return rows;
}

namespace {
/// Of block number `linear` of an array, on a device of `devices` that share its first dim.
std::uint64_t block_checksum(const Array& array, const Shape& block, std::int64_t linear,
                             std::int64_t device, std::int64_t devices) {
  Shape shard = array.shape();
  shard[0] /= devices;
  Shape blocks = shard;
  for (int d = 0; d < shard.rank; ++d) blocks[d] = (shard[d] + block[d] - 1) / block[d];
  const Shape index = unravel(blocks, linear);
  const Shape strides = row_major_strides(shard);
  return visit_dtype(array.dtype(), [&]<class Tag>(Tag) {
    using T = typename Tag::type;
    std::uint64_t sum = 0;
    for (std::int64_t i = 0; i < block.elems(); ++i) {
      const Shape within = unravel(block, i);
      std::int64_t at = device * shard.elems();
      bool inside = true;
      for (int d = 0; d < shard.rank; ++d) {
        const std::int64_t place = index[d] * block[d] + within[d];
        inside = inside && place < shard[d];
        at += place * strides[d];
      }
      if (inside) sum += checksum_of(i, load_element<T>(array.bytes(), at));
    }
    return sum;
  });
}
}  // namespace

Array with_outputs(const Golden& golden, const Array& theirs, const std::vector<Array>& outputs) {
  const Steps& steps = golden.steps;
  const auto dims = static_cast<std::int64_t>(steps.dims.size());
  const std::int64_t columns = dims + 4;
  std::int64_t devices = 1;
  const auto* row = steps.rows.data<std::int64_t>();
  for (std::int64_t i = 0; i < steps.rows.shape()[0]; ++i)
    devices = std::max(devices, row[i * columns] + 1);
  std::vector<std::int64_t> all(theirs.data<std::int64_t>(),
                                theirs.data<std::int64_t>() + theirs.elems());
  for (std::int64_t i = 0; i < steps.rows.shape()[0]; ++i, row += columns) {
    const std::string& ref = steps.refs.at(static_cast<std::size_t>(row[dims + 1]));
    for (std::size_t o = 0; o < outputs.size() && row[dims + 2] >= 0; ++o) {
      if (golden.outputs[o].name != ref) continue;
      all.insert(all.end(), row, row + columns - 1);
      all.push_back(static_cast<std::int64_t>(
          block_checksum(outputs[o], golden.outputs[o].block, row[dims + 2], row[0], devices)));
    }
  }
  Array rows(DType::i64, {static_cast<std::int64_t>(all.size()) / columns, columns});
  std::copy(all.begin(), all.end(), rows.data<std::int64_t>());
  return rows;
}

}  // namespace tessera::golden

#include "golden/bisect.hpp"

#include <algorithm>
#include <map>
#include <vector>

#include "memory_model/npy.hpp"
#include "sim/diagnostics/diagnostic.hpp"

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

Array read_steps(const std::filesystem::path& path) {
  const auto file = std::filesystem::is_directory(path) ? path / "steps.npy" : path;
  if (!std::filesystem::exists(file)) {
    throw InputError("bad-input", file.string() + " is missing: the other side recorded no steps");
  }
  return read_npy(file.string(), DType::i64);
}

}  // namespace tessera::golden

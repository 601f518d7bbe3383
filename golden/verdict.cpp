#include "golden/verdict.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "golden/bisect.hpp"
#include "memory_model/npy.hpp"
#include "sim/diagnostics/slugs.hpp"

namespace tessera::golden {

namespace {

std::string value_text(const Array& a, std::int64_t i) {
  return fmt::format("{:.9g} (0x{:0{}x})", a.at(i), a.bits(i),
                     std::max(1, bit_width(a.dtype()) / 4));
}

std::string place_of(const Golden& g, const Output& o, const Shape& index) {
  if (o.block.rank == 0) return "the kernel writes this array by copies, not block by block";
  Shape block = index;
  Shape within = index;
  Shape blocks = index;
  for (int d = 0; d < index.rank; ++d) {
    block[d] = index[d] / o.block[d];
    within[d] = index[d] % o.block[d];
    blocks[d] = (o.values.shape()[d] + o.block[d] - 1) / o.block[d];
  }
  const std::string step = step_that_wrote(g, o.name, block, blocks);
  return "block " + index_string(block.dims.data(), block.rank) + ", element " + to_string(within) +
         " of the block" + (step.empty() ? "" : "; written at grid step " + step);
}

Diagnostic mismatch(const Golden& g, const Output& o, const Array& theirs, const Verdict& v,
                    std::int64_t worst) {
  Diagnostic d{.slug = "golden-mismatch",
               .headline = fmt::format("{} of {} elements of {} are farther from the golden than "
                                       "any conforming build",
                                       with_commas(v.wrong), with_commas(v.elems), o.name)};
  d.fields.emplace_back("golden", describe(g));
  const Shape index = unravel(o.values.shape(), worst);
  const double off = std::abs(theirs.at(worst) - o.values.at(worst));
  const double bound = o.bounds.at(worst);
  std::string text = fmt::format("{}{} = {}, golden {}", o.name, to_string(index),
                                 value_text(theirs, worst), value_text(o.values, worst));
  if (std::isfinite(off)) {
    text += fmt::format(": {:.3g} off, {:.3g} allowed", off, bound);
    if (bound > 0) text += fmt::format(" ({:.3g} times as far)", off / bound);
  }
  d.fields.emplace_back("worst", text);
  d.fields.emplace_back("where", place_of(g, o, index));
  if (g.steps.rows.elems() > 0) {
    d.fields.emplace_back("help",
                          "tessera golden bisect names the first step that differs, if the "
                          "other side records steps.npy");
  }
  return d;
}

}  // namespace

std::string step_that_wrote(const Golden& g, const std::string& output, const Shape& block,
                            const Shape& blocks) {
  const auto ref = std::find(g.steps.refs.begin(), g.steps.refs.end(), output);
  if (ref == g.steps.refs.end()) return "";
  std::int64_t linear = 0;
  for (int d = 0; d < block.rank; ++d) linear = linear * blocks[d] + block[d];
  const auto dims = static_cast<std::int64_t>(g.steps.dims.size());
  const std::int64_t columns = dims + 4;
  const std::int64_t* row = g.steps.rows.data<std::int64_t>();
  for (std::int64_t i = 0; i < g.steps.rows.shape()[0]; ++i, row += columns) {
    if (row[dims + 1] != ref - g.steps.refs.begin() || row[dims + 2] != linear) continue;
    return step_text(g.steps, row);
  }
  return "";
}

Verdict judge(const Golden& g, std::size_t index, const Array& theirs) {
  const Output& o = g.outputs[index];
  Verdict v;
  v.output = o.name;
  v.elems = o.values.elems();
  std::int64_t worst = -1;
  double worst_excess = -1;
  for (std::int64_t i = 0; i < v.elems; ++i) {
    const double a = theirs.at(i);
    const double b = o.values.at(i);
    if (theirs.bits(i) == o.values.bits(i) || (std::isnan(a) && std::isnan(b))) {
      ++v.exact;
      continue;
    }
    const double bound = o.bounds.data<float>()[i];
    if (std::isinf(bound)) {
      ++v.within;
      ++v.unbounded;
      continue;
    }
    const double off = a == b ? 0 : std::abs(a - b);
    if (off <= bound) {
      ++v.within;
      if (bound > 0) v.worst_of_bound = std::max(v.worst_of_bound, off / bound);
      continue;
    }
    ++v.wrong;
    const double excess = std::isfinite(off) ? (bound > 0 ? off / bound : 1e300) : INFINITY;
    if (excess > worst_excess) {
      worst_excess = excess;
      worst = i;
    }
  }
  if (v.wrong > 0) v.mismatch = mismatch(g, o, theirs, v, worst);
  return v;
}

std::vector<Array> read_outputs(const Golden& g, const std::filesystem::path& folder) {
  std::vector<Array> arrays;
  for (const Output& o : g.outputs) {
    const std::string path = (folder / (o.name + ".npy")).string();
    if (!std::filesystem::exists(path))
      throw InputError("bad-input", path + " is missing: the golden has an output " + o.name);
    arrays.push_back(read_npy_bits(path, o.values.dtype()));
    if (arrays.back().shape() == o.values.shape()) continue;
    throw InputError("bad-input", path + " is " +
                                      tessera::describe(o.values.dtype(), arrays.back().shape()) +
                                      "; the golden's is " +
                                      tessera::describe(o.values.dtype(), o.values.shape()));
  }
  return arrays;
}

std::string text_of(const Golden& g, const std::vector<Verdict>& verdicts) {
  std::string text = "golden " + describe(g) + "\n";
  bool wrong = false;
  bool exact = true;
  for (const Verdict& v : verdicts) {
    text += fmt::format("  {:<10} {} elements: {} bit-exact", v.output, with_commas(v.elems),
                        with_commas(v.exact));
    if (v.within > 0) {
      const double percent = 100 * v.worst_of_bound;
      text += fmt::format(
          ", {} within the bound (at most {} % of it)", with_commas(v.within),
          percent < 10 ? fmt::format("{:.2g}", percent) : fmt::format("{:.0f}", percent));
    }
    if (v.unbounded > 0)
      text += fmt::format(", {} of them without a bound", with_commas(v.unbounded));
    if (v.wrong > 0) text += fmt::format(", {} wrong", with_commas(v.wrong));
    text += "\n";
    wrong = wrong || v.wrong > 0;
    exact = exact && v.exact == v.elems;
  }
  return text + (wrong ? "wrong\n" : exact ? "bit-exact\n" : "within the bound\n");
}

}  // namespace tessera::golden

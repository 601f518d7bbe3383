// Addresses and masks that are kept without their elements, beside the same kernels planned with
// them: the same bytes, traffic and words.
#include <catch2/catch.hpp>
#include <random>

#include "program/print.hpp"
#include "program/regular.hpp"
#include "tests/triton/ttir.hpp"

namespace tessera::triton {

namespace {

/// Kernels of random loads and stores, or of a product of what is loaded, or of a loop that sums
/// such products: strides of every sign and size, masks of every predicate, dims in any order,
/// pointers that a loop carries, remainders, offsets that wrap.
class RandomKernel {
 public:
  enum class Of : std::uint8_t { loads, product, sum };
  explicit RandomKernel(unsigned seed, Of of = Of::loads) : draw_(seed) {
    if (of == Of::product) {
      multiply();
      return;
    }
    if (of == Of::sum) {
      sum_products();
      return;
    }
    const int rank = 1 + static_cast<int>(below(3));
    std::int64_t n = 1;
    for (int d = 0; d < rank; ++d) {
      const std::int64_t most = n >= 64 ? 4 : 16;
      shape_.push_back(std::int64_t{1} << below(most == 4 ? 3 : 5));
      n *= shape_[d];
    }
    std::string sum = load("%a");
    const int loads = static_cast<int>(below(3));
    for (int i = 0; i < loads; ++i) sum = op("arith.addf", {sum, load("%b")}, "f32", "f32");
    if (below(3) == 0) sum = loop(sum);
    store(sum);
    if (below(3) == 0) store(load(below(2) == 0 ? "%c" : "%a"));
  }

  std::string text() const {
    return kernel_text("%a: !tt.ptr<f32>, %b: !tt.ptr<f32>, %c: !tt.ptr<f32>, %n: i32, %m: i32",
                       "%x = \"tt.get_program_id\"() <{axis = 0 : i32}> : () -> i32\n" + body_);
  }
  std::int64_t below(std::int64_t n) {
    return static_cast<std::int64_t>(draw_() % static_cast<unsigned>(n));
  }

 private:
  void multiply() {
    const auto extent = [&](std::int64_t most) { return std::int64_t{1} << below(most); };
    const std::int64_t m = extent(7);
    const std::int64_t n = extent(7);
    const std::int64_t k = extent(6);
    shape_ = Shape{m, k};
    const std::string x = load("%a");
    const std::string left = of("f32");
    if (below(6) == 0) store(load("%b"));
    shape_ = Shape{k, n};
    const std::string y = load(below(5) == 0 ? "%c" : "%b");
    const std::string right = of("f32");
    shape_ = Shape{m, n};
    const std::string zero = fresh();
    line(zero + " = \"arith.constant\"() <{value = dense<0.0> : " + of("f32") + "}> : () -> " +
         of("f32"));
    const std::string result = fresh();
    line(result + " = \"tt.dot\"(" + x + ", " + y + ", " + zero +
         ") <{inputPrecision = 2 : i32, maxNumImpreciseAcc = 0 : i32}> : (" + left + ", " + right +
         ", " + of("f32") + ") -> " + of("f32"));
    store(below(8) == 0 ? op("arith.addf", {result, result}, "f32", "f32") : result);
  }

  /// What an address or a bound gets of the index of a loop, and now and then what is no multiple.
  std::string grown(const std::string& index) {
    constexpr std::array<std::int64_t, 8> kSome = {0, 1, 1, 2, 4, 16, -1, -3};
    const std::int64_t kind = below(40);
    const std::string by =
        kind == 0   ? index
        : kind == 1 ? constant(268435456)
        : kind < 10 ? "%m"
                    : constant(kSome[static_cast<std::size_t>(kind % std::ssize(kSome))]);
    const std::string scaled = fresh();
    line(scaled + " = \"arith.muli\"(" + index + ", " + by + ") : (i32, i32) -> i32");
    return splat(scaled, "i32", shape_text(shape_));
  }
  /// A tile in a loop, at pointers that grow with the index.
  std::string load_in_loop(const std::string& index, const std::string& pointers) {
    std::string at = pointers;
    if (below(3) > 0) at = advanced(at, grown(index), "i32");
    if (below(3) > 0) return load_where(at, "");
    const std::string bound = splat(constant(20 + below(500)), "i32", shape_text(shape_));
    const std::string place =
        op("arith.addi", {along(static_cast<int>(below(2))), grown(index)}, "i32", "i32");
    constexpr std::array<std::int64_t, 5> kSome = {2, 2, 3, 6, 1};  // <, <=, unsigned <, !=
    const std::int64_t predicate = kSome[static_cast<std::size_t>(below(std::ssize(kSome)))];
    return load_where(at, op("arith.cmpi", {place, bound}, "i32", "i1",
                             "predicate = " + std::to_string(predicate) + " : i64"));
  }
  std::string load_where(const std::string& at, const std::string& mask) {
    const std::string result = fresh();
    std::string operands = at;
    std::string types = of("!tt.ptr<f32>");
    if (!mask.empty()) {
      const std::string other = fresh();
      line(other + " = \"arith.constant\"() <{value = dense<7.0> : " + of("f32") + "}> : () -> " +
           of("f32"));
      operands += ", " + mask + ", " + other;
      types += ", " + of("i1") + ", " + of("f32");
    }
    const std::string rest = mask.empty() ? "0, 0" : "1, 1";
    line(result + " = \"tt.load\"(" + operands + ") <{operandSegmentSizes = array<i32: 1, " + rest +
         ">}> : (" + types + ") -> " + of("f32"));
    return result;
  }
  /// Rows and columns of a tile at plain strides.
  std::string tile_at(const std::string& base) {
    std::string by = op("arith.addi", {along(0), along(1)}, "i32", "i32");
    const std::string far = splat(constant(400 + below(400)), "i32", shape_text(shape_));
    by = op("arith.addi", {by, far}, "i32", "i32");
    return advanced(splat(base, "!tt.ptr<f32>", shape_text(shape_)), by, "i32");
  }
  void sum_products() {
    const auto extent = [&](std::int64_t most) { return std::int64_t{1} << below(most); };
    const Shape result{extent(6), extent(6)};
    const std::int64_t k = extent(5);
    const std::array<Shape, 2> shapes = {Shape{result[0], k}, Shape{k, result[1]}};
    std::array<std::string, 2> pointers;
    std::array<std::string, 2> types;
    const bool carried = below(2) == 0;
    for (std::size_t side = 0; side < 2; ++side) {
      shape_ = shapes[side];
      pointers[side] = tile_at(side == 0 ? "%a" : below(9) == 0 ? "%c" : "%b");
      types[side] = of("!tt.ptr<f32>");
    }
    shape_ = result;
    const std::string sum = of("f32");
    const std::string zero = fresh();
    line(zero + " = \"arith.constant\"() <{value = dense<0.5> : " + sum + "}> : () -> " + sum);
    const std::string begin = constant(below(3));
    const std::string end = below(4) == 0 ? "%n" : constant(below(14));
    const std::string step = constant(1 + below(2));
    const std::string more = carried ? ", " + pointers[0] + ", " + pointers[1] : "";
    const std::string more_types = carried ? ", " + types[0] + ", " + types[1] : "";
    const std::string results = fresh();
    const std::string total = fresh();
    const std::string index = fresh();
    std::string arguments = index + ": i32, " + total + ": " + sum;
    for (std::size_t side = 0; carried && side < 2; ++side) {
      pointers[side] = fresh();
      arguments += ", " + pointers[side] + ": " + types[side];
    }
    line(results + (carried ? ":3" : "") + " = \"scf.for\"(" + begin + ", " + end + ", " + step +
         ", " + zero + more + ") ({\n^bb0(" + arguments + "):");
    std::array<std::string, 2> tiles;
    std::array<std::string, 2> tile_types;
    std::string next = "";
    for (std::size_t side = 0; side < 2; ++side) {
      shape_ = shapes[side];
      tiles[side] = load_in_loop(index, pointers[side]);
      tile_types[side] = of("f32");
      if (!carried) continue;
      const std::string by = below(9) == 0 ? grown(index)
                                           : splat(below(5) == 0 ? "%m" : constant(stride()), "i32",
                                                   shape_text(shape_));
      next += ", " + advanced(pointers[side], by, "i32");
    }
    shape_ = result;
    const std::string made = fresh();
    line(made + " = \"tt.dot\"(" + tiles[0] + ", " + tiles[1] + ", " + total +
         ") <{inputPrecision = 2 : i32, maxNumImpreciseAcc = 0 : i32}> : (" + tile_types[0] + ", " +
         tile_types[1] + ", " + sum + ") -> " + sum);
    line("\"scf.yield\"(" + made + next + ") : (" + sum + more_types + ") -> ()\n}) : (i32, i32, " +
         "i32, " + sum + more_types + ") -> (" + sum + more_types + ")");
    store(results + (carried ? "#0" : ""));
    if (!carried || below(2) == 0) return;
    shape_ = shapes[0];
    store(load_at(results + "#1"));
  }

  std::string fresh() { return "%v" + std::to_string(next_++); }
  std::string of(const std::string& element) const { return tensor(shape_text(shape_), element); }
  void line(const std::string& text) { body_ += text + "\n"; }
  std::string op(const std::string& name, const std::vector<std::string>& operands,
                 const std::string& from, const std::string& to,
                 const std::string& attributes = "") {
    const std::string result = fresh();
    std::string names;
    std::string types;
    for (const std::string& o : operands) {
      names += (names.empty() ? "" : ", ") + o;
      types += (types.empty() ? "" : ", ") + of(from);
    }
    line(result + " = \"" + name + "\"(" + names + ") <{" + attributes + "}> : (" + types +
         ") -> " + of(to));
    return result;
  }
  std::string constant(std::int64_t value) {
    const std::string result = fresh();
    line(result + " = \"arith.constant\"() <{value = " + std::to_string(value) +
         " : i32}> : () -> i32");
    return result;
  }
  std::string splat(const std::string& scalar, const std::string& type, const std::string& shape) {
    const std::string result = fresh();
    line(result + " = \"tt.splat\"(" + scalar + ") : (" + type + ") -> " + tensor(shape, type));
    return result;
  }
  std::int64_t stride() {
    constexpr std::array<std::int64_t, 10> kSome = {1, 1, 1, 0, 2, 3, 4, 16, -1, -16};
    const std::int64_t kind = below(60);
    return kind == 0   ? 715827883
           : kind == 1 ? 256
                       : kSome[static_cast<std::size_t>(kind % std::ssize(kSome))];
  }
  /// stride x index of a dim, in all of the shape.
  std::string along(int dim) {
    const std::string n = std::to_string(shape_[dim]);
    std::string type = "tensor<" + n + "xi32>";
    std::string v = fresh();
    const std::int64_t start = below(4) == 0 ? below(9) - 4 : 0;
    line(v + " = \"tt.make_range\"() <{start = " + std::to_string(start) +
         " : i32, end = " + std::to_string(start + shape_[dim]) + " : i32}> : () -> " + type);
    const std::string by = splat(below(4) == 0 ? "%m" : constant(stride()), "i32", n);
    std::string scaled = fresh();
    line(scaled + " = \"arith.muli\"(" + v + ", " + by + ") : (" + type + ", " + type + ") -> " +
         type);
    std::string shape = n;
    for (int k = 0; k < shape_.rank; ++k) {
      if (k == dim) continue;
      shape = k < dim ? "1x" + shape : shape + "x1";
      const std::string wider = fresh();
      line(wider + " = \"tt.expand_dims\"(" + scaled + ") <{axis = " + std::to_string(k) +
           " : i32}> : (" + type + ") -> " + tensor(shape, "i32"));
      type = tensor(shape, "i32");
      scaled = wider;
    }
    const std::string all = fresh();
    line(all + " = \"tt.broadcast\"(" + scaled + ") : (" + type + ") -> " + of("i32"));
    return all;
  }
  std::string offsets() {
    const std::string own = fresh();
    line(own + " = \"arith.muli\"(%x, " + constant(stride()) + ") : (i32, i32) -> i32");
    std::string sum = splat(own, "i32", shape_text(shape_));
    for (int d = 0; d < shape_.rank; ++d) {
      if (below(6) == 0) continue;
      sum = op(below(8) == 0 ? "arith.subi" : "arith.addi", {sum, along(d)}, "i32", "i32");
    }
    if (below(6) == 0) {
      const std::string by = splat(constant(1 + below(40)), "i32", shape_text(shape_));
      sum = op(below(2) == 0 ? "arith.remsi" : "arith.divsi", {sum, by}, "i32", "i32");
    }
    return sum;
  }
  std::string pointers_at(const std::string& base) {
    const std::string at = splat(base, "!tt.ptr<f32>", shape_text(shape_));
    std::string by = offsets();
    if (below(8) > 0) {
      const std::string far = splat(constant(200 + below(200)), "i32", shape_text(shape_));
      by = op("arith.addi", {by, far}, "i32", "i32");
    }
    const bool wide = below(3) == 0;
    if (wide) by = op("arith.extsi", {by}, "i32", "i64");
    return advanced(at, by, wide ? "i64" : "i32");
  }
  std::string advanced(const std::string& at, const std::string& by, const std::string& type) {
    const std::string to = fresh();
    line(to + " = \"tt.addptr\"(" + at + ", " + by + ") : (" + of("!tt.ptr<f32>") + ", " +
         of(type) + ") -> " + of("!tt.ptr<f32>"));
    return to;
  }
  std::string mask() {
    const std::string bound =
        splat(below(2) == 0 ? "%n" : constant(below(20) - 4), "i32", shape_text(shape_));
    const std::string m = op("arith.cmpi", {offsets(), bound}, "i32", "i1",
                             "predicate = " + std::to_string(below(10)) + " : i64");
    return below(3) == 0 ? op("arith.andi", {m, mask()}, "i1", "i1") : m;
  }
  /// Operands, their types, and segments: a mask or none, `other` or none.
  std::string load_at(const std::string& at) {
    const std::string result = fresh();
    const auto kind = below(4);
    std::string operands = at;
    std::string types = of("!tt.ptr<f32>");
    if (kind > 0) {
      operands += ", " + mask();
      types += ", " + of("i1");
    }
    if (kind > 1) {
      const std::string other = fresh();
      line(other + " = \"arith.constant\"() <{value = dense<7.0> : " + of("f32") + "}> : () -> " +
           of("f32"));
      operands += ", " + other;
      types += ", " + of("f32");
    }
    line(result + " = \"tt.load\"(" + operands + ") <{operandSegmentSizes = array<i32: 1, " +
         (kind > 0 ? "1" : "0") + ", " + (kind > 1 ? "1" : "0") + ">}> : (" + types + ") -> " +
         of("f32"));
    return result;
  }
  std::string load(const std::string& base) { return load_at(pointers_at(base)); }
  void store(const std::string& value) {
    const std::string at = pointers_at("%c");
    std::string operands = at + ", " + value;
    std::string types = of("!tt.ptr<f32>") + ", " + of("f32");
    if (below(2) == 0) {
      operands += ", " + mask();
      types += ", " + of("i1");
    }
    line("\"tt.store\"(" + operands + ") : (" + types + ") -> ()");
  }
  std::string loop(const std::string& sum) {
    const std::string at = pointers_at("%b");
    const std::string lo = constant(0);
    const std::string hi = constant(below(4));
    const std::string one = constant(1);
    const std::string step = splat(constant(stride()), "i32", shape_text(shape_));
    const std::string pointers = fresh();
    const std::string total = fresh();
    const std::string types = of("!tt.ptr<f32>") + ", " + of("f32");
    const std::string results = fresh();
    line(results + ":2 = \"scf.for\"(" + lo + ", " + hi + ", " + one + ", " + at + ", " + sum +
         ") ({\n^bb0(%i" + pointers.substr(1) + ": i32, " + pointers + ": " + of("!tt.ptr<f32>") +
         ", " + total + ": " + of("f32") + "):");
    const std::string loaded = load_at(pointers);
    const std::string next = op("arith.addf", {total, loaded}, "f32", "f32");
    const std::string moved = advanced(pointers, step, "i32");
    line("\"scf.yield\"(" + moved + ", " + next + ") : (" + types +
         ") -> ()\n}) : (i32, i32, i32, " + types + ") -> (" + types + ")");
    return below(2) == 0
               ? results + "#1"
               : op("arith.addf", {results + "#1", load_at(results + "#0")}, "f32", "f32");
  }

  std::mt19937 draw_;
  Shape shape_;
  std::string body_;
  int next_ = 0;
};

}  // namespace

TEST_CASE("with and without elements a kernel is the same", "[triton][regular]") {
  int well = 0;
  int at_once = 0;
  std::map<std::string, int> wrong;
  for (unsigned seed = 1; seed <= 1100; ++seed) {
    using Of = RandomKernel::Of;
    const bool product = seed > 300;
    RandomKernel k(seed, seed > 500 ? Of::sum : product ? Of::product : Of::loads);
    CAPTURE(seed, k.text());
    const std::int64_t size = 64 + k.below(product ? 20000 : 4000);
    std::vector<Array> storages;
    for (int i = 0; i < 3; ++i)
      storages.push_back(array_of(DType::f32, {size}, [&](auto e) { return double(e % 31 + i); }));
    const std::vector<std::int64_t> scalars = {k.below(40), k.below(5) - 1};
    const std::vector<bool> undefined = {false, k.below(5) == 0, k.below(3) == 0};
    const std::array<std::int64_t, 3> grid{1 + k.below(4), 1, 1};
    const auto run = [&](bool regular, int threads) {
      RunOptions options;
      options.threads = threads;
      return launch_text(k.text(), storages, scalars, grid, options, undefined, regular);
    };
    const Ran fast = run(true, 1);
    at_once += print(fast.kernel->program).find("turns at once") != std::string::npos ? 1 : 0;
    for (const Ran& other : {run(false, 1), run(true, 2)}) {
      CHECK(fast.text() == other.text());
      for (std::size_t i = 0; i < 3; ++i) {
        REQUIRE(std::memcmp(fast.out(i).bytes(), other.out(i).bytes(),
                            static_cast<std::size_t>(size) * 4) == 0);
      }
      if (fast.ok()) CHECK(fast.result.run.flops == other.result.run.flops);
      REQUIRE(fast.result.lines.size() == other.result.lines.size());
      // A store in whose way something is has counted the lanes before, or none.
      if (product && fast.slug() == "race") continue;
      for (std::size_t i = 0; i < fast.result.lines.size(); ++i) {
        const Requested& a = fast.result.lines[i].requested;
        const Requested& b = other.result.lines[i].requested;
        CHECK(a.times == b.times);
        CHECK(a.read_bytes == b.read_bytes);
        CHECK(a.written_bytes == b.written_bytes);
      }
    }
    if (fast.ok())
      ++well;
    else
      ++wrong[fast.slug()];
  }
  INFO("well " << well << ", out of bounds " << wrong["oob-index"] << ", races " << wrong["race"]
               << ", undefined " << wrong["uninit-read"]);
  CHECK(well > 60);
  CHECK(at_once > 60);
  CHECK(wrong["oob-index"] > 30);
  CHECK(wrong["race"] > 5);
  CHECK(wrong["uninit-read"] > 5);
}

TEST_CASE("a comparison's box is where it is true", "[triton][regular]") {
  using program::Regular;
  std::mt19937 draw(3);
  const auto some = [&](int n) {
    return static_cast<std::int64_t>(draw() % static_cast<unsigned>(n));
  };
  int boxes = 0;
  for (int round = 0; round < 20000; ++round) {
    const Shape shape{1 + some(5), 1 + some(5)};
    const auto number = [&] {
      Regular r;
      r.base = some(21) - 10;
      for (int d = 0; d < 2; ++d) {
        if (shape[d] > 1 && some(2) == 0) r.step[static_cast<std::size_t>(d)] = some(9) - 4;
      }
      return r;
    };
    const Regular a = number();
    const Regular b = number();
    const std::array<const Regular*, 2> in{&a, &b};
    const std::int64_t predicate = some(10);
    CAPTURE(round, predicate, a.base, a.step[0], a.step[1], b.base, b.step[0], b.step[1]);
    Regular box;
    if (!program::regular_compare(predicate)(box, in.data(), shape)) continue;
    ++boxes;
    for (std::int64_t i = 0; i < shape[0]; ++i) {
      for (std::int64_t j = 0; j < shape[1]; ++j) {
        const std::int64_t x = a.base + i * a.step[0] + j * a.step[1];
        const std::int64_t y = b.base + i * b.step[0] + j * b.step[1];
        const auto u = static_cast<std::uint64_t>(x);
        const auto v = static_cast<std::uint64_t>(y);
        const std::array<bool, 10> wanted = {
            x == y, x != y, x<y, x <= y, x> y, x >= y, u<v, u <= v, u> v, u >= v};
        const bool is = i >= box.step[0] && i < box.end[0] && j >= box.step[1] && j < box.end[1];
        REQUIRE(is == wanted[static_cast<std::size_t>(predicate)]);
      }
    }
  }
  CHECK(boxes > 5000);
}

}  // namespace tessera::triton

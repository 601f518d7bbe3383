#include "triton/whole_grid.hpp"

#include <algorithm>
#include <cstring>
#include <optional>
#include <set>

#include "program/regular.hpp"
#include "sim/pipeline/threads.hpp"
#include "triton/by_processor.hpp"
#include "triton/rules.hpp"
#include "triton/stream.hpp"

namespace tessera::triton {

namespace {

constexpr std::int64_t kStrip = 2048;  // elements

/// Where a value is: known without its elements, or an array of them.
struct GridOp {
  enum class Kind : std::uint8_t { id, constant, range, splat, dims, known, element, load, store };
  Kind kind = Kind::known;
  int to = -1;  ///< a value of the form; of `element` and `load` an array
  std::vector<int> in = {};
  std::vector<bool> array = {};  ///< per operand
  DType dtype = DType::i32;      ///< of its result; of a store that of what it stores
  Shape shape = {};              ///< of a program's; of no dims: a scalar
  std::vector<DType> types = {};
  std::int64_t number = 0;                             ///< axis of `id`, start of `range`
  Scalar value = {};                                   ///< of `constant`
  std::array<int, kRegularRank> from{-1, -1, -1, -1};  ///< of `dims`: per dim one of the operand's
  Shape own = {};                                      ///< of `dims`: the operand's
  ElementOp op = {};                                   ///< of `known` and `element`
  int site = -1;  ///< of a load or store; in: pointers, then what is stored; mask last
  bool masked = false;
  int access = -1;     ///< its number among loads and stores
  int stored_by = -1;  ///< of `element`: the one access that has its result
};

}  // namespace

struct GridForm {
  std::vector<GridOp> ops;
  std::vector<std::pair<int, DType>> arguments;  ///< values; -1: not needed
  int known = 0;
  int arrays = 0;
  std::vector<int> widths;    ///< of arrays
  std::vector<int> accesses;  ///< ops
  std::int64_t elems = 0;     ///< of a program's arrays
};

namespace {

std::size_t at(int i) { return static_cast<std::size_t>(i); }

/// Reads a kernel's module.
class Former {
 public:
  Former(const Module& module, const Function& main, const std::map<int, Planner::MadeBy>& made,
         const std::vector<Site>& sites)
      : module_(module), main_(main), made_(made), places_(module.values.size()) {
    for (std::size_t s = 0; s < sites.size(); ++s) sites_[sites[s].number] = static_cast<int>(s);
  }

  std::shared_ptr<const GridForm> form() {
    if (!main_.body.others.empty() || main_.body.operations.empty()) return nullptr;
    need();
    for (const int v : main_.body.arguments) {
      const Type& t = type(v);
      form_.arguments.emplace_back(needed_.contains(v) ? new_known(v) : -1, t.dtype);
    }
    for (const Operation& op : main_.body.operations) {
      if (&op == &main_.body.operations.back()) break;
      if (live(op) && !add(op)) return nullptr;
    }
    if (stores_ == 0) return nullptr;
    send_results();
    return std::make_shared<const GridForm>(std::move(form_));
  }

 private:
  struct Place {
    int known = -1;
    int array = -1;
  };
  const Type& type(int v) const { return module_.type(v); }
  Place& place(int v) { return places_[at(v)]; }
  static bool is_tensor_type(const Type& t) { return t.kind == Type::Kind::vector; }
  Shape shape_of(int v) const { return is_tensor_type(type(v)) ? type(v).shape : Shape{}; }

  /// Not one whose results nobody wants and that does nothing else, as a loop that stores does.
  bool live(const Operation& op) const {
    const Rule* const rule = rules().find(op.name);
    return rule == nullptr || !rule->pure ||
           std::ranges::any_of(op.results, [&](int v) { return needed_.contains(v); });
  }

  /// Values that a store asks for. Of a load that is not masked off `other` is not.
  void need() {
    for (auto op = main_.body.operations.rbegin(); op != main_.body.operations.rend(); ++op) {
      if (!live(*op)) continue;
      const std::size_t n = op->name == "tt.load" ? std::min<std::size_t>(2, op->operands.size())
                                                  : op->operands.size();
      needed_.insert(op->operands.begin(), op->operands.begin() + static_cast<std::ptrdiff_t>(n));
    }
  }
  int new_known(int v) { return place(v).known = form_.known++; }
  int new_array(int v) {
    form_.widths.push_back(static_cast<int>(register_bytes(type(v).dtype)));
    return place(v).array = form_.arrays++;
  }

  bool add(const Operation& op) {
    if (!op.regions.empty() || !op.successors.empty()) return false;
    for (const int v : op.results) {
      const Type& t = type(v);
      if (!t.known || (t.kind != Type::Kind::scalar && t.kind != Type::Kind::vector) ||
          (t.dtype != DType::boolean && bit_width(t.dtype) < 8) ||
          (is_tensor_type(t) && t.shape.rank >= kRegularRank))
        return false;
    }
    GridOp g;
    if (op.results.size() == 1) {
      g.dtype = type(op.results[0]).dtype;
      g.shape = shape_of(op.results[0]);
    }
    if (op.name == "tt.load") return load(op, std::move(g));
    if (op.name == "tt.store") return store(op, std::move(g));
    if (op.results.size() != 1) return false;
    const int result = op.results[0];
    if (const auto it = made_.find(result); it != made_.end())
      return element(it->second, result, std::move(g));
    for (const int v : op.operands) {
      if (place(v).known < 0) return false;
      g.in.push_back(place(v).known);
    }
    if (op.name == "tt.get_program_id") {
      g.kind = GridOp::Kind::id;
      if (!integer(op, "axis", g.number) || g.number < 0 || g.number > 2) return false;
    } else if (op.name == "arith.constant") {
      g.kind = GridOp::Kind::constant;
      if (!constant(op, g)) return false;
    } else if (op.name == "tt.make_range") {
      g.kind = GridOp::Kind::range;
      if (!integer(op, "start", g.number)) return false;
    } else if (op.name == "tt.splat") {
      g.kind = GridOp::Kind::splat;
    } else if (op.name == "tt.expand_dims" || op.name == "tt.broadcast") {
      g.kind = GridOp::Kind::dims;
      if (!dims(op, g)) return false;
    } else {
      return false;
    }
    g.to = new_known(result);
    form_.ops.push_back(std::move(g));
    return true;
  }

  static bool integer(const Operation& op, const char* name, std::int64_t& to) {
    const Attribute* const a = op.find(name);
    if (a == nullptr || a->kind != Attribute::Kind::integer) return false;
    to = a->integer;
    return true;
  }
  static bool constant(const Operation& op, GridOp& g) {
    const Attribute* const a = op.find("value");
    if (a == nullptr) return false;
    if (a->kind == Attribute::Kind::integer && !is_float(g.dtype)) {
      const std::int64_t v = g.dtype == DType::boolean ? (a->integer != 0 ? 1 : 0) : a->integer;
      std::memcpy(g.value.bytes.data(), &v, sizeof(v));
      return g.shape.rank == 0;
    }
    const auto width = static_cast<std::size_t>(register_bytes(g.dtype));
    const bool splat = a->kind == Attribute::Kind::dense && a->bytes.size() == width;
    const bool real = a->kind == Attribute::Kind::real && a->bytes.size() >= width;
    if (!splat && !(real && g.shape.rank == 0)) return false;
    std::memcpy(g.value.bytes.data(), a->bytes.data(), width);
    return true;
  }
  bool dims(const Operation& op, GridOp& g) const {
    g.own = shape_of(op.operands[0]);
    if (op.name == "tt.broadcast") {
      if (g.own.rank != g.shape.rank) return false;
      for (int d = 0; d < g.own.rank; ++d) g.from[at(d)] = d;
      return true;
    }
    std::int64_t axis = 0;
    if (!integer(op, "axis", axis) || axis < 0 || axis > g.own.rank) return false;
    for (int d = 0; d < g.shape.rank; ++d) g.from[at(d)] = d == axis ? -1 : d < axis ? d : d - 1;
    return true;
  }

  bool element(const Planner::MadeBy& made, int result, GridOp g) {
    g.op = made.op;
    bool any = false;
    for (const int v : made.operands) {
      const Place& p = place(v);
      if (p.known < 0 && p.array < 0) return false;
      g.array.push_back(p.array >= 0);
      any = any || p.array >= 0;
      g.in.push_back(p.array >= 0 ? p.array : p.known);
      g.types.push_back(type(v).dtype);
    }
    if (any && !of_arrays(g.shape)) return false;
    g.kind = any ? GridOp::Kind::element : GridOp::Kind::known;
    g.to = any ? new_array(result) : new_known(result);
    form_.ops.push_back(std::move(g));
    return true;
  }

  /// All arrays of a program have as many elements.
  bool of_arrays(const Shape& s) {
    const std::int64_t n = s.elems();
    if (s.rank == 0 || (form_.elems != 0 && form_.elems != n)) return false;
    form_.elems = n;
    return true;
  }
  bool site(const Operation& op, GridOp& g) {
    std::int64_t number = -1;
    if (!integer(op, "tessera.access", number) || !sites_.contains(number)) return false;
    g.site = sites_.at(number);
    g.access = static_cast<int>(form_.accesses.size());
    form_.accesses.push_back(static_cast<int>(form_.ops.size()));
    return true;
  }
  bool load(const Operation& op, GridOp g) {
    const Attribute* const segments = op.find("operandSegmentSizes");
    if (segments == nullptr || op.results.size() != 1 || op.operands.empty() ||
        !of_arrays(g.shape) || !site(op, g))
      return false;
    g.kind = GridOp::Kind::load;
    g.masked = op.operands.size() > 1;
    for (std::size_t i = 0; i < op.operands.size() && i < 2; ++i) {
      if (place(op.operands[i]).known < 0) return false;
      g.in.push_back(place(op.operands[i]).known);
    }
    g.to = new_array(op.results[0]);
    form_.ops.push_back(std::move(g));
    return true;
  }
  bool store(const Operation& op, GridOp g) {
    if (op.operands.size() < 2) return false;
    g.dtype = type(op.operands[1]).dtype;
    g.shape = shape_of(op.operands[1]);
    if (!of_arrays(g.shape) || !site(op, g)) return false;
    g.kind = GridOp::Kind::store;
    g.masked = op.operands.size() > 2;
    for (std::size_t i = 0; i < op.operands.size(); ++i) {
      const Place& p = place(op.operands[i]);
      const bool value = i == 1;
      if (value ? p.array < 0 && p.known < 0 : p.known < 0) return false;
      g.array.push_back(value && p.array >= 0);
      g.in.push_back(value && p.array >= 0 ? p.array : p.known);
    }
    ++stores_;
    form_.ops.push_back(std::move(g));
    return true;
  }

  /// What one store alone takes is computed where it is stored.
  void send_results() {
    std::vector<int> uses(at(form_.arrays));
    for (const GridOp& g : form_.ops) {
      for (std::size_t i = 0; i < g.array.size(); ++i) {
        if (g.array[i]) ++uses[at(g.in[i])];
      }
    }
    for (GridOp& made : form_.ops) {
      if (made.kind != GridOp::Kind::element || uses[at(made.to)] != 1) continue;
      for (const GridOp& g : form_.ops) {
        if (g.kind == GridOp::Kind::store && g.array[1] && g.in[1] == made.to)
          made.stored_by = g.access;
      }
    }
  }

  const Module& module_;
  const Function& main_;
  const std::map<int, Planner::MadeBy>& made_;
  std::map<std::int64_t, int> sites_;
  std::vector<Place> places_;
  std::set<int> needed_;
  GridForm form_;
  int stores_ = 0;
};

/// What a value is in some programs of a row: of integers and masks without elements, in a shape
/// whose first dim are the programs; the same bits everywhere, if it is uniform.
struct Known {
  bool uniform = false;
  Scalar bits = {};
  Regular value = {};
};

/// A load or store of some programs.
struct Reach {
  Strided lanes;           ///< of all of them
  Strided one;             ///< of the first
  std::int64_t apart = 0;  ///< bytes from program to program
  bool flat = false;       ///< lane after lane, program after program
  std::size_t storage = 0;
  std::byte* memory = nullptr;  ///< where lanes.address is
  bool copied = false;          ///< of a load: its storage is written, too
  bool direct = false;          ///< of a store: nothing else reaches its storage
  bool streamed = false;        ///< of such a store: of more than a cache keeps
};

/// Programs of a row.
struct Chunk {
  std::array<std::int64_t, 3> id{};  ///< of the first
  std::int64_t programs = 0;
  std::vector<Known> known;
  std::vector<Reach> reaches;
};

class Grid {
 public:
  Grid(const GridForm& form, const GridLaunch& launch, Memory& memory)
      : form_(form), launch_(launch), memory_(memory) {
    for (std::size_t d = 1; d < 3; ++d) {
      if (launch.grid[d] > launch.grid[axis_]) axis_ = d;
    }
  }

  bool prove() {
    const std::array<std::int64_t, 3>& grid = launch_.grid;
    constexpr std::int64_t kLeast = 4;  // programs of a row
    if (grid[axis_] < kLeast) return false;
    std::array<std::int64_t, 3> id{};
    const std::size_t a = axis_ == 0 ? 1 : 0;
    const std::size_t b = axis_ == 2 ? 1 : 2;
    most_ = 64 + 4 * grid[a] * grid[b];
    for (id[b] = 0; id[b] < grid[b]; ++id[b]) {
      for (id[a] = 0; id[a] < grid[a]; ++id[a]) {
        id[axis_] = 0;
        if (!row(id, grid[axis_])) return false;
      }
    }
    return launch_.dry || apart();
  }

  void run(std::vector<Requested>& requested, std::int64_t& together,
           const std::function<void(std::int64_t)>& alone) {
    for (const Chunk& c : chunks_) {
      if (c.programs == 1) alone(c.id[0] + launch_.grid[0] * (c.id[1] + launch_.grid[1] * c.id[2]));
    }
    const std::size_t storages = memory_.storages().size();
    for (Chunk& c : chunks_) {
      if (c.programs == 1) continue;
      together += c.programs;
      for (std::size_t i = 0; i < c.reaches.size(); ++i) {
        const GridOp& g = form_.ops[at(form_.accesses[i])];
        const Reach& r = c.reaches[i];
        const std::int64_t bytes = c.programs * form_.elems * register_bytes(g.dtype);
        Requested& q = requested[at(g.site) * storages + r.storage];
        q.times += c.programs;
        (g.kind == GridOp::Kind::load ? q.read_bytes : q.written_bytes) += bytes;
        if (g.kind == GridOp::Kind::store && !launch_.dry && memory_.declared_undefined(r.storage))
          memory_.define(r.lanes.address, bytes);
      }
      if (!launch_.dry) run(c);
    }
  }

 private:
  /// As few chunks as can be proven.
  bool row(std::array<std::int64_t, 3> id, std::int64_t programs) {
    if (std::ssize(chunks_) >= most_) return false;
    Chunk c;
    c.id = id;
    c.programs = programs;
    if (evaluate(c)) {
      chunks_.push_back(std::move(c));
      return true;
    }
    if (programs == 1) return false;
    // A mask's edge is in the last program, mostly.
    const std::int64_t first =
        programs > 2 && id[axis_] + programs == launch_.grid[axis_] ? programs - 1 : programs / 2;
    std::array<std::int64_t, 3> rest = id;
    rest[axis_] += first;
    return (first > programs / 2 + 1 && !trial(id, first)
                ? row_halves(id, programs)
                : row(id, first) && row(rest, programs - first));
  }
  bool row_halves(std::array<std::int64_t, 3> id, std::int64_t programs) {
    std::array<std::int64_t, 3> rest = id;
    rest[axis_] += programs / 2;
    return row(id, programs / 2) && row(rest, programs - programs / 2);
  }
  bool trial(const std::array<std::int64_t, 3>& id, std::int64_t programs) {
    Chunk c;
    c.id = id;
    c.programs = programs;
    return evaluate(c);
  }

  static Shape with_programs(std::int64_t programs, const Shape& s) {
    Shape all;
    all.push_back(programs);
    for (int d = 0; d < s.rank; ++d) all.push_back(s[d]);
    return all;
  }
  static void set_all(Regular& mask, const Shape& s, bool on) {
    mask.step.fill(0);
    mask.end.fill(0);
    for (int d = 0; d < s.rank; ++d) mask.end[at(d)] = on ? s[d] : 0;
  }

  static void set_uniform(Known& k, const Scalar& bits, DType dtype, const Shape& s) {
    k.uniform = true;
    k.bits = bits;
    k.value.step.fill(0);
    if (dtype == DType::boolean) {
      set_all(k.value, s, bits.bytes[0] != std::byte{0});
    } else if (!is_float(dtype)) {
      visit_dtype(dtype, [&](auto tag) {
        using T = typename decltype(tag)::type;
        if constexpr (std::is_integral_v<T>) {
          T v{};
          std::memcpy(&v, bits.bytes.data(), sizeof(T));
          k.value.base = static_cast<std::int64_t>(v);
        }
      });
    }
  }
  /// Of a regular value: whether it is uniform.
  static void note_uniform(Known& k, DType dtype, const Shape& s) {
    k.bits = {};
    if (dtype == DType::boolean) {
      const bool all = is_full(k.value, s);
      k.uniform = all || k.value.end[0] <= k.value.step[0];
      k.bits.bytes[0] = std::byte{all};
      return;
    }
    k.uniform = std::ranges::all_of(k.value.step, [](std::int64_t step) { return step == 0; });
    std::memcpy(k.bits.bytes.data(), &k.value.base, sizeof(k.value.base));
  }

  bool evaluate(Chunk& c) {
    c.known.resize(at(form_.known));
    c.reaches.resize(form_.accesses.size());
    Shape scalars;
    scalars.push_back(c.programs);
    for (std::size_t i = 0; i < form_.arguments.size(); ++i) {
      const auto& [value, dtype] = form_.arguments[i];
      if (value >= 0) set_uniform(c.known[at(value)], launch_.arguments[i], dtype, scalars);
    }
    return std::ranges::all_of(form_.ops, [&](const GridOp& g) { return evaluate(c, g); });
  }

  bool evaluate(Chunk& c, const GridOp& g) {
    const Shape shape = with_programs(c.programs, g.shape);
    switch (g.kind) {
      case GridOp::Kind::element: {
        for (std::size_t i = 0; i < g.in.size(); ++i) {
          if (!g.array[i] && !c.known[at(g.in[i])].uniform) return false;
        }
        return true;
      }
      case GridOp::Kind::load:
      case GridOp::Kind::store:
        return reach(c, g, shape);
      default:
        break;
    }
    Known& to = c.known[at(g.to)];
    to.value.base = 0;
    to.value.step.fill(0);
    switch (g.kind) {
      case GridOp::Kind::id:
        to.value.base = c.id[at(static_cast<int>(g.number))];
        to.value.step[0] = c.programs > 1 && static_cast<std::size_t>(g.number) == axis_ ? 1 : 0;
        break;
      case GridOp::Kind::constant:
        set_uniform(to, g.value, g.dtype, shape);
        return true;
      case GridOp::Kind::range:
        to.value.base = g.number;
        to.value.step[1] = g.shape[0] > 1 ? 1 : 0;
        break;
      case GridOp::Kind::splat: {
        const Known& from = c.known[at(g.in[0])];
        if (from.uniform) {
          set_uniform(to, from.bits, g.dtype, shape);
          return true;
        }
        set_all(to.value, shape, true);
        to.value.base = from.value.base;
        to.value.step[0] = from.value.step[0];
        to.value.end[0] = from.value.end[0];
        break;
      }
      case GridOp::Kind::dims: {
        const Known& from = c.known[at(g.in[0])];
        if (from.uniform) {
          set_uniform(to, from.bits, g.dtype, shape);
          return true;
        }
        set_all(to.value, shape, true);
        to.value.base = from.value.base;
        to.value.step[0] = from.value.step[0];
        to.value.end[0] = from.value.end[0];
        for (int d = 0; d < g.shape.rank; ++d) {
          const int own = g.from[at(d)];
          if (own < 0 || g.own[own] != g.shape[d]) continue;
          to.value.step[at(d) + 1] = from.value.step[at(own) + 1];
          to.value.end[at(d) + 1] = from.value.end[at(own) + 1];
        }
        if (g.dtype == DType::boolean && !boxed(from.value, with_programs(c.programs, g.own)))
          return false;
        break;
      }
      default:
        return known_op(c, g, shape, to);
    }
    note_uniform(to, g.dtype, shape);
    return true;
  }
  /// No dim that is repeated is left out by the box.
  static bool boxed(const Regular& mask, const Shape& own) {
    for (int d = 0; d < own.rank; ++d) {
      if (own[d] == 1 && (mask.step[at(d)] != 0 || mask.end[at(d)] != 1)) return false;
    }
    return true;
  }

  static bool known_op(Chunk& c, const GridOp& g, const Shape& shape, Known& to) {
    const auto whole = [](DType d) { return !is_float(d) && bit_width(d) >= 8; };
    const bool masks = g.dtype == DType::boolean && g.op.regular == regular_and;
    const bool regular =
        g.op.regular != nullptr && g.in.size() <= 2 && std::ranges::all_of(g.types, [&](DType d) {
          return masks == (d == DType::boolean) && (masks || whole(d));
        });
    if (regular) {
      std::array<const Regular*, 2> in{};
      for (std::size_t i = 0; i < g.in.size(); ++i) in[i] = &c.known[at(g.in[i])].value;
      if (!g.op.regular(to.value, in.data(), shape) ||
          (g.dtype != DType::boolean && !fits(to.value, shape, g.dtype)))
        return false;
      note_uniform(to, g.dtype, shape);
      return true;
    }
    std::array<const std::byte*, 4> in{};
    for (std::size_t i = 0; i < g.in.size(); ++i) {
      const Known& k = c.known[at(g.in[i])];
      if (!k.uniform) return false;
      in[i] = k.bits.bytes.data();
    }
    Scalar bits;
    g.op.kernel(bits.bytes.data(), in.data(), 1);
    set_uniform(to, bits, g.dtype, shape);
    return true;
  }

  bool reach(Chunk& c, const GridOp& g, const Shape& shape) {
    const Regular& pointers = c.known[at(g.in[0])].value;
    const Regular* const mask = g.masked ? &c.known[at(g.in.back())].value : nullptr;
    const bool full = mask == nullptr || is_full(*mask, shape);
    const bool store = g.kind == GridOp::Kind::store;
    if (!full && c.programs > 1) return false;
    if (store && !g.array[1] && !c.known[at(g.in[1])].uniform) return false;
    std::int64_t least = 0;
    std::int64_t largest = 0;
    if (!regular_range(pointers, shape, least, largest) || least < 0 ||
        largest >= std::int64_t{1} << 62)
      return false;
    const std::int64_t width = register_bytes(g.dtype);
    Reach& r = c.reaches[at(g.access)];
    r.lanes = strided(pointers, full ? nullptr : mask, shape);
    if (r.lanes.lanes == 0) return true;
    const auto place = memory_.place_of(r.lanes, width);
    if (!place) return false;
    r.storage = place->storage;
    r.memory = place->memory;
    if (c.programs == 1) return true;
    if (launch_.dry) return true;
    r.flat = r.lanes.rank == 1 && r.lanes.step[0] == width && r.lanes.apart[0] == 1;
    if (place->undefined && !(store && r.flat)) return false;
    // Elements lie where their type may.
    if (reinterpret_cast<std::uintptr_t>(r.memory) % static_cast<std::uintptr_t>(width) != 0)
      return false;
    if (store && !r.lanes.disjoint(width)) return false;
    Regular one = pointers;
    for (int d = 0; d < g.shape.rank; ++d) one.step[at(d)] = pointers.step[at(d) + 1];
    one.step[at(g.shape.rank)] = 0;
    r.one = strided(one, nullptr, g.shape);
    r.apart = pointers.step[0];
    return true;
  }

  struct Span {
    std::int64_t begin = 0;
    std::int64_t end = 0;
    std::size_t chunk = 0;
    int access = 0;
    bool write = false;
  };
  /// What a program writes no other one touches.
  bool apart() {
    std::map<std::size_t, std::vector<Span>> all;  // by storage
    std::set<std::size_t> written;
    for (std::size_t k = 0; k < chunks_.size(); ++k) {
      for (std::size_t i = 0; i < form_.accesses.size(); ++i) {
        const Reach& r = chunks_[k].reaches[i];
        const GridOp& g = form_.ops[at(form_.accesses[i])];
        if (r.lanes.lanes == 0) continue;
        const bool write = g.kind == GridOp::Kind::store;
        if (write) written.insert(r.storage);
        const std::int64_t begin = memory_.in_storage(r.lanes.first());
        const std::int64_t end = begin + r.lanes.end(register_bytes(g.dtype)) - r.lanes.first();
        all[r.storage].push_back({begin, end, k, static_cast<int>(i), write});
      }
    }
    std::int64_t left = 1 << 16;  // pairs
    for (const std::size_t s : written) {
      std::vector<Span>& spans = all[s];
      std::ranges::sort(spans, {}, &Span::begin);
      for (std::size_t i = 0; i < spans.size(); ++i) {
        for (std::size_t k = i + 1; k < spans.size() && spans[k].begin < spans[i].end; ++k) {
          if (--left < 0 || !may_meet(spans[i], spans[k])) return false;
        }
      }
    }
    for (Chunk& c : chunks_) {
      for (Reach& r : c.reaches) {
        r.copied = written.contains(r.storage);
        r.direct = std::ranges::count(c.reaches, r.storage, &Reach::storage) == 1;
        constexpr std::int64_t kMuch = std::int64_t{2} << 20;  // bytes
        r.streamed = kStreams && r.direct && r.copied && r.flat &&
                     r.lanes.end(r.lanes.step[0]) - r.lanes.first() >= kMuch;
      }
    }
    return true;
  }
  bool may_meet(const Span& a, const Span& b) const {
    if (!a.write && !b.write) return true;
    if (a.chunk != b.chunk) return false;
    const Chunk& c = chunks_[a.chunk];
    if (c.programs == 1) return true;
    const Reach& x = c.reaches[at(a.access)];
    const Reach& y = c.reaches[at(b.access)];
    // Each program its own, read before it is written.
    const Span& first = a.access < b.access ? a : b;
    const Span& second = a.access < b.access ? b : a;
    if (first.write && !second.write) return false;
    return a.begin == b.begin && x.lanes.rank == y.lanes.rank && x.lanes.count == y.lanes.count &&
           x.lanes.step == y.lanes.step && x.lanes.apart == y.lanes.apart &&
           x.lanes.lanes == y.lanes.lanes;
  }

  /// All elements of the chunk, strip by strip; in any order.
  void run(const Chunk& c) const {
    const bool flat = std::ranges::all_of(c.reaches, &Reach::flat);
    const std::int64_t n = form_.elems;
    const std::int64_t all = c.programs * n;
    const std::int64_t strip = flat ? kStrip : std::max<std::int64_t>(1, kStrip / n) * n;
    // The first strip ends where a line does of what is streamed.
    std::int64_t before = 0;
    for (const Reach& r : c.reaches) {
      if (!flat || !r.streamed) continue;
      const std::int64_t head = to_line(r.memory);
      if (head % r.lanes.step[0] == 0 && head > 0) before = strip - head / r.lanes.step[0];
    }
    const std::int64_t strips = (before + all + strip - 1) / strip;
    // Threads take some time to wake.
    constexpr std::int64_t kWorthWhile = 128;  // strips
    const std::int64_t parts =
        launch_.threads < 2 || strips < kWorthWhile ? 1 : std::min<std::int64_t>(strips / 8, 64);
    ByProcessor order(parts, launch_.threads);
    const auto part = [&](Strips& buffers, std::int64_t p) {
      const std::int64_t first = strips * p / parts;
      const std::int64_t last = strips * (p + 1) / parts;
      for (std::int64_t k = first; k < last; ++k) {
        const std::int64_t s = order.backwards() ? first + last - 1 - k : k;
        const std::int64_t begin = std::max<std::int64_t>(0, s * strip - before);
        buffers.run(begin, std::min((s + 1) * strip - before, all) - begin, flat);
      }
      end_stream();
    };
    const auto several = [&](std::int64_t) {
      constexpr int kSeveral = 4;  // parts with the same buffers
      std::optional<Strips> buffers;
      for (int k = 0; k < kSeveral; ++k) {
        const std::int64_t p = order.next();
        if (p < 0) return;
        if (!buffers) buffers.emplace(*this, c, strip);
        part(*buffers, p);
      }
    };
    if (parts == 1)
      several(0);
    else
      each_on_threads(parts, launch_.threads, several);
  }

  /// A thread's memory for a strip.
  class Strips {
   public:
    Strips(const Grid& grid, const Chunk& chunk, std::int64_t strip)
        : form_(grid.form_), chunk_(chunk), values_(at(form_.arrays)), own_(at(form_.arrays)) {
      const auto size = [&](std::int64_t width) {
        return (static_cast<std::size_t>(strip * width) + 63) / 64 * 64;
      };
      std::size_t bytes = 0;
      for (const int w : form_.widths) bytes += size(w);
      for (const GridOp& g : form_.ops) bytes += at(static_cast<int>(uniforms(g))) * size(8);
      held_ = StorageHandle(Storage::allocate(bytes + 64));
      std::byte* next = held_.bytes();
      for (std::size_t i = 0; i < own_.size(); ++i) {
        own_[i] = next;
        next += size(form_.widths[i]);
      }
      for (const GridOp& g : form_.ops) {
        for (std::size_t i = 0; i < g.array.size() && uniforms(g) > 0; ++i) {
          if (g.array[i] || (g.kind == GridOp::Kind::store && i != 1)) continue;
          const DType dtype = g.kind == GridOp::Kind::store ? g.dtype : g.types[i];
          const std::int64_t width = register_bytes(dtype);
          expand_lane(next, {Lane::Kind::splat, 0, 1, dtype},
                      chunk_.known[at(g.in[i])].bits.bytes.data(), width, 0, strip);
          filled_[{&g, i}] = next;
          next += size(8);
        }
      }
      steps_.reserve(form_.ops.size());
      for (const GridOp& g : form_.ops) {
        if (g.kind != GridOp::Kind::element && g.kind != GridOp::Kind::load &&
            g.kind != GridOp::Kind::store)
          continue;
        Step s{&g, {}};
        for (std::size_t i = 0; i < g.array.size(); ++i) {
          if (const auto it = filled_.find({&g, i}); it != filled_.end()) s.filled[i] = it->second;
        }
        steps_.push_back(s);
      }
    }

    void run(std::int64_t first, std::int64_t n, bool flat) {
      for (const Step& s : steps_) {
        const GridOp& g = *s.op;
        const std::int64_t width = register_bytes(g.dtype);
        if (g.kind == GridOp::Kind::load) {
          const Reach& r = chunk_.reaches[at(g.access)];
          if (flat && !r.copied) {
            values_[at(g.to)] = r.memory + first * width;
            continue;
          }
          values_[at(g.to)] = own_[at(g.to)];
          each_program(r, first, n, flat, width,
                       [&](const Strided& lanes, std::byte* memory, std::int64_t k) {
                         load_strided(lanes, width, memory, own_[at(g.to)] + k * width);
                       });
          continue;
        }
        std::array<const std::byte*, 4> in{};
        for (std::size_t i = 0; i < g.array.size(); ++i)
          in[i] = g.array[i] ? values_[at(g.in[i])] : s.filled[i];
        if (g.kind == GridOp::Kind::element) {
          std::byte* to = own_[at(g.to)];
          if (flat && g.stored_by >= 0) {
            const Reach& r = chunk_.reaches[at(g.stored_by)];
            if (r.direct && !r.streamed) to = r.memory + first * width;
          }
          g.op.kernel(to, in.data(), n);
          values_[at(g.to)] = to;
          continue;
        }
        const Reach& r = chunk_.reaches[at(g.access)];
        if (flat && in[1] == r.memory + first * width) continue;  // it is there
        if (flat && r.streamed) {
          stream(r.memory + first * width, in[1], n * width);
          continue;
        }
        each_program(r, first, n, flat, width,
                     [&](const Strided& lanes, std::byte* memory, std::int64_t k) {
                       store_strided(lanes, width, in[1] + k * width, memory);
                     });
      }
    }

   private:
    struct Step {
      const GridOp* op;
      std::array<const std::byte*, 4> filled;
    };
    static std::int64_t uniforms(const GridOp& g) {
      if (g.kind == GridOp::Kind::store) return g.array[1] ? 0 : 1;
      if (g.kind != GridOp::Kind::element) return 0;
      return std::ranges::count(g.array, false);
    }
    /// f(lanes, where the first of them is, elements before) of the elements [first, first + n).
    template <class F>
    void each_program(const Reach& r, std::int64_t first, std::int64_t n, bool flat,
                      std::int64_t width, F&& f) const {
      if (flat) {
        Strided lanes = r.lanes;
        lanes.count[0] = lanes.lanes = n;
        f(lanes, r.memory + first * width, 0);
        return;
      }
      for (std::int64_t p = first / form_.elems; p < (first + n) / form_.elems; ++p)
        f(r.one, r.memory + p * r.apart, p * form_.elems - first);
    }

    const GridForm& form_;
    const Chunk& chunk_;
    StorageHandle held_;
    std::vector<const std::byte*> values_;
    std::vector<std::byte*> own_;
    std::map<std::pair<const GridOp*, std::size_t>, std::byte*> filled_;
    std::vector<Step> steps_;
  };

  const GridForm& form_;
  const GridLaunch& launch_;
  Memory& memory_;
  std::size_t axis_ = 0;
  std::int64_t most_ = 0;  ///< chunks
  std::vector<Chunk> chunks_;
};

}  // namespace

std::shared_ptr<const GridForm> grid_form(const Module& module, const Function& main,
                                          const std::map<int, Planner::MadeBy>& made,
                                          const std::vector<Site>& sites) {
  return Former(module, main, made, sites).form();
}

bool run_grid(const GridForm& form, const GridLaunch& launch, Memory& memory,
              std::vector<Requested>& requested, std::int64_t& together,
              const std::function<void(std::int64_t)>& alone) {
  Grid grid(form, launch, memory);
  if (!grid.prove()) return false;
  grid.run(requested, together, alone);
  return true;
}

}  // namespace tessera::triton

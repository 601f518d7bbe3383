// What SparseCores do to memory beside copies: gathers and scatters in VMEM, sums in the SMEM of
// others, and their barrier.
#include "pallas/adding.hpp"
#include "pallas/rules.hpp"
#include "program/memory.hpp"

namespace tessera::pallas {

namespace {

/// Vectors that together name elements of a memref, and which of them count.
struct Places {
  std::vector<int> indices;  ///< vector slots, one per dim
  int mask = -1;
  std::int64_t elems = 0;

  /// f(element, the one of the memref that it names), for those that count.
  template <class F>
  void for_each(Exec& x, const MemRef& m, F&& f) const {
    const Origin undecided = mask >= 0 ? x.vector(mask).first_poison(0, elems) : Origin{0};
    if (undecided != 0) fail_poison(undecided, "a mask of indices");
    const Shape one = [&] {
      Shape s;
      for (std::size_t d = 0; d < indices.size(); ++d) s.push_back(1);
      return s;
    }();
    std::vector<std::int64_t> at(indices.size());
    for (std::int64_t e = 0; e < elems; ++e) {
      if (mask >= 0 && x.vector(mask).data.bytes()[e] == std::byte{0}) continue;
      for (std::size_t d = 0; d < indices.size(); ++d) {
        const Vector& index = x.vector(indices[d]);
        if (const Origin o = index.poison_at(e)) fail_poison(o, "an index");
        std::int32_t i = 0;
        std::memcpy(&i, index.data.bytes() + e * 4, sizeof i);
        at[d] = i;
      }
      f(e, part_of(m, at, one));
    }
  }
};

Places places(Planner& p, const Operation& op, int memref, int vector,
              const std::vector<int>& indices, const std::vector<int>& mask) {
  const Type& m = p.type(memref);
  const Type& v = p.type(vector);
  if (m.kind != Type::Kind::memref || v.kind != Type::Kind::vector || m.space != "vmem")
    p.unsupported(op, "of anything but vectors and VMEM");
  p.expect_same_type(op, memref, vector);
  if (register_bytes(v.dtype) != 4) p.unsupported(op, std::string("of ") + name(v.dtype));
  if (static_cast<int>(indices.size()) != m.shape.rank || indices.empty())
    p.unsupported(op, "without an index for every dim");
  Places r;
  r.elems = v.shape.elems();
  for (const int i : indices) {
    if (p.type(i).dtype != DType::i32 || p.type(i).shape.elems() != r.elems)
      p.unsupported(op, "with indices of this type");
    r.indices.push_back(p.vector(i));
  }
  if (!mask.empty()) {
    if (p.type(mask[0]).dtype != DType::boolean || p.type(mask[0]).shape.elems() != r.elems)
      p.unsupported(op, "with a mask of another shape");
    r.mask = p.vector(mask[0]);
    p.read(r.mask);
  }
  for (const int slot : r.indices) p.read(slot);
  return r;
}

void plan_load_idx(Planner& p, const Operation& op) {
  const auto parts = p.segments(op);
  if (parts.size() != 3 || parts[0].size() != 1 || parts[2].size() > 1 || op.results.size() != 1)
    p.refuse(op);
  const Places from = places(p, op, parts[0][0], op.results[0], parts[1], parts[2]);
  const int memref = p.memref(parts[0][0]);
  const int to = p.new_vector(op.results[0]);
  p.emit([=](Exec& x) {
    Vector v;
    v.data = StorageHandle(Storage::allocate(static_cast<std::size_t>(from.elems) * 4));
    std::memset(v.data.bytes(), 0, static_cast<std::size_t>(from.elems) * 4);
    bool any = false;
    v.poison = poison_mask(from.elems, kLeftOut);
    std::int64_t defined = 0;
    from.for_each(x, x.memref(memref), [&](std::int64_t e, const Ref& element) {
      const Vector one = load(x, element);
      any = any || one.bound;
      std::memcpy(v.data.bytes() + e * 4, one.data.bytes(), 4);
      v.poison.bytes()[e] = std::byte{one.poison_at(0)};
      defined += one.poison_at(0) == 0 ? 1 : 0;
    });
    if (any) fail_bounds_of("through a gather of VMEM");
    if (defined == from.elems) v.poison = StorageHandle();
    x.vector(to) = std::move(v);
  });
}

void plan_store_idx(Planner& p, const Operation& op) {
  const auto parts = p.segments(op);
  if (parts.size() != 4 || parts[0].size() != 1 || parts[1].size() != 1 || parts[3].size() > 1)
    p.refuse(op);
  const Places to = places(p, op, parts[1][0], parts[0][0], parts[2], parts[3]);
  const DType dtype = p.type(parts[0][0]).dtype;
  const Adding add = p.integer_or(op, "add", 0) != 0 ? adding(dtype) : nullptr;
  const int memref = p.memref(parts[1][0]);
  const int from = p.vector(parts[0][0]);
  p.emit(
      [=](Exec& x) {
        const Vector& v = x.vector(from);
        to.for_each(x, x.memref(memref), [&](std::int64_t e, const Ref& element) {
          Vector one;
          one.data = StorageHandle(Storage::allocate(4));
          std::memcpy(one.data.bytes(), v.data.bytes() + e * 4, 4);
          if (const Origin poison = v.poison_at(e)) one.poison = poison_mask(1, poison);
          store_or_add(x, one, element, add);
        });
      },
      {from});
}

void plan_barrier(Planner& p, const Operation& op) {
  p.expect(op, 1, 0);
  if (p.program().subcores.empty()) p.unsupported(op, "but on the vector subcores of SparseCores");
  const int number = p.scalar(op.operands[0]);
  p.program().asynchronous = true;
  p.emit([=](Exec& x) {
    MachineCore& c = x.machine_core();
    const Subcores& kind = kind_of(x.program, c.core);
    if (!kind.vectors) fail_ref("a barrier of subcores on a scalar subcore");
    const auto id = static_cast<int>(x.integer(number, DType::i64, "a barrier's number"));
    Semaphore& mine = c.machine->subcore_barrier(c, id);
    const Site site = site_of(c, x.here());
    const auto leader = static_cast<int>(leader_of(x.program, c.core));
    const int first = c.id - c.core + leader;
    const auto others = static_cast<int>(kind.of_a_core()) - 1;
    if (others == 0) return;
    if (c.core != leader) {
      c.machine->signal(c, *c.machine->on_core(mine, first), 1, site);
      c.machine->wait(c, mine, 1, site);
      return;
    }
    c.machine->wait(c, mine, others, site);
    for (int k = 1; k <= others; ++k)
      c.machine->signal(c, *c.machine->on_core(mine, first + k), 1, site);
  });
}

void plan_fetch_and_add(Planner& p, const Operation& op) {
  if (op.operands.size() < 3 || op.results.size() != 1) p.refuse(op);
  const Type& m = p.type(op.operands[0]);
  const std::size_t rank = op.operands.size() - 3;
  if (p.program().subcores.size() != 1 || !p.program().subcores[0].vectors)
    p.unsupported(op, "but between the vector subcores of a SparseCore");
  if (m.kind != Type::Kind::memref || m.space != "smem" || m.dtype != DType::i32 ||
      static_cast<int>(rank) != m.shape.rank)
    p.unsupported(op, "of anything but a scalar of SMEM");
  const int memref = p.memref(op.operands[0]);
  const auto indices = p.scalars(std::span(op.operands).subspan(1, rank));
  const DType index_type = rank == 0 ? DType::i32 : p.type(op.operands[1]).dtype;
  const int amount = p.scalar(op.operands[rank + 1]);
  const int subcore = p.scalar(op.operands[rank + 2]);
  const int to = p.new_scalar(op.results[0]);
  p.program().asynchronous = true;
  p.emit([=](Exec& x) {
    MachineCore& c = x.machine_core();
    const std::int64_t k = x.integer(subcore, DType::i32, "a subcore id");
    const std::int64_t of_a_core = x.program.subcores[0].of_a_core();
    if (k < 0 || k >= of_a_core) fail_ref("an id of no subcore");
    MemRef far = x.memref(memref);
    const auto on = static_cast<int>(c.id - c.core + leader_of(x.program, c.core) + k);
    Buffer* const theirs = c.machine->on_core(*far.buffer, on);
    if (theirs == nullptr) fail_ref("memory that the other subcore has not");
    far.buffer = theirs;
    add_to_element(x, far, indices, index_type, amount, to);
  });
}

}  // namespace

Rules sparse_memory_rules() {
  static const std::vector<Rule> rules = {
      {"tpu.vector_load_idx", "elements of VMEM that vectors of indices name, where a mask holds",
       true, plan_load_idx},
      {"tpu.vector_store_idx",
       "into elements of VMEM that vectors of indices name, where a mask holds, or added to them; "
       "of equal indices the last one counts, sums take all in order",
       false, plan_store_idx},
      {"tpu.barrier", "waits until every vector subcore of the SparseCore is there", false,
       plan_barrier},
      {"tpu.fetch_and_add_sync", "adds to a scalar in another subcore's SMEM: what it was", false,
       plan_fetch_and_add},
  };
  return rules;
}

}  // namespace tessera::pallas

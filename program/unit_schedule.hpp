// Bundles of a stretch of code by a list schedule of its registers.
//
// Each register of an op is a chain of operations: what it asks of each unit (unit_costs.hpp), one
// after another, behind the registers that it reads. What is asked of XLU and EUP is pushed there
// and popped a latency later. Latencies are those by which the TPU's compiler places operations, of
// listings in which other work fills every bundle (tpu_compiler/unit_costs.py has them). It leaves
// out bundles in which nothing begins: so a chain alone takes a bundle for each of its operations,
// whatever the latencies, and these cost what other registers begin meanwhile.
//
// A matrix unit of 128 x 128 takes a cycle a row; a result is there a latency later, behind as many
// passes of others. A unit's products follow one another in the order of the program, also where a
// later one could begin before: of an attention's gradient of 256 x 256 (a v5e) S = q k^T, dv = p^T
// do, dp = do v^T, dk takes 889 bundles, with dp before dv 669, since dp waits for dv on the units
// that they share. Matrix units and XLUs have two slots of a bundle. What does not fit in registers
// is stored behind what makes it, and loaded.
//
// The longest way to the end goes first; how far the compiler's own order is from that is not
// known. Placed from the begin and from the end, such a schedule has some bundles more or less: the
// mean is taken, but for one product on wide units and for products in the highest precision
// (unit_schedule_wide.cpp), which are placed from the begin, and for several on wide units behind a
// wait for a copy, placed from the end: accumulators are loaded and put together late there.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "program/unit_costs.hpp"
#include "program/unit_few_rows.hpp"
#include "program/unit_rounds.hpp"
#include "program/unit_tiles.hpp"
#include "program/unit_wide.hpp"

namespace tessera::program {

class UnitSchedule {
 public:
  /// Of costs that say how the compiler schedules.
  explicit UnitSchedule(const UnitCosts& costs) : costs_(costs), of_(*costs.schedules) {}

  /// Of the next op a row, so many times; an op's rows follow one another.
  void add(const std::string& row, const UnitCost& cost, std::int64_t times);
  /// Of the next op registers of few rows that are put together, or whole ones that are parted:
  /// through memory each is stored.
  void put_together(const FewRows::Together& put);
  /// The next op stores few rows.
  void store(const FewRows::Stored& stored);
  /// Of the next op what takes bundle after bundle, and others begin beside it.
  void add_serial(std::int64_t bundles);
  /// What was added is this op's.
  void end(const UnitOp& op);

  /// A product whose tiles of weights lie in matrix units of 128 x 128 (unit_tiles.hpp). What is
  /// added before of its left side, and ends with this, is done to that first.
  struct Product {
    std::vector<MatrixUnits> tiles;
    std::int64_t deep;       ///< so many of them add to one register of the result
    std::int64_t results;    ///< registers
    std::int64_t pushed;     ///< registers of a tile
    double push;             ///< cycles that a register of weights takes a unit
    std::int64_t of_a_pass;  ///< registers of the result that a register of rows gives
    bool splits = false;     ///< in the highest precision: `tiles` are rounds (unit_rounds.hpp)
  };
  void multiply(const UnitOp& op, const Product& product);

  /// A product on two units of 256 x 256 (unit_schedule_wide.cpp); likewise. `of_first`: the first
  /// unit's part of the rows of an odd tile.
  void multiply(const UnitOp& op, const WideProduct& product, double of_first);

  /// So many masks of words are packed for an op, which it reads first.
  void pack_masks(const UnitOp& op, std::int64_t times);

  /// Of what an op has made so many registers are stored and loaded again.
  void spill(const UnitOp& op, std::int64_t registers);

  /// None: that many operations are no little code. `behind_copies`: the code waits for some.
  std::optional<std::int64_t> bundles(bool behind_copies = false) const;

 private:
  using Registers = std::vector<int>;  ///< the last operation of each
  struct Operation {
    int unit;               ///< or what unit_schedule.cpp has besides
    int every;              ///< cycles in which its unit begins no other
    int latency;            ///< until what reads it may begin
    std::int64_t earliest;  ///< when it may begin if units are free
  };
  struct Row {
    std::string name;
    const UnitCost* cost;  ///< null: of add_serial
    std::int64_t times;
    FewRows::Together put{};   ///< of put_together
    FewRows::Stored stored{};  ///< of store
  };
  /// Counted together.
  struct Chain {
    int functions;  ///< pushed to EUP
    int moves;      ///< pushed to XLU
    int move_every;
    int vector;  ///< of VALU
    int deep;    ///< of these one after another
    int serial;  ///< bundles besides
  };

  /// Of matrix units one: what of it was last asked there; -1: nothing.
  struct MatrixUnit {
    int push = -1;
    int pass = -1;
    int first_pass = -1;  ///< of the last tile
    int pop = -1;
    Registers results;  ///< of a narrow one, in order
  };
  /// A transpose unit.
  struct TransposeUnit {
    int in = -1;
    int out = -1;
  };

  bool is_too_much() const {
    constexpr std::size_t kMostOperations = 1 << 16;
    return operations_.size() > kMostOperations;
  }
  static std::vector<int> read_by(const std::vector<Registers>& inputs, std::int64_t i,
                                  std::int64_t n);
  std::vector<Registers> made(const UnitOp& op, std::size_t read) const;
  std::vector<Registers> left_of(const UnitOp& op);
  /// Of the registers of a side of a product its parts (SplitPart).
  using Parts = std::array<std::vector<Registers>, kSplitParts>;
  Parts split(const std::vector<Registers>& of, std::int64_t begins, std::int64_t ends,
              std::int64_t n, bool packs);
  struct Pushes {
    int first;
    int last;
  };
  Pushes push_tile(std::size_t unit, const WideProduct& p, const std::vector<Registers>& right,
                   std::int64_t at, std::int64_t all, bool loads_again);
  Pushes push_part(const UnitOp& op, const WideProduct& p, const WideRound& round, bool is_first);
  void pass_rows(const WideProduct& p, const WideRound& round, const Parts& left, int weights,
                 std::vector<Registers>& popped);
  int pass(std::size_t unit, int results, const Registers& first_reads, const Registers& reads);
  Registers turned(const Row& in, std::int64_t out, const std::vector<Registers>& inputs);
  void add_up(const UnitOp& op, const std::vector<Registers>& parts, int latency);
  int begin(int unit, int every, int latency, const Registers& after);
  void follow(int before, int latency, int here);
  std::vector<Registers> inputs_of(const UnitOp& op) const;
  Registers serial(std::int64_t bundles, Registers after);
  Chain chain_of(const Row& row, std::int64_t i) const;
  int one_register(const Row& row, std::int64_t i, Registers after);
  Registers through_memory(const FewRows::Together& put, const std::vector<Registers>& inputs);
  Registers stored(const FewRows::Stored& stored, const std::vector<Registers>& inputs);
  Registers registers(const Row& row, const std::vector<Registers>& inputs);
  std::vector<int> results_before(bool backward) const;
  double scheduled(bool backward) const;

  const UnitCosts& costs_;
  const UnitSchedules& of_;
  std::vector<Operation> operations_;
  struct Edge {
    int before;
    int here;
    int latency;
  };
  std::vector<Edge> edges_;
  std::vector<Row> rows_;
  std::unordered_map<int, Registers> made_by_;
  std::unordered_map<int, Registers> packed_;  ///< masks
  std::unordered_map<int, Registers> stored_;  ///< by memref
  std::array<MatrixUnit, kMostMatrixUnits> matrix_units_;
  std::array<TransposeUnit, 2> transpose_units_;
  std::unordered_map<int, std::vector<Parts>> split_;  ///< right sides, by tile
  /// Of what is put together or parted through memory, the last load of each place.
  std::array<int, 2> loaded_last_{-1, -1};
  std::array<Registers, 2> stored_last_;  ///< likewise, the last stores
  std::size_t turns_ = 0;                 ///< tiles that were turned
  int products_ = 0;                      ///< on narrow units, of one pass
  int wide_products_ = 0;
  bool splits_ = false;
};

}  // namespace tessera::program

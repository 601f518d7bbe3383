// Every op, in alphabetical order of its name: the only list. Tables, loaders, tests and docs
// include it; kernels include the ops they use, so that a new op does not rebuild them.
#pragma once

#include <tuple>

#include "sim/ops/abs.hpp"
#include "sim/ops/add.hpp"
#include "sim/ops/and.hpp"
#include "sim/ops/arg_reduce.hpp"
#include "sim/ops/bitcast.hpp"
#include "sim/ops/bitwise.hpp"
#include "sim/ops/cast.hpp"
#include "sim/ops/ceil.hpp"
#include "sim/ops/cos.hpp"
#include "sim/ops/cumsum.hpp"
#include "sim/ops/div.hpp"
#include "sim/ops/dot.hpp"
#include "sim/ops/equal.hpp"
#include "sim/ops/erf.hpp"
#include "sim/ops/exp.hpp"
#include "sim/ops/exp2.hpp"
#include "sim/ops/expm1.hpp"
#include "sim/ops/floor.hpp"
#include "sim/ops/fma.hpp"
#include "sim/ops/full.hpp"
#include "sim/ops/greater.hpp"
#include "sim/ops/greater_equal.hpp"
#include "sim/ops/ids.hpp"
#include "sim/ops/interleave.hpp"
#include "sim/ops/less.hpp"
#include "sim/ops/less_equal.hpp"
#include "sim/ops/log.hpp"
#include "sim/ops/log1p.hpp"
#include "sim/ops/log2.hpp"
#include "sim/ops/logistic.hpp"
#include "sim/ops/lookup.hpp"
#include "sim/ops/max.hpp"
#include "sim/ops/min.hpp"
#include "sim/ops/mul.hpp"
#include "sim/ops/mul_hi.hpp"
#include "sim/ops/negate.hpp"
#include "sim/ops/not.hpp"
#include "sim/ops/not_equal.hpp"
#include "sim/ops/or.hpp"
#include "sim/ops/philox.hpp"
#include "sim/ops/pow.hpp"
#include "sim/ops/rearrange.hpp"
#include "sim/ops/reduce.hpp"
#include "sim/ops/rem.hpp"
#include "sim/ops/round_even.hpp"
#include "sim/ops/rsqrt.hpp"
#include "sim/ops/scan.hpp"
#include "sim/ops/shift.hpp"
#include "sim/ops/sin.hpp"
#include "sim/ops/sort.hpp"
#include "sim/ops/sqrt.hpp"
#include "sim/ops/sub.hpp"
#include "sim/ops/tanh.hpp"
#include "sim/ops/top_k.hpp"
#include "sim/ops/unpack.hpp"
#include "sim/ops/where.hpp"
#include "sim/ops/where_at.hpp"

namespace tessera::ops {

using All = std::tuple<Abs, Add, LogicalAnd, BitAnd, BitOr, BitXor, Bitcast, Cast, Ceil, ColIds,
                       ColMax, ColMin, ColSum, ConcatCols, ConcatRows, Cos, Div, Dot, Equal, Erf,
                       Exp, Exp2, Expm1, Floor, Fma, Full, Greater, GreaterEqual, Less, LessEqual,
                       Log, Log1p, Log2, Logistic, Maximum, Minimum, Mul, MulHi, Negate, LogicalNot,
                       NotEqual, LogicalOr, Pow, Rem, RepeatCols, RepeatRows, RollCols, RollRows,
                       RoundEven, RowIds, RowMax, RowMin, RowSum, Rsqrt, ShiftLeft, ShiftRight, Sin,
                       SplitCols, SplitRows, Sqrt, Sub, Tanh, Select, WhereAt>;

}  // namespace tessera::ops

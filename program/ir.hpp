// A module of MLIR as plain data: what a front end's importer makes of it, and what everything else
// works on without MLIR.
//
// Names of ops are those of MLIR's dialects ("arith.addf"). Attributes that belong to a dialect
// ("#tpu.dot_dimension_numbers<...>") are their text. Values are numbered through the module.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "memory_model/dtype.hpp"
#include "memory_model/layout.hpp"

namespace tessera::program {

inline constexpr std::int64_t kDynamic = INT64_MIN;

struct Type {
  enum class Kind : std::uint8_t { scalar, index, vector, memref, other };
  Kind kind = Kind::other;
  DType dtype = DType::i32;  ///< of scalars and elements; i1 is `boolean`
  Shape shape;               ///< kDynamic where it is not static
  std::string space;         ///< of a memref: "vmem", "smem", "any", "hbm", "semaphore_mem"
  std::string core;          ///< of a memref of another kind of core: "sc_scalar_subcore"
  std::string semaphore;     ///< of a memref of semaphores: "dma_semaphore", "semaphore"
  std::string text;          ///< as MLIR prints it
  bool known = true;         ///< false: an element type that tessera does not have
  bool pointer = false;      ///< addresses (i64) of a dialect with pointers: "!tt.ptr<f32>"
  DType pointee = DType::i8;
};

struct Attribute {
  enum class Kind : std::uint8_t { none, integer, real, text, list, dictionary, integers, dense };
  Kind kind = Kind::none;
  std::int64_t integer = 0;
  double real = 0;
  std::string text;
  std::vector<Attribute> list;
  std::map<std::string, Attribute> dictionary;
  std::vector<std::int64_t> integers;
  /// Of a dense constant: elements in row-major order, one per dtype's unpacked size; one if splat.
  std::vector<std::byte> bytes;
};

using Attributes = std::map<std::string, Attribute>;

struct Location {
  std::string file;
  int line = 0;
  int column = 0;  ///< 0: not kept
};

struct Operation;

/// One block: its arguments and its operations, the terminator last. Blocks after the first are in
/// `others`.
struct Region {
  std::vector<int> arguments;
  std::vector<Operation> operations;
  int blocks = 1;
  std::vector<Region> others;
};

struct Operation {
  std::string name;
  std::vector<int> operands;
  std::vector<int> results;
  std::shared_ptr<const Attributes> attributes;  ///< of all ops that have the same ones
  std::vector<Region> regions;
  int location = 0;
  std::vector<int> successors;  ///< of a branch: blocks of its region, 0 the first

  const Attribute* find(const std::string& attribute) const {
    if (attributes == nullptr) return nullptr;
    const auto it = attributes->find(attribute);
    return it == attributes->end() ? nullptr : &it->second;
  }
};

struct Function {
  std::string name;
  Region body;
  Attributes attributes;
  std::vector<std::string> argument_names;  ///< in the source; "" where it has none
};

struct Module {
  std::string dialect;       ///< of its functions: "stable_mosaic", "tt"
  std::int64_t version = 0;  ///< of the dialect that it was serialised in
  std::vector<Type> types;   ///< each once
  std::vector<int> values;   ///< the types of values, by their number
  std::vector<Location> locations;
  std::vector<Function> functions;

  const Type& type(int value) const {
    return types[static_cast<std::size_t>(values[static_cast<std::size_t>(value)])];
  }
  /// Null if there is none.
  const Function* function(const std::string& name) const {
    for (const Function& f : functions) {
      if (f.name == name) return &f;
    }
    return nullptr;
  }
};

}  // namespace tessera::program

// tessera-import: a module of Mosaic's or of Triton's dialects on standard input, on standard
// output a byte: 0, and ir.hpp's as CBOR; or 1, and why it cannot be read.
//
// A program of its own: nobody else pays for MLIR, and a damaged module, on which MLIR's reader may
// crash or never end, takes down nothing but this process. Its time and memory are limited.
//
// MLIR needs to know three things about the `tpu` dialect: that its attributes and types exist
// (their text is kept), and that its types may be elements of memrefs. The 8- and 4-bit floats
// whose bytecode came with MLIR 23, and the affine maps and strided layouts whose bytecode came
// with MLIR 24 (JAX 0.11), are decoded here. Of the `tt` dialect all is opaque to it; tensors are
// ir.hpp's vectors, and pointers i64 that know what they point to.
#include <llvm/Config/llvm-config.h>
#include <llvm/Support/raw_ostream.h>
#include <mlir/AsmParser/AsmParser.h>
#include <mlir/Bytecode/BytecodeImplementation.h>
#include <mlir/Bytecode/BytecodeReader.h>
#include <mlir/IR/AffineExpr.h>
#include <mlir/IR/AffineMap.h>
#include <mlir/IR/BuiltinAttributes.h>
#include <mlir/IR/BuiltinOps.h>
#include <mlir/IR/BuiltinTypes.h>
#include <mlir/IR/Dialect.h>
#include <mlir/IR/DialectImplementation.h>
#include <mlir/IR/MLIRContext.h>
#include <mlir/Parser/Parser.h>

#include <signal.h>
#include <sys/prctl.h>
#include <sys/resource.h>

#include <array>
#include <cstdio>
#include <iostream>
#include <iterator>
#include <unordered_map>

#include "program/module_cbor.hpp"

static_assert(LLVM_VERSION_MAJOR == 22, "the bytecode of Mosaic modules is read with MLIR 22");

namespace {

struct TextStorage : mlir::AttributeStorage {
  using KeyTy = llvm::StringRef;
  explicit TextStorage(llvm::StringRef t) : text(t) {}
  bool operator==(const KeyTy& key) const { return key == text; }
  static TextStorage* construct(mlir::AttributeStorageAllocator& allocator, const KeyTy& key) {
    return new (allocator.allocate<TextStorage>()) TextStorage(allocator.copyInto(key));
  }
  llvm::StringRef text;
};
struct TextTypeStorage : mlir::TypeStorage {
  using KeyTy = llvm::StringRef;
  explicit TextTypeStorage(llvm::StringRef t) : text(t) {}
  bool operator==(const KeyTy& key) const { return key == text; }
  static TextTypeStorage* construct(mlir::TypeStorageAllocator& allocator, const KeyTy& key) {
    return new (allocator.allocate<TextTypeStorage>()) TextTypeStorage(allocator.copyInto(key));
  }
  llvm::StringRef text;
};

class TpuAttribute : public mlir::Attribute::AttrBase<TpuAttribute, mlir::Attribute, TextStorage> {
 public:
  using Base::Base;
  static constexpr llvm::StringLiteral name = "tpu.attribute";
  llvm::StringRef text() const { return getImpl()->text; }
};
class TpuType : public mlir::Type::TypeBase<TpuType, mlir::Type, TextTypeStorage,
                                            mlir::MemRefElementTypeInterface::Trait> {
 public:
  using Base::Base;
  static constexpr llvm::StringLiteral name = "tpu.type";
  llvm::StringRef text() const { return getImpl()->text; }
};

class TpuDialect : public mlir::Dialect {
 public:
  explicit TpuDialect(mlir::MLIRContext* context)
      : mlir::Dialect("tpu", context, mlir::TypeID::get<TpuDialect>()) {
    addAttributes<TpuAttribute>();
    addTypes<TpuType>();
    allowUnknownOperations();
  }
  // NOLINTNEXTLINE(readability-identifier-naming): MLIR's name
  static constexpr llvm::StringLiteral getDialectNamespace() { return "tpu"; }

  mlir::Attribute parseAttribute(mlir::DialectAsmParser& parser, mlir::Type) const override {
    const llvm::StringRef text = parser.getFullSymbolSpec();
    return skip(parser) ? TpuAttribute::get(getContext(), text) : TpuAttribute();
  }
  mlir::Type parseType(mlir::DialectAsmParser& parser) const override {
    const llvm::StringRef text = parser.getFullSymbolSpec();
    return skip(parser) ? TpuType::get(getContext(), text) : TpuType();
  }
  void printAttribute(mlir::Attribute a, mlir::DialectAsmPrinter& printer) const override {
    printer << mlir::cast<TpuAttribute>(a).text();
  }
  void printType(mlir::Type t, mlir::DialectAsmPrinter& printer) const override {
    printer << mlir::cast<TpuType>(t).text();
  }

 private:
  /// Moves the parser past the text that getFullSymbolSpec() has given whole.
  static bool skip(mlir::DialectAsmParser& parser) {
    const char* const end = parser.getFullSymbolSpec().end();
    while (parser.getCurrentLocation().getPointer() < end) {
      std::string ignored;
      const char* const before = parser.getCurrentLocation().getPointer();
      llvm::StringRef word;
      if (mlir::succeeded(parser.parseOptionalKeyword(&word)) ||
          mlir::succeeded(parser.parseOptionalString(&ignored)) ||
          mlir::succeeded(parser.parseOptionalLess()) ||
          mlir::succeeded(parser.parseOptionalGreater()) ||
          mlir::succeeded(parser.parseOptionalLSquare()) ||
          mlir::succeeded(parser.parseOptionalRSquare()) ||
          mlir::succeeded(parser.parseOptionalLParen()) ||
          mlir::succeeded(parser.parseOptionalRParen()) ||
          mlir::succeeded(parser.parseOptionalLBrace()) ||
          mlir::succeeded(parser.parseOptionalRBrace()) ||
          mlir::succeeded(parser.parseOptionalComma()) ||
          mlir::succeeded(parser.parseOptionalColon()) ||
          mlir::succeeded(parser.parseOptionalEqual()) ||
          mlir::succeeded(parser.parseOptionalStar()) ||
          mlir::succeeded(parser.parseOptionalPlus()) ||
          mlir::succeeded(parser.parseOptionalMinus()) ||
          mlir::succeeded(parser.parseOptionalArrow())) {
        continue;
      }
      llvm::APInt number;
      const mlir::OptionalParseResult integer = parser.parseOptionalInteger(number);
      if (integer.has_value() && mlir::succeeded(*integer)) continue;
      if (parser.getCurrentLocation().getPointer() == before) return false;
    }
    return true;
  }
};

}  // namespace

MLIR_DECLARE_EXPLICIT_TYPE_ID(TpuDialect)
MLIR_DEFINE_EXPLICIT_TYPE_ID(TpuDialect)

namespace tessera::program {

namespace {

/// The 8- and 4-bit floats in builtin bytecode of MLIR 23 (BuiltinDialectBytecode.td there).
mlir::LogicalResult read_new_float(mlir::DialectBytecodeReader& reader, llvm::StringRef dialect,
                                   mlir::Type& type) {
  if (dialect != "builtin") return mlir::success();
  std::uint64_t code = 0;
  if (mlir::failed(reader.readVarInt(code))) return mlir::failure();
  mlir::MLIRContext* const context = reader.getContext();
  switch (code) {
    case 22:
      type = mlir::Float8E5M2Type::get(context);
      break;
    case 24:
      type = mlir::Float8E4M3FNType::get(context);
      break;
    case 27:
      type = mlir::Float8E4M3B11FNUZType::get(context);
      break;
    case 29:
      type = mlir::Float4E2M1FNType::get(context);
      break;
    case 32:
      type = mlir::Float8E8M0FNUType::get(context);
      break;
    default:
      break;
  }
  return mlir::success();
}

/// An affine expression as MLIR 24 writes it: an operator, then its operands.
mlir::LogicalResult read_affine(mlir::DialectBytecodeReader& reader, int depth,
                                mlir::AffineExpr& expr) {
  enum Code : std::uint8_t { dim, symbol, constant, add, mul, mod, floordiv, ceildiv };
  constexpr int kDeepest = 100;
  mlir::MLIRContext* const context = reader.getContext();
  std::uint64_t code = 0;
  if (depth > kDeepest || mlir::failed(reader.readVarInt(code)) || code > ceildiv)
    return mlir::failure();
  if (code <= symbol) {
    std::uint64_t position = 0;
    if (mlir::failed(reader.readVarInt(position)) || position > 64) return mlir::failure();
    const auto at = static_cast<unsigned>(position);
    expr =
        code == dim ? mlir::getAffineDimExpr(at, context) : mlir::getAffineSymbolExpr(at, context);
    return mlir::success();
  }
  if (code == constant) {
    std::int64_t value = 0;
    if (mlir::failed(reader.readSignedVarInt(value))) return mlir::failure();
    expr = mlir::getAffineConstantExpr(value, context);
    return mlir::success();
  }
  mlir::AffineExpr a;
  mlir::AffineExpr b;
  if (mlir::failed(read_affine(reader, depth + 1, a)) ||
      mlir::failed(read_affine(reader, depth + 1, b)))
    return mlir::failure();
  constexpr std::array kinds{mlir::AffineExprKind::Add, mlir::AffineExprKind::Mul,
                             mlir::AffineExprKind::Mod, mlir::AffineExprKind::FloorDiv,
                             mlir::AffineExprKind::CeilDiv};
  expr = mlir::getAffineBinaryOpExpr(kinds[code - add], a, b);
  return mlir::success();
}

/// Its dims and which of four forms: the identity, a permutation, some of its dims, or any.
mlir::LogicalResult read_affine_map(mlir::DialectBytecodeReader& reader, mlir::Attribute& to) {
  enum Form : std::uint8_t { identity, permutation, projection, any };
  constexpr std::uint64_t kMost = 64;
  mlir::MLIRContext* const context = reader.getContext();
  std::uint64_t head = 0;
  if (mlir::failed(reader.readVarInt(head)) || head / 4 > kMost) return mlir::failure();
  const auto dims = static_cast<unsigned>(head / 4);
  const std::uint64_t form = head % 4;
  std::uint64_t symbols = 0;
  std::uint64_t results = dims;
  if (form == any && mlir::failed(reader.readVarInt(symbols))) return mlir::failure();
  if ((form == any || form == projection) && mlir::failed(reader.readVarInt(results)))
    return mlir::failure();
  if (symbols > kMost || results > kMost) return mlir::failure();
  llvm::SmallVector<mlir::AffineExpr> exprs;
  for (std::uint64_t i = 0; i < results; ++i) {
    mlir::AffineExpr expr;
    std::uint64_t position = i;
    if (form == any) {
      if (mlir::failed(read_affine(reader, 0, expr))) return mlir::failure();
    } else {
      if (form != identity && mlir::failed(reader.readVarInt(position))) return mlir::failure();
      if (position >= dims) return mlir::failure();
      expr = mlir::getAffineDimExpr(static_cast<unsigned>(position), context);
    }
    exprs.push_back(expr);
  }
  to = mlir::AffineMapAttr::get(
      mlir::AffineMap::get(dims, static_cast<unsigned>(symbols), exprs, context));
  return mlir::success();
}

mlir::LogicalResult read_strided_layout(mlir::DialectBytecodeReader& reader, mlir::Attribute& to) {
  constexpr std::uint64_t kMost = 64;
  std::int64_t offset = 0;
  std::uint64_t count = 0;
  if (mlir::failed(reader.readSignedVarInt(offset)) || mlir::failed(reader.readVarInt(count)) ||
      count > kMost)
    return mlir::failure();
  llvm::SmallVector<std::int64_t> strides(count);
  for (std::int64_t& stride : strides) {
    if (mlir::failed(reader.readSignedVarInt(stride))) return mlir::failure();
  }
  to = mlir::StridedLayoutAttr::get(reader.getContext(), offset, strides);
  return mlir::success();
}

/// What builtin bytecode of MLIR 24 has and that of 22 has as text.
mlir::LogicalResult read_new_attribute(mlir::DialectBytecodeReader& reader, llvm::StringRef dialect,
                                       mlir::Attribute& to) {
  if (dialect != "builtin") return mlir::success();
  std::uint64_t code = 0;
  if (mlir::failed(reader.readVarInt(code))) return mlir::failure();
  if (code == 23) return read_affine_map(reader, to);
  if (code == 25) return read_strided_layout(reader, to);
  return mlir::success();
}

template <class T>
std::string text_of(T x) {
  std::string text;
  llvm::raw_string_ostream out(text);
  x.print(out);
  return text;
}

bool element_dtype(mlir::Type t, DType& dtype) {
  if (t.isF32())
    dtype = DType::f32;
  else if (t.isBF16())
    dtype = DType::bf16;
  else if (t.isF16())
    dtype = DType::f16;
  else if (t.isF64())
    dtype = DType::f64;
  else if (mlir::isa<mlir::Float8E4M3FNType>(t))
    dtype = DType::f8e4m3fn;
  else if (mlir::isa<mlir::Float8E5M2Type>(t))
    dtype = DType::f8e5m2;
  else if (mlir::isa<mlir::Float8E4M3B11FNUZType>(t))
    dtype = DType::f8e4m3b11fnuz;
  else if (mlir::isa<mlir::Float8E8M0FNUType>(t))
    dtype = DType::f8e8m0fnu;
  else if (mlir::isa<mlir::Float4E2M1FNType>(t))
    dtype = DType::f4e2m1fn;
  else if (t.isInteger(1))
    dtype = DType::boolean;
  else if (t.isInteger(2))
    dtype = DType::i2;
  else if (t.isInteger(4))
    dtype = DType::i4;
  else if (t.isInteger(8))
    dtype = DType::i8;
  else if (t.isInteger(16))
    dtype = DType::i16;
  else if (t.isInteger(32))
    dtype = DType::i32;
  else if (t.isInteger(64))
    dtype = DType::i64;
  else
    return false;
  return true;
}

class Importer {
 public:
  explicit Importer(Module& to) : to_(to) {}

  std::string import(mlir::ModuleOp module) {
    if (const auto version = module->getAttrOfType<mlir::IntegerAttr>("stable_mosaic.version"))
      to_.version = version.getInt();
    for (mlir::Operation& op : *module.getBody()) {
      const llvm::StringRef name = op.getName().getStringRef();
      const char* const dialect = name == "stable_mosaic.func.func" ? "stable_mosaic"
                                  : name == "tt.func"               ? "tt"
                                                                    : "";
      if (*dialect == 0 || (!to_.dialect.empty() && to_.dialect != dialect)) {
        return "it holds '" + name.str() +
               "', and a module holds functions of one dialect, stable_mosaic or tt";
      }
      to_.dialect = dialect;
      if (op.getNumRegions() != 1 || op.getRegion(0).empty()) return "a function has no body";
      Function f;
      for (const mlir::NamedAttribute a : attributes_of(op))
        f.attributes[a.getName().str()] = attribute(a.getValue());
      for (const mlir::BlockArgument a : op.getRegion(0).getArguments()) {
        const auto named = mlir::dyn_cast<mlir::NameLoc>(a.getLoc());
        f.argument_names.push_back(named ? named.getName().str() : "");
      }
      f.name = f.attributes["sym_name"].text;
      f.body = region(op.getRegion(0));
      to_.functions.push_back(std::move(f));
    }
    return error_;
  }

 private:
  int number(mlir::Value v) {
    const auto [it, fresh] = numbers_.try_emplace(v.getAsOpaquePointer(), to_.values.size());
    if (fresh) {
      // MLIR has each type, attribute and location once: so have we.
      const void* const key = v.getType().getAsOpaquePointer();
      const auto [t, fresh_type] = types_.try_emplace(key, to_.types.size());
      if (fresh_type) to_.types.push_back(type(v.getType()));
      to_.values.push_back(static_cast<int>(t->second));
    }
    return static_cast<int>(it->second);
  }

  Shape shape(llvm::ArrayRef<std::int64_t> dims) {
    Shape s;
    if (dims.size() > static_cast<std::size_t>(kMaxRank)) {
      error_ = "it holds a value of rank " + std::to_string(dims.size()) + "; tessera has 8";
      return s;
    }
    for (const std::int64_t d : dims) s.push_back(mlir::ShapedType::isDynamic(d) ? kDynamic : d);
    return s;
  }

  /// Of a tensor of more dims: its elements (triton/many_dims.hpp).
  Shape one_dim(llvm::ArrayRef<std::int64_t> dims) {
    constexpr std::int64_t kMost = std::int64_t{1} << 40;
    std::int64_t elems = 1;
    for (const std::int64_t d : dims) {
      if (d < 1 || d > kMost / elems) {
        error_ = "it holds a tensor of impossible dims";
        return {};
      }
      elems *= d;
    }
    return {elems};
  }

  Type type(mlir::Type t) {
    Type r;
    r.text = text_of(t);
    if (mlir::isa<mlir::IndexType>(t)) {
      r.kind = Type::Kind::index;
      r.dtype = DType::i64;
    } else if (const auto v = mlir::dyn_cast<mlir::VectorType>(t)) {
      r.kind = Type::Kind::vector;
      r.shape = shape(v.getShape());
      r.known = element_dtype(v.getElementType(), r.dtype);
    } else if (const auto tensor = mlir::dyn_cast<mlir::RankedTensorType>(t)) {
      r.kind = Type::Kind::vector;
      r.shape = tensor.getRank() > kMaxRank ? one_dim(tensor.getShape()) : shape(tensor.getShape());
      r.known =
          pointer(tensor.getElementType(), r) || element_dtype(tensor.getElementType(), r.dtype);
    } else if (pointer(t, r)) {
      r.kind = Type::Kind::scalar;
    } else if (const auto m = mlir::dyn_cast<mlir::MemRefType>(t)) {
      r.kind = Type::Kind::memref;
      r.shape = shape(m.getShape());
      if (m.getMemorySpace()) {
        r.space = text_of(m.getMemorySpace());
        const auto from = r.space.find('<');
        const auto to = r.space.rfind('>');
        if (from != std::string::npos && to != std::string::npos && to > from)
          r.space = r.space.substr(from + 1, to - from - 1);
        if (const auto comma = r.space.find(", "); comma != std::string::npos) {
          r.core = r.space.substr(comma + 2);
          r.space.resize(comma);
        }
      }
      const std::string element = text_of(m.getElementType());
      if (element.ends_with("dma_semaphore"))
        r.semaphore = "dma_semaphore";
      else if (element.ends_with("semaphore"))
        r.semaphore = "semaphore";
      else
        r.known = element_dtype(m.getElementType(), r.dtype);
    } else if (element_dtype(t, r.dtype)) {
      r.kind = Type::Kind::scalar;
    } else {
      r.known = false;
    }
    return r;
  }

  /// True if it is "!tt.ptr<f32>" or "!tt.ptr<f32, 1>", or a pointer to a pointer.
  static bool pointer(mlir::Type t, Type& r) {
    const auto opaque = mlir::dyn_cast<mlir::OpaqueType>(t);
    if (!opaque || opaque.getDialectNamespace().getValue() != "tt") return false;
    llvm::StringRef text = opaque.getTypeData();
    if (!text.consume_front("ptr<")) return false;
    const bool nested = text.starts_with("!tt.ptr<");
    text = text.take_until([](char c) { return c == ',' || c == '>'; });
    const mlir::Type element =
        nested ? mlir::IntegerType::get(t.getContext(), 64) : mlir::parseType(text, t.getContext());
    r.pointer = element && element_dtype(element, r.pointee);
    r.dtype = DType::i64;
    return r.pointer;
  }

  static void put(std::vector<std::byte>& bytes, std::uint64_t bits, DType dtype) {
    const int size = std::max(1, bit_width(dtype) / 8);
    for (int i = 0; i < size; ++i) bytes.push_back(static_cast<std::byte>(bits >> (8 * i)));
  }

  Attribute attribute(mlir::Attribute a) {
    Attribute r;
    using Kind = Attribute::Kind;
    if (const auto i = mlir::dyn_cast<mlir::IntegerAttr>(a)) {
      r.kind = Kind::integer;
      r.integer = i.getType().isInteger(1) ? (i.getValue().isZero() ? 0 : 1)
                                           : i.getValue().sextOrTrunc(64).getSExtValue();
    } else if (const auto f = mlir::dyn_cast<mlir::FloatAttr>(a)) {
      r.kind = Kind::real;
      r.real = f.getValueAsDouble();
      DType dtype{};
      if (element_dtype(f.getType(), dtype))
        put(r.bytes, f.getValue().bitcastToAPInt().getZExtValue(), dtype);
    } else if (const auto s = mlir::dyn_cast<mlir::StringAttr>(a)) {
      r.kind = Kind::text;
      r.text = s.getValue().str();
    } else if (const auto list = mlir::dyn_cast<mlir::ArrayAttr>(a)) {
      r.kind = Kind::list;
      for (const mlir::Attribute each : list) r.list.push_back(attribute(each));
    } else if (const auto d = mlir::dyn_cast<mlir::DictionaryAttr>(a)) {
      r.kind = Kind::dictionary;
      for (const mlir::NamedAttribute each : d)
        r.dictionary[each.getName().str()] = attribute(each.getValue());
    } else if (const auto i64 = mlir::dyn_cast<mlir::DenseI64ArrayAttr>(a)) {
      r.kind = Kind::integers;
      r.integers.assign(i64.asArrayRef().begin(), i64.asArrayRef().end());
    } else if (const auto i32 = mlir::dyn_cast<mlir::DenseI32ArrayAttr>(a)) {
      r.kind = Kind::integers;
      r.integers.assign(i32.asArrayRef().begin(), i32.asArrayRef().end());
    } else if (const auto flags = mlir::dyn_cast<mlir::DenseBoolArrayAttr>(a)) {
      r.kind = Kind::integers;
      r.integers.assign(flags.asArrayRef().begin(), flags.asArrayRef().end());
    } else if (const auto dense = mlir::dyn_cast<mlir::DenseElementsAttr>(a)) {
      r.kind = Kind::dense;
      DType dtype{};
      if (!element_dtype(dense.getElementType(), dtype)) return r;
      const auto add = [&](const llvm::APInt& bits) { put(r.bytes, bits.getZExtValue(), dtype); };
      if (is_float(dtype)) {
        if (dense.isSplat()) {
          add(dense.getSplatValue<llvm::APFloat>().bitcastToAPInt());
        } else {
          for (const llvm::APFloat& v : dense.getValues<llvm::APFloat>()) add(v.bitcastToAPInt());
        }
      } else if (dense.isSplat()) {
        add(signed_bits(dense.getSplatValue<llvm::APInt>(), dtype));
      } else {
        for (const llvm::APInt& v : dense.getValues<llvm::APInt>()) add(signed_bits(v, dtype));
      }
    } else {
      r.kind = Kind::text;
      r.text = text_of(a);
    }
    return r;
  }

  /// What is packed stands alone in its byte, sign-extended.
  static llvm::APInt signed_bits(const llvm::APInt& v, DType dtype) {
    return dtype == DType::boolean ? v.zextOrTrunc(64) : v.sextOrTrunc(64);
  }

  /// True if a name stack repeats its end: "a/dma_start/a/dma_start". JAX traces the start of a
  /// copy once; the other copies have the stack, and the line, of the first one inside of their
  /// own.
  static bool repeats(llvm::StringRef stack) {
    llvm::SmallVector<llvm::StringRef> parts;
    stack.split(parts, '/');
    return llvm::count(parts, parts.back()) > 1;
  }

  /// True of tl.sum and its like: the line that calls them is the kernel's.
  static bool is_of_language(mlir::FileLineColLoc l) {
    return l.getFilename().getValue().contains("/triton/language/");
  }

  /// The innermost Python line, or the caller's of what is traced once for all.
  static mlir::FileLineColLoc line_of(mlir::Location l, bool of_caller) {
    if (const auto file = mlir::dyn_cast<mlir::FileLineColLoc>(l))
      return file.getLine() == 0 ? mlir::FileLineColLoc() : file;
    if (const auto name = mlir::dyn_cast<mlir::NameLoc>(l))
      return line_of(name.getChildLoc(), of_caller || repeats(name.getName().getValue()));
    if (const auto call = mlir::dyn_cast<mlir::CallSiteLoc>(l)) {
      const auto inner = of_caller ? mlir::FileLineColLoc() : line_of(call.getCallee(), false);
      if (inner && !is_of_language(inner)) return inner;
      const auto outer = line_of(call.getCaller(), false);
      return outer ? outer : inner;
    }
    if (const auto fused = mlir::dyn_cast<mlir::FusedLoc>(l)) {
      for (const mlir::Location each : fused.getLocations()) {
        if (const auto found = line_of(each, of_caller)) return found;
      }
    }
    return {};
  }

  /// The line of an op, or of the nearest op around it that has one: JAX's helpers (sync_copy) have
  /// none of their own.
  int location(mlir::Operation& op) {
    const auto [it, fresh] = locations_.try_emplace(op.getLoc().getAsOpaquePointer(), -1);
    if (!fresh && it->second >= 0) return it->second;
    Location r;
    if (const auto file = line_of(op.getLoc(), false)) {
      r.file = file.getFilename().str();
      r.line = static_cast<int>(file.getLine());
      // Lines alone number the reads of a Mosaic module.
      if (to_.dialect == "tt") r.column = static_cast<int>(file.getColumn());
    } else if (mlir::Operation* const around = op.getParentOp();
               around != nullptr && around->getName().getStringRef() != "func.func") {
      return location(*around);
    }
    const auto [place, fresh_place] =
        places_.try_emplace(r.file + ":" + std::to_string(r.line) + ":" + std::to_string(r.column),
                            to_.locations.size());
    if (fresh_place) to_.locations.push_back(std::move(r));
    return it->second = static_cast<int>(place->second);
  }

  /// With those between <{ and }>, which an op that is not registered has apart.
  static mlir::DictionaryAttr attributes_of(mlir::Operation& op) {
    const auto inherent =
        mlir::dyn_cast_or_null<mlir::DictionaryAttr>(op.getPropertiesAsAttribute());
    if (!inherent || inherent.empty()) return op.getAttrDictionary();
    mlir::NamedAttrList all(op.getAttrDictionary());
    for (const mlir::NamedAttribute a : inherent) all.set(a.getName(), a.getValue());
    return all.getDictionary(op.getContext());
  }

  std::shared_ptr<const Attributes> dictionary(mlir::DictionaryAttr from) {
    auto& known = dictionaries_[from.getAsOpaquePointer()];
    if (known) return known;
    Attributes all;
    for (const mlir::NamedAttribute a : from) {
      const llvm::StringRef name = a.getName();
      // Never other than `none` in what Pallas makes, and without meaning here.
      if (name != "fastmath" && name != "overflowFlags") all[name.str()] = attribute(a.getValue());
    }
    return known = std::make_shared<const Attributes>(std::move(all));
  }

  Region region(mlir::Region& from) {
    constexpr int kDeepest = 200;
    Region r;
    r.blocks = static_cast<int>(std::distance(from.begin(), from.end()));
    if (from.empty()) return r;
    if (++depth_ > kDeepest) error_ = "its regions are nested more than 200 deep";
    if (!error_.empty()) return r;
    int next = 0;
    llvm::DenseMap<mlir::Block*, int> blocks;
    for (mlir::Block& b : from) blocks[&b] = next++;
    for (mlir::Block& b : from) {
      Region& to = &b == &from.front() ? r : r.others.emplace_back();
      for (const mlir::BlockArgument a : b.getArguments()) to.arguments.push_back(number(a));
      for (mlir::Operation& op : b) {
        to.operations.push_back(operation(op));
        for (mlir::Block* const successor : op.getSuccessors())
          to.operations.back().successors.push_back(blocks[successor]);
      }
    }
    --depth_;
    return r;
  }

  Operation operation(mlir::Operation& op) {
    Operation r;
    const llvm::StringRef name = op.getName().getStringRef();
    r.name = name.starts_with("stable_mosaic.") ? name.drop_front(14).str() : name.str();
    for (const mlir::Value v : op.getOperands()) r.operands.push_back(number(v));
    for (const mlir::Value v : op.getResults()) r.results.push_back(number(v));
    r.attributes = dictionary(attributes_of(op));
    for (mlir::Region& each : op.getRegions()) r.regions.push_back(region(each));
    r.location = location(op);
    return r;
  }

  Module& to_;
  std::unordered_map<const void*, std::size_t> numbers_;
  std::unordered_map<const void*, std::size_t> types_;
  std::unordered_map<const void*, int> locations_;
  std::unordered_map<const void*, std::shared_ptr<const Attributes>> dictionaries_;
  std::map<std::string, std::size_t> places_;
  std::string error_;
  int depth_ = 0;
};

std::string import_module(const std::string& text, Module& to) {
  mlir::DialectRegistry registry;
  registry.insert<TpuDialect>();
  mlir::MLIRContext context(registry, mlir::MLIRContext::Threading::DISABLED);
  context.allowUnregisteredDialects();
  context.loadAllAvailableDialects();
  std::string message;
  const mlir::ScopedDiagnosticHandler handler(&context, [&](mlir::Diagnostic& d) {
    if (message.empty()) message = d.str();
    return mlir::success();
  });
  mlir::ParserConfig config(&context, /*verifyAfterParse=*/false);
  config.getBytecodeReaderConfig().attachTypeCallback(read_new_float);
  config.getBytecodeReaderConfig().attachAttributeCallback(read_new_attribute);
  const mlir::OwningOpRef<mlir::ModuleOp> module =
      mlir::parseSourceString<mlir::ModuleOp>(text, config, "module");
  if (!module) return message.empty() ? "MLIR cannot read it" : message;
  return Importer(to).import(*module);
}

}  // namespace

}  // namespace tessera::program

int main() {
  prctl(PR_SET_PDEATHSIG, SIGKILL);  // nobody else would read its answer
  constexpr rlim_t kSeconds = 8;
  constexpr rlim_t kBytes = rlim_t{8} << 30;
  const rlimit time{kSeconds, kSeconds};
  const rlimit memory{kBytes, kBytes};
  const rlimit no_core{0, 0};
  setrlimit(RLIMIT_CPU, &time);
  setrlimit(RLIMIT_AS, &memory);
  setrlimit(RLIMIT_CORE, &no_core);
  const std::string text((std::istreambuf_iterator<char>(std::cin)),
                         std::istreambuf_iterator<char>());
  tessera::program::Module module;
  const std::string error = tessera::program::import_module(text, module);
  // In front of the module, whether it is one: a byte.
  if (!error.empty()) {
    std::putchar(1);
    std::fwrite(error.data(), 1, error.size(), stdout);
    return 0;
  }
  const auto bytes = tessera::program::to_cbor(module);
  std::putchar(0);
  std::fwrite(bytes.data(), 1, bytes.size(), stdout);
  return 0;
}

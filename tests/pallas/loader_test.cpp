// What is no module, or not one for these arrays, gets one clear error; mutated modules never
// crash.
#include <catch2/catch.hpp>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <random>
#include <sstream>

#include "tests/pallas/module_text.hpp"

namespace tessera::pallas {

namespace {

/// A kernel with a grid, windows, a branch, a loop, scratch and a copy.
std::string rich_module() {
  const std::string block = vmem("8x128xf32");
  const std::string map = R"("S.func.func"() ({
^bb0(%i: i32):
  %zero = "S.arith.constant"() {value = 0 : i32} : () -> i32
  "S.func.return"(%i, %zero) : (i32, i32) -> ()
}) {function_type = (i32) -> (i32, i32), sym_name = "transform_0"} : () -> ()
)";
  const std::string body =
      load_whole("%x", "%a", "8x128xf32", 2) + R"(
  %zero = "S.arith.constant"() {value = 0 : i32} : () -> i32
  %two = "S.arith.constant"() {value = 2 : i32} : () -> i32
  %one = "S.arith.constant"() {value = 1 : i32} : () -> i32
  %first = "S.arith.cmpi"(%i, %zero) {predicate = 0 : i64} : (i32, i32) -> i1
  "S.scf.if"(%first) ({
)" + store_whole("%x", "%s", "8x128xf32", 2) +
      R"(    "S.scf.yield"() : () -> ()
  }, {
  }) : (i1) -> ()
  %sum = "S.scf.for"(%zero, %two, %one, %x) ({
  ^bb0(%k: i32, %v: vector<8x128xf32>):
    %w = "S.arith.addf"(%v, %x) {fastmath = #arith.fastmath<none>} : (vector<8x128xf32>, vector<8x128xf32>) -> vector<8x128xf32>
    "S.scf.yield"(%w) : (vector<8x128xf32>) -> ()
  }) : (i32, i32, i32, vector<8x128xf32>) -> vector<8x128xf32>
)" + load_whole("%y", "%s", "8x128xf32", 2) +
      R"(  %r = "S.arith.mulf"(%sum, %y) {fastmath = #arith.fastmath<none>} : (vector<8x128xf32>, vector<8x128xf32>) -> vector<8x128xf32>
)" + store_whole("%r", "%o", "8x128xf32", 2);
  std::string text = module_text(
      "%i: i32, %a: " + block + ", %o: " + block + ", %s: " + block, body,
      "iteration_bounds = array<i64: 2>, scalar_prefetch = 0 : i64, scratch_operands = 1 : i64, "
      "window_params = [{transform_indices = @transform_0, window_bounds = array<i64: 8, 128>}, "
      "{transform_indices = @transform_0, window_bounds = array<i64: 8, 128>}]",
      map);
  return text;
}

std::string error_of(const std::string& bytes) {
  try {
    plan_module(load_module(bytes, "it"));
  } catch (const InputError& e) {
    return e.text();
  } catch (const KernelError& e) {
    return e.diagnostic.text();
  }
  return "";
}

std::string read_file(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::ostringstream bytes;
  bytes << file.rdbuf();
  return bytes.str();
}

}  // namespace

TEST_CASE("a module with a grid, a branch, a loop and scratch", "[pallas]") {
  const Array x = array_of(DType::f32, {16, 128}, [](auto i) { return double(i % 10); });
  const Ran r = run_text(rich_module(), {x});
  REQUIRE(r.result.ok());
  REQUIRE(r.result.grid == std::vector<int>{2});
  for (std::int64_t i = 0; i < x.elems(); ++i)
    REQUIRE(r.out().at(i) == 3 * x.at(i) * x.at(i % (8 * 128)));
  CHECK(r.result.ledger().hbm_read_bytes() == 16 * 128 * 4);
  CHECK(r.result.ledger().hbm_write_bytes() == 16 * 128 * 4);
}

TEST_CASE("what is no module says so in one line", "[pallas]") {
  const auto has = [](const std::string& bytes, const std::string& wanted) {
    const std::string error = error_of(bytes);
    CAPTURE(error);
    CHECK(error.find(wanted) != std::string::npos);
    CHECK(error.starts_with("error["));
  };
  has("", "it is empty");
  has("hello", "it is no Mosaic module");
  has("module {}", "it holds no function");
  has("module { func.func private @f() }", "it is no Mosaic module: Dialect `func' not found");
  has("ML\xefR garbage", "it is no Mosaic module");
  std::string newer = rich_module();
  newer.replace(newer.find("version = 11"), 12, "version = 99");
  has(newer, "stable_mosaic.version 99; this tessera reads 8 to 18");
  has(rich_module().substr(0, 900), "it is no Mosaic module");
}

TEST_CASE("layouts in the bytecode of JAX 0.12 are read", "[pallas]") {
  const Module module = load_module_file(
      (std::filesystem::path(TESSERA_RICH_BYTECODE).parent_path() / "mlir24.mlirbc").string());
  CHECK(module.version == 18);
  const auto& arguments = module.functions.at(0).body.arguments;
  const char* const kLayouts[] = {
      "affine_map<(d0, d1) -> (d1, d0)>", "affine_map<(d0, d1, d2) -> (d0, d2)>",
      "affine_map<(d0, d1)[s0] -> (d0 * 3 - s0, d1 floordiv 2 + d0 mod 5 + (d0 ceildiv 7) * 300)>",
      "strided<[128, -1], offset: ?>"};
  REQUIRE(arguments.size() == 5);
  CHECK(module.type(arguments[0]).text == "memref<4x6xf32>");
  for (std::size_t i = 0; i < std::size(kLayouts); ++i)
    CHECK_THAT(module.type(arguments[i + 1]).text, Catch::Contains(kLayouts[i]));
}

TEST_CASE("arrays that do not fit the module are named", "[pallas]") {
  const auto program = plan_module(load_module(rich_module(), "it"));
  const auto error = [&](std::vector<Array> inputs, std::vector<int> mesh = {1}) {
    Call call;
    call.program = program.get();
    call.inputs = std::move(inputs);
    RunOptions options;
    options.mesh = std::move(mesh);
    try {
      run_call(call, options);
    } catch (const InputError& e) {
      return e.text();
    }
    return std::string("none");
  };
  const Array x(DType::f32, {16, 128});
  CHECK(error({Array(DType::bf16, {16, 128})}).find("input 0 is bf16[16, 128]") !=
        std::string::npos);
  CHECK(error({Array(DType::f32, {16, 8, 16})}).find("blocks of f32[8, 128]") != std::string::npos);
  CHECK(error({x, x, x}).find("at most 2 inputs") != std::string::npos);
  CHECK(error({x}, {3}).find("does not divide among 3 devices") != std::string::npos);
}

namespace {

/// Every operation of a region, nested ones too.
void collect(Region& r, std::vector<Operation*>& all) {
  for (Operation& op : r.operations) {
    all.push_back(&op);
    for (Region& each : op.regions) collect(each, all);
  }
}

/// One thing changed at random: an operand, a result, an attribute, a type, an op.
void damage(Module& m, std::mt19937_64& random) {
  const auto draw = [&](std::size_t n) {
    return n == 0 ? 0 : static_cast<std::size_t>(random() % n);
  };
  std::vector<Operation*> all;
  for (Function& f : m.functions) collect(f.body, all);
  if (all.empty()) return;
  Operation& op = *all[draw(all.size())];
  const auto any_value = [&] { return static_cast<int>(draw(m.values.size())); };
  const auto change = [&](Attribute& a) {
    a.integer = static_cast<std::int64_t>(random() >> draw(64)) - 2;
    for (auto& i : a.integers)
      i = static_cast<std::int64_t>(static_cast<std::uint64_t>(i) + draw(5) - 2);
    if (!a.text.empty()) a.text.erase(draw(a.text.size()), 1 + draw(3));
    if (!a.bytes.empty()) a.bytes.resize(draw(a.bytes.size()) + 1);
    if (!a.list.empty()) a.list.pop_back();
  };
  switch (draw(11)) {
    case 0:
      if (!op.operands.empty()) op.operands[draw(op.operands.size())] = any_value();
      break;
    case 1:
      op.operands.push_back(any_value());
      break;
    case 2:
      if (!op.operands.empty()) op.operands.pop_back();
      break;
    case 3:
      if (!op.results.empty()) op.results[0] = any_value();
      break;
    case 4:
      op.name = all[draw(all.size())]->name;
      break;
    case 5:
      op.attributes = all[draw(all.size())]->attributes;
      break;
    case 6:
      if (op.attributes != nullptr && !op.attributes->empty()) {
        Attributes changed = *op.attributes;
        change(
            std::next(changed.begin(), static_cast<std::ptrdiff_t>(draw(changed.size())))->second);
        op.attributes = std::make_shared<const Attributes>(std::move(changed));
      }
      break;
    case 7:
      m.values[draw(m.values.size())] = static_cast<int>(draw(m.types.size()));
      break;
    case 8: {
      Type& t = m.types[draw(m.types.size())];
      if (t.shape.rank > 0)
        t.shape[static_cast<int>(draw(static_cast<std::size_t>(t.shape.rank)))] =
            static_cast<std::int64_t>(draw(300)) - 1;
      else
        t.dtype = static_cast<DType>(draw(kDTypes));
      break;
    }
    case 9: {
      Function& f = m.functions[draw(m.functions.size())];
      if (!f.attributes.empty())
        change(
            std::next(f.attributes.begin(), static_cast<std::ptrdiff_t>(draw(f.attributes.size())))
                ->second);
      break;
    }
    default:
      if (!op.regions.empty())
        op.regions.pop_back();
      else
        op.regions.emplace_back();
      break;
  }
}

}  // namespace

TEST_CASE("modules that make no sense give an error or a plan, never a crash", "[fuzz]") {
  std::vector<Module> seeds{load_module(rich_module(), "it"),
                            load_module(read_file(TESSERA_RICH_BYTECODE), "it")};
  for (const char* name : {"jax__gmm_f32", "jax__ragged_paged_attention_bf16"}) {
    const std::string recorded =
        read_file(std::string(TESSERA_CORPUS) + "/" + name + "/kernel.mlirbc");
    if (!recorded.empty()) seeds.push_back(load_module(recorded, name));
  }
  std::mt19937_64 random(20261122);
  int errors = 0;
  for (int i = 0; i < TESSERA_MUTATIONS; ++i) {
    Module m = seeds[static_cast<std::size_t>(random() % seeds.size())];
    const auto changes = 1 + random() % 3;
    for (std::uint64_t c = 0; c < changes; ++c) damage(m, random);
    try {
      plan_module(m);
    } catch (const InputError&) {
      ++errors;
    } catch (const KernelError&) {
      ++errors;
    }
  }
  CHECK(errors > TESSERA_MUTATIONS / 8);
}

TEST_CASE("mutated modules give an error or a plan, never a crash", "[fuzz]") {
  // Bytecode of rich_module(), and of a recorded kernel where there is one.
  std::vector<std::string> seeds{rich_module(), read_file(TESSERA_RICH_BYTECODE)};
  REQUIRE(seeds[1].size() > 100);
  const std::string recorded =
      read_file(std::string(TESSERA_CORPUS) + "/jax__gmm_f32/kernel.mlirbc");
  if (recorded.empty())
    std::cerr << "skipped: mutations of recorded kernels: no " << TESSERA_CORPUS << "\n";
  else
    seeds.push_back(recorded);
  for (const std::string& seed : seeds) REQUIRE(error_of(seed).empty());
  std::mt19937_64 random(20261121);
  const auto draw = [&](std::size_t n) { return static_cast<std::size_t>(random() % n); };
  int errors = 0;
  for (int i = 0; i < TESSERA_MUTATIONS / 4; ++i) {
    std::string bytes = seeds[draw(seeds.size())];
    const std::size_t changes = 1 + draw(4);
    for (std::size_t c = 0; c < changes && !bytes.empty(); ++c) {
      const std::size_t at = draw(bytes.size());
      switch (draw(5)) {
        case 0:
          bytes[at] = static_cast<char>(random());
          break;
        case 1:
          bytes[at] = static_cast<char>(bytes[at] ^ (1 << draw(8)));
          break;
        case 2:
          bytes.resize(at);
          break;
        case 3:
          bytes.erase(at, 1 + draw(8));
          break;
        default:
          bytes.insert(at, bytes.substr(draw(bytes.size()), 1 + draw(16)));
          break;
      }
    }
    errors += error_of(bytes).empty() ? 0 : 1;
  }
  CHECK(errors > TESSERA_MUTATIONS / 16);
}

}  // namespace tessera::pallas

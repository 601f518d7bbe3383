// From an entry (a kernel template and its oracle) to a handle.
#pragma once

#include <concepts>
#include <memory>
#include <optional>
#include <type_traits>
#include <vector>

#include "cli/host.hpp"
#include "cli/kernel_handle.hpp"

namespace tessera::cli {

namespace detail {

template <class K>
constexpr bool cases_are_whole() {
  for (const Case& c : K::cases) {
    if (c.size_count != K::sizes.size() || c.tile_count != K::tiles.size()) return false;
  }
  return true;
}

/// The kernel of entry E in element type T.
template <class E, class T>
class EntryInstance final : public KernelInstance {
  using K = typename E::template Kernel<T>;
  static_assert(cases_are_whole<K>(),
                "every Case gives a value for each of the kernel's sizes and tiles");
  static_assert(
      requires(const K& k, const Tiles& tiles) {
        { k.hbm_bytes(tiles, Target{}) } -> std::same_as<Bytes>;
      },
      "a kernel says what it moves: Bytes hbm_bytes(Tiles, Target) const");

 public:
  explicit EntryInstance(const E& entry) : KernelInstance(facts_of()), entry_(entry) {}

  void set(std::size_t size, double value) override {
    const auto& s = K::sizes[size];
    if (s.integer != nullptr)
      kernel_.*s.integer = static_cast<int>(value);
    else
      kernel_.*s.real = static_cast<float>(value);
  }
  const char* valid(const Tiles& tiles) const override {
    if constexpr (requires { kernel_.valid(tiles); }) return kernel_.valid(tiles);
    return nullptr;
  }
  void prepare(Host& host, const Tiles& tiles) override {
    if constexpr (requires { kernel_.prepare(host, tiles); }) kernel_.prepare(host, tiles);
  }
  std::optional<int> devices() const override {
    if constexpr (requires { kernel_.devices; }) return kernel_.devices;
    return std::nullopt;
  }
  Plan plan(const Tiles& tiles, const DeviceSpec& device) const override {
    return plan_of(kernel_, tiles, device);
  }
  std::optional<Bytes> closed_form(const Tiles& tiles, Target target) const override {
    return kernel_.hbm_bytes(tiles, target);
  }
  RunResult run(const Tiles& tiles, const Inputs& inputs,
                const RunOptions& options) const override {
    return tessera::run(kernel_, tiles, inputs, options);
  }
  std::vector<reference::Expected> oracle(const OracleInputs& inputs) const override {
    auto expected = entry_.oracle(kernel_, inputs);
    if constexpr (std::is_same_v<decltype(expected), reference::Expected>) {
      std::vector<reference::Expected> one;
      one.push_back(std::move(expected));
      return one;
    } else {
      return expected;
    }
  }

 private:
  static KernelFacts facts_of() {
    KernelFacts facts{K::info, {}, K::tiles, K::cases};
    for (const auto& s : K::sizes) facts.sizes.push_back({s.name, s.what, s.real != nullptr});
    return facts;
  }

  E entry_;
  K kernel_;
};

}  // namespace detail

/// The kernel in element types T, f32 and bf16 if none are named.
template <class... T, class E>
KernelHandle handle(const E& entry) {
  if constexpr (sizeof...(T) == 0)
    return handle<float, bf16>(entry);
  else
    return {{kDTypeOf<T>...},
            {[entry] { return std::make_unique<detail::EntryInstance<E, T>>(entry); }...}};
}

}  // namespace tessera::cli

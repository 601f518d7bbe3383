#include "pallas/adding.hpp"

#include <array>

namespace tessera::pallas {

using namespace program;

void store_or_add(Exec& x, const Vector& v, const Ref& to, Adding add) {
  if (add == nullptr) {
    store(x, v, to, nullptr);
    return;
  }
  const std::int64_t n = to.extents().elems();
  const Vector before = load(x, to);
  if (before.bound) fail_bounds_of("through a store that adds");
  Vector sum;
  sum.data =
      StorageHandle(Storage::allocate(static_cast<std::size_t>(n * register_bytes(to.dtype()))));
  const std::array<const std::byte*, 2> terms{before.data.bytes(), v.data.bytes()};
  add(sum.data.bytes(), terms.data(), n);
  for (const StorageHandle* poison : {&before.poison, &v.poison}) {
    if (!*poison) continue;
    if (!sum.poison) sum.poison = poison_mask(n, 0);
    for (std::int64_t e = 0; e < n; ++e) {
      const auto o = std::to_integer<Origin>(poison->bytes()[e]);
      if (o != 0) sum.poison.bytes()[e] = std::byte{computed_from(o)};
    }
  }
  store(x, sum, to, nullptr);
}

}  // namespace tessera::pallas

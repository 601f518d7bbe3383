// How much a schedule of registers says of what code takes, and what is spilled in it.
#include "program/unit_by_registers.hpp"

#include <catch2/catch.hpp>

#include "program/unit_pressure.hpp"

namespace tessera::pallas {

TEST_CASE("of products in a row registers decide where they say more", "[pallas][units]") {
  const program::ByRegisters narrow(3, false, false, 4);
  CHECK(narrow.part_of_product(113, 226) == 1);
  CHECK(narrow.part_of_product(5000, 5100) == 1);  // however much they are
  CHECK(narrow.part_of_product(226, 113) == 0.5);
  // Not of what has no product, on wide units, nor of one product alone.
  CHECK(narrow.part(113) == 0.5);
  const program::ByRegisters wide(3, false, false, 2);
  CHECK(wide.part_of_product(5000, 5100) == 0);
  const program::ByRegisters one(0, true, false, 4);
  CHECK(one.part_of_product(113, 226) == 0.5);
}

TEST_CASE("of what is behind an end of a phase a share is stored and loaded", "[pallas][units]") {
  const program::Pressure::TooMany many{.behind = 64, .at_once = 3, .masks = 5};
  CHECK(many.vectors(0.25) == 19);
  CHECK(many.all() == 72);
}

}  // namespace tessera::pallas

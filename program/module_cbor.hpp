// A Module as bytes (CBOR), between the importer's process and ours.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "program/ir.hpp"

namespace tessera::program {

std::vector<std::uint8_t> to_cbor(const Module& module);
/// Throws std::runtime_error if the bytes are no module: numbers of values and locations in it are
/// those that it has.
Module module_from_cbor(const std::vector<std::uint8_t>& bytes);

}  // namespace tessera::program

// SHA-256 (FIPS 180-4) by OpenSSL, as 64 hexadecimal digits.
#pragma once

#include <cstddef>
#include <string>

namespace tessera::golden {

std::string sha256(const void* data, std::size_t bytes);

}  // namespace tessera::golden

#include "sim/env.hpp"

#include <fmt/format.h>

namespace tessera::detail {

std::string print_value(double v) { return fmt::format("{:g}", v); }

}  // namespace tessera::detail

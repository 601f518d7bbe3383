// What a configuration is for: an operation on a device, for shapes, a dtype and a mesh.
//
// Shapes share configurations by buckets: an extent of up to 256 stands alone; of larger ones,
// those that round up to the same eighth of a power of two do (257 to 288, ..., 7,681 to 8,192,
// 8,193 to 9,216). A configuration of a bucket may be one that another size in it cannot have:
// whoever takes it asks (configurations.hpp).
//
// The fingerprint is of all that a time is predicted from, but for the shapes: the device's file,
// tessera's version, and the operation (of a C++ kernel what the model says of its cases; of a
// Python function its source).
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace tessera::tuning {

/// What is chosen, by name: the tiles of a kernel, keyword arguments of a function.
using Configuration = std::vector<std::pair<std::string, std::string>>;
/// "bm=128 bn=256".
std::string text_of(const Configuration& configuration);

/// Extents by name; what is no whole number, or not positive, stands for itself.
using Sizes = std::vector<std::pair<std::string, double>>;

struct Key {
  std::string operation = {};
  std::string device = {};
  std::string fingerprint = {};
  std::string sizes = {};   ///< as they are: "m=8190 n=512"
  std::string shapes = {};  ///< by buckets: "m=8192 n=512"
  std::string dtype = {};
  std::string mesh = {};  ///< "1", "2x4"

  bool operator==(const Key&) const = default;
};

Key key_of(std::string operation, std::string device, std::string fingerprint, const Sizes& sizes,
           std::string dtype, const std::vector<int>& mesh);

/// The largest extent that shares a configuration with this one.
double bucket(double extent);

/// Sixteen hexadecimal digits.
std::string fingerprint(std::string_view device_file, std::string_view version,
                        std::string_view operation);

}  // namespace tessera::tuning

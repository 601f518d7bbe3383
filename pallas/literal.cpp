#include "pallas/literal.hpp"

#include <fmt/format.h>

#include <limits>

namespace tessera::pallas {

namespace {

/// XLA's names; Mosaic's integers have no sign, and XLA then prints one.
std::string type_name(DType dtype) {
  if (dtype == DType::boolean) return "pred";
  std::string n = name(dtype);
  if (n.size() > 1 && n[0] == 'i') return "s" + n.substr(1);
  return n;
}

class Printer {
 public:
  Printer(const Vector& v, const Shape& s, DType dtype) : v_(v), s_(s), dtype_(dtype) {}

  std::string text() {
    print(0);
    return std::move(text_);
  }

 private:
  void print(int dim) {
    if (dim == s_.rank) {
      element();
      return;
    }
    open(dim);
    for (std::int64_t i = 0; i < s_[dim]; ++i) {
      if (i > 0) text_ += dim + 1 < s_.rank ? ",\n" : ", ";
      at_[static_cast<std::size_t>(dim)] = i;
      print(dim + 1);
    }
    close(dim);
  }
  void element() {
    const std::int64_t e = next_++;
    text_ += v_.is_poison(e)
                 ? "?"
                 : literal_element(v_.data.bytes() + e * register_bytes(dtype_), dtype_);
  }
  void open(int dim) {
    const bool innermost = dim + 1 == s_.rank;
    if (s_.rank == 1) {
      text_ += "{";
    } else if (innermost) {
      text_ += s_[dim] <= 1 ? "  {" : "  { ";
    } else if (s_.rank > 3 && dim > 0) {
      text_ += fmt::format("{{ /*i{}={}*/\n", dim - 1, at_[static_cast<std::size_t>(dim - 1)]);
    } else {
      text_ += "{\n";
    }
  }
  void close(int dim) {
    if (s_.rank == 1)
      text_ += "}";
    else if (dim + 1 == s_.rank)
      text_ += s_[dim] <= 1 ? "}" : " }";
    else
      text_ += "\n}";
  }

  const Vector& v_;
  const Shape& s_;
  DType dtype_;
  std::array<std::int64_t, kMaxRank> at_{};
  std::int64_t next_ = 0;
  std::string text_;
};

}  // namespace

std::string literal_element(const std::byte* at, DType dtype) {
  return visit_dtype(dtype, [&](auto tag) -> std::string {
    using T = typename decltype(tag)::type;
    T v{};
    std::memcpy(&v, at, sizeof(T));
    if constexpr (std::is_same_v<T, bool>) {
      return v ? "1" : "0";
    } else if constexpr (kIsFloat<T>) {
      const auto x = static_cast<double>(convert<float>(v));
      for (int digits = 6;; ++digits) {
        std::string text = fmt::format("{:.{}g}", x, digits);
        if (digits >= std::numeric_limits<float>::max_digits10 || std::stod(text) == x) return text;
      }
    } else {
      return std::to_string(convert<std::int64_t>(v));
    }
  });
}

std::string literal(const Scalar& s, DType dtype) {
  return type_name(dtype) + "[] " + (s.poison ? "?" : literal_element(s.bytes.data(), dtype));
}

std::string literal(const Vector& v, const Shape& s, DType dtype) {
  std::string extents;
  for (int d = 0; d < s.rank; ++d) extents += (d > 0 ? "," : "") + std::to_string(s[d]);
  return type_name(dtype) + "[" + extents + "] " + Printer(v, s, dtype).text();
}

}  // namespace tessera::pallas

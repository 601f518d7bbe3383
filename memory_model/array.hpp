// A dense row-major array in host memory: what kernels take and give, and what a .npy file holds.
//
// Bytes are those of the memory model: sub-byte types packed. Files (npy.hpp) unpack them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <new>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "memory_model/dtype.hpp"
#include "memory_model/layout.hpp"

namespace tessera {

/// Asks for huge pages, where the system has them: first touches of large arrays cost a third
/// (4 GiB: 4.6 s for 13 s on the machine of bench/README.md).
void advise_huge_pages(void* memory, std::size_t bytes);

/// Memory that starts on a cache line (64 bytes), so that vector loads of whole rows are aligned.
template <class T>
struct CacheAligned {
  using value_type = T;
  CacheAligned() = default;
  template <class U>
  explicit(false) CacheAligned(const CacheAligned<U>&) {}
  /// Leaves elements that are default-constructed undefined.
  template <class U>
  void construct(U* p) {
    ::new (static_cast<void*>(p)) U;
  }
  template <class U, class... A>
  void construct(U* p, A&&... a) {
    ::new (static_cast<void*>(p)) U(static_cast<A&&>(a)...);
  }
  T* allocate(std::size_t n) {
    T* p = static_cast<T*>(::operator new(n * sizeof(T), alignment(n)));
    if (n * sizeof(T) >= kHuge) advise_huge_pages(p, n * sizeof(T));
    return p;
  }
  void deallocate(T* p, std::size_t n) { ::operator delete(p, alignment(n)); }
  bool operator==(const CacheAligned&) const { return true; }

 private:
  static constexpr std::size_t kHuge = std::size_t{2} << 20;
  static std::align_val_t alignment(std::size_t n) {
    return std::align_val_t{n * sizeof(T) >= kHuge ? kHuge : 64};
  }
};

/// Bytes on a cache line, copied and filled at once: a vector's go one by one where nothing is
/// inlined, half the time of sanitizers' tests.
class AlignedBytes {
 public:
  AlignedBytes() = default;
  /// Undefined.
  explicit AlignedBytes(std::size_t size)
      : data_(size == 0 ? nullptr : CacheAligned<std::byte>{}.allocate(size)), size_(size) {}
  AlignedBytes(const AlignedBytes& other) : AlignedBytes(other.size_) {
    if (size_ != 0) std::memcpy(data_, other.data_, size_);
  }
  AlignedBytes(AlignedBytes&& other) noexcept { swap(other); }
  AlignedBytes& operator=(AlignedBytes other) noexcept {
    swap(other);
    return *this;
  }
  ~AlignedBytes() {
    if (size_ != 0) CacheAligned<std::byte>{}.deallocate(data_, size_);
  }

  std::byte* data() { return data_; }
  const std::byte* data() const { return data_; }
  std::size_t size() const { return size_; }
  void zero() {
    if (size_ != 0) std::memset(data_, 0, size_);
  }

 private:
  void swap(AlignedBytes& other) noexcept {
    std::swap(data_, other.data_);
    std::swap(size_, other.size_);
  }

  std::byte* data_ = nullptr;
  std::size_t size_ = 0;
};

/// Fills memory with what shows that nothing wrote it: NaN, an implausible integer, true.
void poison(std::byte* to, DType dtype, std::int64_t elems);

/// Element `i` of packed row-major memory: several to a byte, the lowest index lowest.
template <class T>
T load_element(const std::byte* bytes, std::int64_t i) {
  if constexpr (kIsPacked<T>) {
    constexpr int kBits = bit_width(kDTypeOf<T>);
    constexpr int kInByte = 8 / kBits;
    const auto byte = std::to_integer<unsigned>(bytes[i / kInByte]);
    return from_pattern<T>(byte >> (i % kInByte * kBits) & kPatternMask<T>);
  } else {
    T value;
    std::memcpy(&value, bytes + i * static_cast<std::int64_t>(sizeof(T)), sizeof(T));
    return value;
  }
}
template <class T>
void store_element(std::byte* bytes, std::int64_t i, T value) {
  if constexpr (kIsPacked<T>) {
    constexpr int kBits = bit_width(kDTypeOf<T>);
    constexpr int kInByte = 8 / kBits;
    const auto at = i % kInByte * kBits;
    const auto others = std::to_integer<unsigned>(bytes[i / kInByte]) & ~(kPatternMask<T> << at);
    bytes[i / kInByte] = static_cast<std::byte>(others | pattern_of(value) << at);
  } else {
    std::memcpy(bytes + i * static_cast<std::int64_t>(sizeof(T)), &value, sizeof(T));
  }
}

class Array {
 public:
  Array() = default;
  /// All zero.
  Array(DType dtype, Shape shape) : Array(undefined(dtype, shape)) { bytes_.zero(); }
  /// Holds anything, until it is written.
  static Array undefined(DType dtype, Shape shape) {
    Array a;
    a.dtype_ = dtype;
    a.shape_ = shape;
    a.bytes_ = AlignedBytes(static_cast<std::size_t>(packed_bytes(dtype, shape.elems())));
    return a;
  }
  /// Somebody else's bytes, which outlive the array and its copies and are only read.
  static Array lent(DType dtype, Shape shape, const std::byte* bytes) {
    Array a;
    a.dtype_ = dtype;
    a.shape_ = shape;
    a.lent_ = bytes;
    return a;
  }

  /// The same bytes as another type of one width: u32 as i32.
  void retype(DType dtype) {
    if (bit_width(dtype) != bit_width(dtype_)) throw std::logic_error("retype() keeps the width");
    dtype_ = dtype;
  }

  DType dtype() const { return dtype_; }
  const Shape& shape() const { return shape_; }
  std::int64_t elems() const { return shape_.elems(); }
  std::byte* bytes() {
    if (lent_ != nullptr) throw std::logic_error("lent bytes are only read");
    return bytes_.data();
  }
  const std::byte* bytes() const { return lent_ != nullptr ? lent_ : bytes_.data(); }
  std::int64_t size_bytes() const {
    return lent_ != nullptr ? packed_bytes(dtype_, shape_.elems())
                            : static_cast<std::int64_t>(bytes_.size());
  }

  /// The elements, if T is the array's type; std::logic_error otherwise. Not for packed types.
  template <class T>
  T* data() {
    check_type(kDTypeOf<T>);
    return reinterpret_cast<T*>(bytes());
  }
  template <class T>
  const T* data() const {
    check_type(kDTypeOf<T>);
    return reinterpret_cast<const T*>(bytes());
  }

  /// Element `i` (row-major) as a double; 64-bit integers beyond 2^53 are rounded.
  double at(std::int64_t i) const;
  void set(std::int64_t i, double value);
  /// The bit pattern of element `i`.
  std::uint64_t bits(std::int64_t i) const;

  std::vector<double> to_doubles() const;

 private:
  void check_type(DType d) const {
    if (d != dtype_) {
      throw std::logic_error(std::string("array holds ") + name(dtype_) + ", not " + name(d));
    }
  }

  DType dtype_ = DType::f32;
  Shape shape_{0};
  AlignedBytes bytes_;
  const std::byte* lent_ = nullptr;
};

/// An f32 array from values, in row-major order; for tests and examples.
Array f32_array(Shape shape, const std::vector<float>& values);

}  // namespace tessera

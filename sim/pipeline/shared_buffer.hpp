// A buffer whose memory tiles and vectors share until it is written: reading all of it, or writing
// all of it, copies nothing.
#pragma once

#include <algorithm>
#include <cstring>
#include <string>
#include <utility>

#include "memory_model/ref.hpp"
#include "memory_model/storage.hpp"

namespace tessera {

class SharedBuffer : public Buffer {
 public:
  /// Undefined, and poisoned so that it shows.
  SharedBuffer(std::string name_, Space space_, DType dtype_, Shape shape_);

  const std::byte* bytes() override { return data_; }
  /// Memory that this buffer alone uses; what shared it keeps the old values.
  std::byte* writable() override { return own(true); }

  const StorageHandle& storage() const { return storage_; }
  void adopt(const StorageHandle& storage) {
    storage_ = storage;
    data_ = storage_.bytes();
  }

 protected:
  SharedBuffer() : Buffer("", Space::vmem, DType::f32, {}) {}
  /// `keep`: the old values are wanted, since not all of the buffer is about to be written.
  std::byte* own(bool keep) {
    if (storage_.shared()) {
      StorageHandle fresh(Storage::allocate(size_));
      if (keep) std::memcpy(fresh.bytes(), storage_.bytes(), size_);
      adopt(fresh);
    }
    return data_;
  }
  void allocate(std::size_t bytes) {
    size_ = bytes;
    adopt(StorageHandle(Storage::allocate(size_)));
  }

  /// Becomes `bytes` of memory that nobody writes while this buffer, or what shares it, has it.
  void borrow(const std::byte* memory, std::size_t bytes) {
    size_ = bytes;
    adopt(StorageHandle(Storage::borrow(memory)));
  }

  StorageHandle storage_;      ///< empty while the memory is somebody else's
  std::byte* data_ = nullptr;  ///< of `storage_`, or of what is viewed
  std::size_t size_ = 0;
};

}  // namespace tessera

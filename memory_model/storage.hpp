// Memory of tiles: reference-counted chunks from a free list per thread.
//
// Tiles are values that share a chunk until one of them is written. A chunk never leaves the thread
// that made it, so counts are plain integers. Sizes are powers of two from 256 bytes; 64-byte
// aligned. One may stand for memory that is somebody else's, to be read alone.
#pragma once

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <new>
#include <utility>

namespace tessera {

struct alignas(64) Storage {
  int uses = 0;
  int size_class = 0;
  Storage* next = nullptr;
  std::byte* data = nullptr;  ///< behind this, or what is borrowed
  std::byte* bytes() { return data; }
  bool borrowed() const { return size_class == kBorrowed; }

  static Storage* allocate(std::size_t bytes) {
    const int size_class = bytes <= 256 ? 8 : static_cast<int>(std::bit_width(bytes - 1));
    return take(size_class, std::size_t{1} << size_class);
  }
  /// Of memory that stays as it is for as long as there is a use of it. It counts as shared: who
  /// wants to write has a copy.
  static Storage* borrow(const std::byte* memory) {
    Storage* const s = take(kBorrowed, 0);
    s->data = const_cast<std::byte*>(memory);
    return s;
  }
  void release() {
    if (--uses > 0) return;
    Storage*& head = free_list().heads[static_cast<std::size_t>(size_class)];
    next = head;
    head = this;
  }

 private:
  static constexpr int kBorrowed = 0;

  static Storage* take(int size_class, std::size_t bytes) {
    Storage*& head = free_list().heads[static_cast<std::size_t>(size_class)];
    Storage* s = head;
    if (s != nullptr) {
      head = s->next;
    } else {
      s = new (::operator new (sizeof(Storage) + bytes, std::align_val_t{64})) Storage;
      s->size_class = size_class;
      s->data = reinterpret_cast<std::byte*>(s + 1);
    }
    s->uses = 1;
    return s;
  }

  struct FreeList {
    std::array<Storage*, 64> heads{};
    FreeList() = default;
    FreeList(const FreeList&) = delete;
    FreeList& operator=(const FreeList&) = delete;
    ~FreeList() {
      for (Storage* s : heads) {
        while (s != nullptr) ::operator delete (std::exchange(s, s->next), std::align_val_t{64});
      }
    }
  };
  static FreeList& free_list() {
    static thread_local FreeList list;
    return list;
  }
};

/// A counted use of a Storage; empty for memory that outlives the run (HBM).
class StorageHandle {
 public:
  StorageHandle() = default;
  /// Takes over one use.
  explicit StorageHandle(Storage* adopted) : storage_(adopted) {}
  StorageHandle(const StorageHandle& o) : storage_(o.storage_) {
    if (storage_ != nullptr) ++storage_->uses;
  }
  StorageHandle(StorageHandle&& o) noexcept : storage_(std::exchange(o.storage_, nullptr)) {}
  StorageHandle& operator=(StorageHandle o) noexcept {
    std::swap(storage_, o.storage_);
    return *this;
  }
  ~StorageHandle() {
    if (storage_ != nullptr) storage_->release();
  }
  bool shared() const {
    return storage_ != nullptr && (storage_->uses > 1 || storage_->borrowed());
  }
  std::byte* bytes() const { return storage_->bytes(); }
  explicit operator bool() const { return storage_ != nullptr; }

 private:
  Storage* storage_ = nullptr;
};

}  // namespace tessera

// Invocations that were written down (record.hpp), with what it takes to run each again: a folder.
//
//   records.jsonl      a line each, in the order in which they ended
//   arrays/            outputs, and inputs that no seed makes; named for their SHA-256, type and
//                      shape, once each
//   files/             modules, their settings and devices' files; named for their SHA-256
//   calls/HASH/        a call of a Mosaic module, as pallas/call_directory.hpp reads it, or a
//   launch
//                      of a Triton kernel: links to the above. The same call is there once.
//
// Any number of threads and processes may write to one, and any may be killed: a line is there
// whole or is no line (readers pass over one that was cut off), and what a line names was there
// before it. A loss of power may take the last moments' lines. Locks (flock) have to work: they do
// not on some network file systems.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "record/record.hpp"

namespace tessera::record {

class Folder {
 public:
  /// Made if it is not there. Throws InputError if it cannot be, or holds something else.
  explicit Folder(std::string path);
  /// One that is there. Throws InputError.
  static Folder existing(std::string path);

  const std::string& path() const { return path_; }

  /// What a record says of an array; `keep`: it is written too. Throws NpyError.
  Noted note(const std::string& name, const Array& array, bool keep) const;
  /// A file by its bytes; the path in the folder. Throws NpyError.
  std::string keep(const std::string& bytes, const std::string& suffix) const;
  /// calls/HASH with these files: name and path in the folder. Throws InputError.
  std::string keep_call(const std::vector<std::pair<std::string, std::string>>& files) const;

  /// Throws InputError.
  void append(const Record& record) const;

  struct Read {
    std::vector<Record> records;
    int torn = 0;  ///< lines that a writer did not end
  };
  /// Throws InputError.
  Read read() const;
  /// The array, whose hash is the one noted. Throws InputError if it is not, NpyError.
  Array array(const Noted& noted) const;

 private:
  struct There {};
  Folder(There, std::string path) : path_(std::move(path)) {}

  std::string path_;
};

}  // namespace tessera::record

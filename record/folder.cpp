#include "record/folder.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>

#include "golden/sha256.hpp"
#include "memory_model/file.hpp"
#include "memory_model/npy.hpp"
#include "sim/diagnostics/diagnostic.hpp"

namespace tessera::record {

namespace fs = std::filesystem;

namespace {

constexpr const char* kLines = "records.jsonl";

/// A file that is closed, and so unlocked, at the end of a scope.
class Locked {
 public:
  explicit Locked(const std::string& path)
      : path_(path), file_(open(path.c_str(), O_RDWR | O_APPEND | O_CREAT | O_CLOEXEC, 0666)) {
    if (file_ < 0) fail();
    while (flock(file_, LOCK_EX) != 0) {
      if (errno != EINTR) fail();
    }
  }
  Locked(const Locked&) = delete;
  Locked& operator=(const Locked&) = delete;
  ~Locked() {
    if (file_ >= 0) close(file_);
  }

  /// True if a writer was killed in the middle of the last line.
  bool ends_in_the_middle() const {
    const off_t size = lseek(file_, 0, SEEK_END);
    char last = '\n';
    if (size > 0 && pread(file_, &last, 1, size - 1) != 1) fail();
    return last != '\n';
  }
  void write(const std::string& text) const {
    for (std::size_t done = 0; done < text.size();) {
      const ssize_t n = ::write(file_, text.data() + done, text.size() - done);
      if (n < 0 && errno != EINTR) fail();
      if (n > 0) done += static_cast<std::size_t>(n);
    }
  }

 private:
  [[noreturn]] void fail() const {
    const std::string why = std::strerror(errno);
    if (file_ >= 0) close(file_);
    throw InputError("bad-input", path_ + ": " + why);
  }

  std::string path_;
  int file_;
};

std::string shape_in_name(const Shape& shape) {
  std::string text;
  for (int d = 0; d < shape.rank; ++d) text += (d > 0 ? "x" : "") + std::to_string(shape[d]);
  return text.empty() ? "scalar" : text;
}

}  // namespace

Folder::Folder(std::string path) : path_(std::move(path)) {
  std::error_code error;
  if (fs::exists(path_, error) && !fs::is_directory(path_, error))
    throw InputError("bad-input", path_ + " is a file; records are kept in a folder");
  const bool other = fs::is_directory(path_, error) && !fs::is_empty(path_, error) &&
                     !fs::exists(fs::path(path_) / kLines, error);
  if (other)
    throw InputError("bad-input", path_ + " holds something else: no " + std::string(kLines));
  fs::create_directories(path_, error);
  if (error) throw InputError("bad-input", path_ + ": " + error.message());
  const Locked made(path_ + "/" + kLines);
}

Folder Folder::existing(std::string path) {
  std::error_code error;
  if (!fs::exists(fs::path(path) / kLines, error)) {
    throw InputError("bad-input", path + " holds no records: no " + std::string(kLines),
                     "tessera run KERNEL --record FOLDER, or tessera.record(FOLDER), makes some");
  }
  return {There(), std::move(path)};
}

Noted Folder::note(const std::string& name, const Array& array, bool keep) const {
  Noted noted{name, array.dtype(), array.shape(), hash_of(array), ""};
  if (!keep) return noted;
  // A folder of all arrays would be walked for each that is written.
  const std::string in = "arrays/" + noted.sha256.substr(0, 2);
  noted.file = fmt::format("{}/{}-{}-{}.npy", in, noted.sha256, tessera::name(array.dtype()),
                           shape_in_name(array.shape()));
  std::error_code error;
  if (fs::exists(path_ + "/" + noted.file, error)) return noted;
  fs::create_directories(path_ + "/" + in, error);
  write_npy(path_ + "/" + noted.file, array);
  return noted;
}

std::string Folder::keep(const std::string& bytes, const std::string& suffix) const {
  std::string file = "files/" + golden::sha256(bytes.data(), bytes.size()) + suffix;
  std::error_code error;
  if (fs::exists(path_ + "/" + file, error)) return file;
  fs::create_directories(path_ + "/files", error);
  write_file_atomically(path_ + "/" + file, bytes);
  return file;
}

std::string Folder::keep_call(const std::vector<std::pair<std::string, std::string>>& files) const {
  std::string all;
  for (const auto& [name, file] : files) all += name + '\n' + file + '\n';
  constexpr std::size_t kDigits = 16;
  std::string call = "calls/" + golden::sha256(all.data(), all.size()).substr(0, kDigits);
  const fs::path to = fs::path(path_) / call;
  std::error_code error;
  if (fs::exists(to, error)) return call;
  // Made beside its place: it is there whole or not at all.
  constexpr const char* kMark = ".making-";
  fs::create_directories(to.parent_path(), error);
  sweep(to.string(), kMark);
  const fs::path made = to.string() + kMark + std::to_string(getpid());
  fs::remove_all(made, error);
  fs::create_directories(made, error);
  for (const auto& [name, file] : files) {
    if (!error) fs::create_symlink("../../" + file, made / name, error);
  }
  if (!error) fs::rename(made, to, error);
  if (error && !fs::exists(to)) throw InputError("bad-input", to.string() + ": " + error.message());
  fs::remove_all(made, error);  // another process was faster
  return call;
}

void Folder::append(const Record& record) const {
  const std::string line = line_of(record);
  const Locked file(path_ + "/" + kLines);
  file.write(file.ends_in_the_middle() ? "\n" + line : line);
}

Folder::Read Folder::read() const {
  const std::string path = path_ + "/" + kLines;
  std::ifstream file(path, std::ios::binary);
  if (!file) throw InputError("bad-input", path + " cannot be read");
  Read read;
  int number = 0;
  for (std::string line; std::getline(file, line);) {
    ++number;
    if (line.empty()) continue;
    if (!is_json(line))
      ++read.torn;
    else
      read.records.push_back(parse(line, path + ":" + std::to_string(number)));
  }
  return read;
}

Array Folder::array(const Noted& noted) const {
  const fs::path file(noted.file);
  const bool leaves =
      file.is_absolute() || std::ranges::any_of(file, [](const fs::path& p) { return p == ".."; });
  if (noted.file.empty() || leaves)
    throw InputError("bad-record", path_ + " has no file of " + noted.text());
  Array array = read_npy(path_ + "/" + noted.file, noted.dtype);
  if (!(array.shape() == noted.shape) || hash_of(array) != noted.sha256) {
    throw InputError("bad-record", path_ + "/" + noted.file +
                                       " was changed: it is not the array that was recorded");
  }
  return array;
}

}  // namespace tessera::record

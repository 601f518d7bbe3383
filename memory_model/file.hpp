// Files as text: read whole up to a limit, written whole or not at all.
//
// What a file holds is somebody else's: a reader says how large it may be, and messages show its
// text with control characters escaped.
#pragma once

#include <cstddef>
#include <stdexcept>
#include <string>

namespace tessera {

/// One line, with the path.
struct FileError : std::runtime_error {
  using std::runtime_error::runtime_error;
};

/// The bytes of a file of at most so many. Throws FileError.
std::string read_file(const std::string& path, std::size_t most_bytes);

/// Removes what writers of `path` left behind: PATH + mark + the id of a process that is gone.
void sweep(const std::string& path, const std::string& mark);

/// The text with every control character but the newline as \xNN: no file speaks to a terminal.
std::string printable(const std::string& text);

/// $XDG_CACHE_HOME/tessera/`part`, by default in ~/.cache; made if it is not there. Throws
/// FileError.
std::string cache_folder(const std::string& part);

/// The running program's file, without links, and its folder. Where there is no /proc: what it was
/// started as.
std::string program_file();
std::string program_folder();

}  // namespace tessera

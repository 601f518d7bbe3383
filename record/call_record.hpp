// Calls of Mosaic modules among records: the files that pallas/call_directory.hpp reads, so that
// `tessera run FOLDER/calls/HASH` runs one by itself.
#pragma once

#include <string>
#include <vector>

#include "pallas/call_directory.hpp"
#include "record/folder.hpp"

namespace tessera::record {

/// Keeps a call. `files`: what pallas::call_files() makes of it. `operands`: of each device of the
/// mesh; `noted` gets what is said of them. The path in the folder. Throws InputError, NpyError.
std::string keep_call(const Folder& folder, const std::vector<pallas::CallFile>& files,
                      const std::vector<std::vector<Array>>& operands, std::vector<Noted>& noted);

}  // namespace tessera::record

// Launches of Triton kernels among records: the files that triton/case_directory.hpp reads, so that
// `tessera run FOLDER/calls/HASH` runs one by itself.
#pragma once

#include <string>
#include <vector>

#include "record/folder.hpp"
#include "triton/case_directory.hpp"

namespace tessera::record {

/// Keeps a launch that has not run; `noted` gets what is said of its storages. The path in the
/// folder. Throws InputError, NpyError.
std::string keep_launch(const Folder& folder, const triton::CaseToRecord& launch,
                        std::vector<Noted>& noted);
/// What the launch left in its storages. Throws NpyError.
std::vector<Noted> keep_storages(const Folder& folder, const triton::Launch& launch);

}  // namespace tessera::record

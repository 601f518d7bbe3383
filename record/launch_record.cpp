#include "record/launch_record.hpp"

#include <filesystem>

namespace tessera::record {

std::string keep_launch(const Folder& folder, const triton::CaseToRecord& launch,
                        std::vector<Noted>& noted) {
  std::vector<std::pair<std::string, std::string>> kept;
  for (const auto& [name, bytes] : triton::case_files(launch))
    kept.emplace_back(name, folder.keep(bytes, std::filesystem::path(name).extension()));
  const auto& storages = launch.launch->storages;
  for (std::size_t k = 0; k < storages.size(); ++k) {
    const std::string name = "in" + std::to_string(k);
    noted.push_back(folder.note(name, triton::storage_array(storages[k]), true));
    kept.emplace_back(name + ".npy", noted.back().file);
  }
  return folder.keep_call(kept);
}

std::vector<Noted> keep_storages(const Folder& folder, const triton::Launch& launch) {
  std::vector<Noted> noted;
  for (std::size_t k = 0; k < launch.storages.size(); ++k)
    noted.push_back(
        folder.note("out" + std::to_string(k), triton::storage_array(launch.storages[k]), true));
  return noted;
}

}  // namespace tessera::record

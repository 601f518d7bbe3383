#include "record/call_record.hpp"

#include <filesystem>

#include "sim/diagnostics/stop.hpp"

namespace tessera::record {

std::string keep_call(const Folder& folder, const std::vector<pallas::CallFile>& files,
                      const std::vector<std::vector<Array>>& operands, std::vector<Noted>& noted) {
  std::vector<std::pair<std::string, std::string>> kept;
  for (const pallas::CallFile& file : files) {
    const std::string suffix = std::filesystem::path(file.name).extension().string();
    kept.emplace_back(file.name, folder.keep(file.bytes, suffix));
  }
  for (std::size_t d = 0; d < operands.size(); ++d) {
    for (std::size_t i = 0; i < operands[d].size(); ++i) {
      stop_if_asked();  // gigabytes take seconds
      const std::string name = pallas::operand_file(i, d, operands.size());
      noted.push_back(folder.note(std::filesystem::path(name).stem(), operands[d][i], true));
      kept.emplace_back(name, noted.back().file);
    }
  }
  return folder.keep_call(kept);
}

}  // namespace tessera::record

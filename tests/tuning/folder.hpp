// A folder that goes with its test.
#pragma once

#include <unistd.h>

#include <filesystem>
#include <string>

struct TuningFolder {
  TuningFolder()
      : path(std::filesystem::temp_directory_path() / ("tuning_test." + std::to_string(getpid()))) {
    std::filesystem::create_directories(path);
  }
  TuningFolder(const TuningFolder&) = delete;
  TuningFolder& operator=(const TuningFolder&) = delete;
  ~TuningFolder() { std::filesystem::remove_all(path); }
  std::string file(const char* name) const { return (path / name).string(); }
  std::filesystem::path path;
};

// What the command line says of itself: completion for shells and the manual page, made of CLI11's
// tree, so that they have every command and flag that there is. What a value may be is its type's
// name: KERNEL, DEVICE, FILE, FOLDER, or words with bars between them ("f32|bf16"; of "random:SEED"
// the part before the capitals is a word).
#pragma once

#include <CLI/CLI.hpp>
#include <string>
#include <vector>

namespace tessera::cli {

/// What completion offers besides the tree's own words.
struct KnownNames {
  std::vector<std::string> kernels;
  std::vector<std::string> devices;
};

/// A script for this shell. Throws InputError if it is neither bash nor zsh nor fish.
std::string completion_script(const CLI::App& app, const std::string& shell,
                              const KnownNames& names);

/// tessera.1, in man's macros.
std::string manual_page(const CLI::App& app, const std::string& version);

}  // namespace tessera::cli

// Predicted times of many runs on a GPU, again and again with other figures of its model, in one
// process: what predict/fit.py asks.
//
//   gpu_model_times DEVICE RUNS.jsonl [bytes]
//
// Reads lines of `name value ... : run ...` (figures without "model_", the others stay as the line
// before left them; numbers of runs in the file), writes a line of seconds of those runs for each,
// or of bytes that DRAM gives, below 0 where a report says that they are without something.
#include <fmt/format.h>

#include <cstdio>
#include <fstream>
#include <iostream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <sstream>
#include <stdexcept>
#include <string_view>

#include "predict/timeline.hpp"
#include "tests/predict/counted.hpp"

namespace {

/// What nvcc made of a run's instance: registers, bytes of the stack and, if somebody kept it,
/// code.
tessera::predict::CompiledKernel compiled_of(const nlohmann::json& row) {
  tessera::predict::ReadCode read;
  if (row.contains("cubin")) {
    std::ifstream file(row["cubin"].get<std::string>(), std::ios::binary);
    read = tessera::predict::read_cubin({std::istreambuf_iterator<char>(file), {}});
    if (!read.why.empty()) throw std::runtime_error(read.why);
  }
  read.code.registers = row["registers"];
  read.code.local_bytes = row["local_bytes"];
  return read.code;
}

}  // namespace

int main(int count, char** words) {
  using namespace tessera;
  using namespace tessera::cli;
  const bool bytes = count == 4 && std::string_view(words[3]) == "bytes";
  if (count != 3 && !bytes) return 2;
  struct Run {
    Plan plan;
    StepTrace trace;
    DType dtype;
    predict::TimelineOptions options;
  };
  std::vector<Run> runs;
  std::ifstream file(words[2]);
  for (std::string line; std::getline(file, line);) {
    const auto row = nlohmann::json::parse(line);
    const auto run = row["run"].get<std::string>();
    Outcome outcome = counted(builtin_kernels(), run, words[1], StepTrace::kMostSteps);
    runs.push_back({std::move(outcome.result.plan),
                    std::move(outcome.result.trace),
                    run.find("bf16") == std::string::npos ? DType::f32 : DType::bf16,
                    {}});
    if (row.contains("compiled")) runs.back().options.compiled = compiled_of(row["compiled"]);
  }
  for (std::string line; std::getline(std::cin, line);) {
    const auto colon = line.find(':');
    std::istringstream figures(line.substr(0, colon));
    std::string name;
    for (double value = 0; figures >> name >> value;) {
      for (Run& r : runs) r.plan.device.model.at(name).value = value;
    }
    std::istringstream wanted(line.substr(colon + 1));
    std::string all;
    for (std::size_t i = 0; wanted >> i;) {
      const Run& r = runs.at(i);
      const predict::Timeline timeline = predict::timeline_of(r.plan, r.trace, r.dtype, r.options);
      const auto read = static_cast<double>(timeline.dram_read_bytes);
      const double said = timeline.dram_left_out.empty() ? read : -read;
      all += fmt::format("{:.9g} ", bytes ? said : timeline.seconds);
    }
    std::puts(all.c_str());
    std::fflush(stdout);
  }
}

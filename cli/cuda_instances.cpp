#include "cli/cuda_instances.hpp"

#include <dlfcn.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <regex>
#include <sstream>

#include "cli/cuda_interface.hpp"
#include "golden/sha256.hpp"
#include "memory_model/file.hpp"
#include "sim/diagnostics/diagnostic.hpp"

namespace tessera::cli {

namespace fs = std::filesystem;

namespace {

std::string program_name() { return fs::path(program_file()).filename().string(); }

std::string contents(const fs::path& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

struct Recipe {
  std::string nvcc;
  std::string libraries;
  std::string headers;
  std::vector<std::string> flags;
  std::vector<std::string> sources;

  explicit Recipe(const std::string& path) {
    std::ifstream in(path);
    for (std::string key, value; in >> key && std::getline(in >> std::ws, value);) {
      if (key == "nvcc") nvcc = value;
      if (key == "libraries") libraries = value;
      if (key == "headers") headers = value;
      if (key == "flag") flags.push_back(value);
      if (key == "source") sources.push_back(value);
    }
  }
  /// What the flags are for: Hopper, unless they say another.
  int capability() const {
    const std::string flag = "-DTESSERA_SM=";
    for (const auto& f : flags) {
      if (f.starts_with(flag)) return std::stoi(f.substr(flag.size()));
    }
    return cta::kSm90.capability;
  }
  /// Makes them those for another (cmake/tessera_cuda.cmake).
  void aim(const cta::Sm& target) {
    if (target.capability == capability()) return;
    std::erase_if(flags, [](const std::string& f) {
      return f.starts_with("-gencode") || f.starts_with("-DTESSERA_SM=");
    });
    if (target.hopper) {
      flags.push_back("-gencode=arch=compute_90a,code=sm_90a");
      return;
    }
    const int c = target.capability;
    flags.push_back(fmt::format("-gencode=arch=compute_{},code=sm_{}", c, c));
    flags.push_back(fmt::format("-gencode=arch=compute_{},code=compute_{}", c, c));
    flags.push_back(fmt::format("-DTESSERA_SM={}", c));
  }
  /// Of a kernel: the file of its name, or all of a program of the user's.
  std::vector<std::string> sources_of(const std::string& kernel) const {
    for (const auto& s : sources) {
      if (fs::path(s).stem() == kernel) return {s};
    }
    return sources;
  }
  /// The SHA-256 of the headers that are there now: kCudaInterface, unless somebody changed them.
  std::string interface() const {
    std::string all;
    for (const char* folder : kCudaFolders) {
      std::vector<std::string> files;
      for (const auto& entry : fs::recursive_directory_iterator(fs::path(headers) / folder)) {
        if (entry.path().extension() == ".hpp")
          files.push_back(entry.path().lexically_relative(headers).generic_string());
      }
      std::sort(files.begin(), files.end());
      for (const std::string& file : files) {
        const std::string text = contents(fs::path(headers) / file);
        all += file + ' ' + golden::sha256(text.data(), text.size()) + '\n';
      }
    }
    return golden::sha256(all.data(), all.size());
  }
  /// Of nvcc, flags, headers and sources.
  std::string hash(const std::vector<std::string>& of) const {
    std::string all = nvcc + '\n' + std::string(kCudaInterface) + '\n';
    for (const auto& f : flags) all += f + '\n';
    std::vector<fs::path> files(of.begin(), of.end());
    const auto add = [&](const fs::path& file) {
      for (const char* ending : {".h", ".hpp", ".cuh"}) {
        if (file.extension() == ending) files.push_back(file);
      }
    };
    for (const char* folder : {"cuda", "kernels", "memory_model", "sim"}) {
      for (const auto& entry : fs::recursive_directory_iterator(fs::path(headers) / folder))
        add(entry.path());
    }
    for (const auto& s : of) {
      for (const auto& entry : fs::directory_iterator(fs::path(s).parent_path())) add(entry.path());
    }
    std::sort(files.begin(), files.end());
    for (const auto& file : files) all += file.filename().string() + '\n' + contents(file);
    return golden::sha256(all.data(), all.size()).substr(0, 16);
  }
};

/// A program that runs with its output in a file.
class Child {
 public:
  Child(const std::vector<std::string>& words, const std::string& log) {
    std::vector<char*> arguments;
    for (const auto& w : words) arguments.push_back(const_cast<char*>(w.c_str()));
    arguments.push_back(nullptr);
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_addopen(&actions, STDOUT_FILENO, log.c_str(),
                                     O_WRONLY | O_CREAT | O_TRUNC, 0644);
    posix_spawn_file_actions_adddup2(&actions, STDOUT_FILENO, STDERR_FILENO);
    started_ = posix_spawnp(&id_, arguments[0], &actions, nullptr, arguments.data(), environ) == 0;
    posix_spawn_file_actions_destroy(&actions);
  }
  bool succeeds() const {
    int status = -1;
    if (!started_) return false;
    while (waitpid(id_, &status, 0) < 0 && errno == EINTR) {
    }
    return WIFEXITED(status) && WEXITSTATUS(status) == 0;
  }

 private:
  pid_t id_ = -1;
  bool started_ = false;
};

/// The line that says why.
std::string first_error(const std::string& log) {
  std::istringstream lines(log);
  for (std::string line; std::getline(lines, line);) {
    if (line.find("error") != std::string::npos || line.find("fatal") != std::string::npos)
      return line;
  }
  return log.empty() ? "it did not start" : log.substr(0, log.find('\n'));
}

/// What ptxas -v says: the most of all functions.
int most_of(const std::string& log, const char* pattern) {
  int most = 0;
  const std::regex expression(pattern);
  for (std::sregex_iterator i(log.begin(), log.end(), expression), end; i != end; ++i)
    most = std::max(most, std::stoi((*i)[1]));
  return most;
}

}  // namespace

std::string beside_program(const std::string& file) {
  std::error_code error;
  const fs::path here = program_folder();
  for (const char* place : {"", "../cuda", "../lib/tessera"}) {
    const auto path = here / place / file;
    if (fs::exists(path, error)) return path.string();
  }
  return "";
}

const cuda::Backend* load_cuda(const std::string& path) {
  void* const opened = dlopen(path.c_str(), RTLD_NOW);
  if (opened == nullptr) throw InputError("bad-input", dlerror());
  using Interface = const char* (*)();
  const auto interface = reinterpret_cast<Interface>(dlsym(opened, "tessera_cuda_interface"));
  if (interface == nullptr || interface() != kCudaInterface)
    throw InputError("bad-input", path + " was built of other sources than this program",
                     "build both again from one commit, in one folder: ./tessera does, or cmake "
                     "--build");
  using Get = const cuda::Backend* (*)();
  const auto get = reinterpret_cast<Get>(dlsym(opened, "tessera_cuda_backend"));
  return get == nullptr ? nullptr : get();
}

bool has_cuda_device() {
  static const bool has = [] {
    void* const driver = dlopen("libcuda.so.1", RTLD_LAZY);
    if (driver == nullptr) return false;
    const auto init = reinterpret_cast<int (*)(unsigned)>(dlsym(driver, "cuInit"));
    const auto count = reinterpret_cast<int (*)(int*)>(dlsym(driver, "cuDeviceGetCount"));
    int devices = 0;
    return init != nullptr && count != nullptr && init(0) == 0 && count(&devices) == 0 &&
           devices > 0;
  }();
  return has;
}

namespace {
std::string recipe_file() { return beside_program("lib" + program_name() + "_cuda.recipe"); }
}  // namespace

std::string why_makes_no_cuda() {
  const std::string file = recipe_file();
  if (file.empty()) {
    return "this program was built without its CUDA kernels: nvcc was not found, or TESSERA_CUDA "
           "is off";
  }
  const fs::path sources = fs::path(Recipe(file).headers) / "cuda";
  std::error_code error;
  return fs::exists(sources, error) ? ""
                                    : "nothing can be compiled for a GPU here: what this program "
                                      "was built of is no longer at " +
                                          sources.parent_path().string();
}
bool makes_cuda() { return why_makes_no_cuda().empty(); }

const cta::Sm& cuda_target() { return *cta::sm_of(Recipe(recipe_file()).capability()); }
const cta::Sm& cuda_target(int capability, const std::string& of) {
  if (const cta::Sm* const sm = cta::sm_of(capability); sm != nullptr) return *sm;
  throw InputError("no-backend",
                   fmt::format("{} has compute capability {}.{}: CUDA kernels are built for 8.x, "
                               "9.0, 10.x and 12.x",
                               of, capability / 10, capability % 10));
}

std::string cuda_build_of(const std::string& kernel) {
  if (makes_cuda()) {
    const Recipe recipe(recipe_file());
    return recipe.hash(recipe.sources_of(kernel));
  }
  const std::string module = contents(beside_program("lib" + program_name() + "_cuda.so"));
  return golden::sha256(module.data(), module.size());
}

namespace {

/// What nvcc compiles of one instance, and where in the user's cache it goes.
struct OneInstance {
  Recipe recipe{recipe_file()};
  std::string kernel;
  DType dtype;
  std::vector<std::string> sources;
  std::string extents;
  fs::path folder = cache_folder("cuda");
  std::string stem;

  OneInstance(std::string of, DType type, const std::vector<int>& tiles, const cta::Sm& target)
      : kernel(std::move(of)), dtype(type) {
    recipe.aim(target);
    sources = recipe.sources_of(kernel);
    extents = fmt::format("{}", fmt::join(tiles, ","));
    stem = fmt::format("{}-{}-{}-{}", kernel, name(dtype), fmt::join(tiles, "x"),
                       recipe.hash(sources));
  }
  fs::path file(const char* ending) const { return folder / (stem + ending); }
  /// Of this process, until it is whole.
  std::string part(const char* ending) const {
    return (folder / fmt::format("{}.{}{}", stem, getpid(), ending)).string();
  }
  void say_that_it_compiles() const {
    if (recipe.interface() != kCudaInterface)
      throw InputError("no-backend",
                       "the headers in " + recipe.headers +
                           " are not those that this program was built of: what nvcc made of them "
                           "it could not run",
                       "build it again");
    const char* const over_progress = isatty(STDERR_FILENO) != 0 ? "\r\x1b[K" : "";
    fmt::print(stderr, "{}compiling {} {} with tiles {}, by nvcc, once\n", over_progress, kernel,
               name(dtype), extents);
  }
  std::vector<std::string> nvcc(const std::vector<std::string>& more) const {
    std::vector<std::string> words{recipe.nvcc};
    words.insert(words.end(), recipe.flags.begin(), recipe.flags.end());
    words.insert(words.end(), more.begin(), more.end());
    return words;
  }
  /// nvcc takes a comma in a macro of its command line for the end of it.
  void write_source(const std::string& path) const {
    std::ofstream source(path);
    source << fmt::format(
        "#define TESSERA_ONE_KERNEL \"{}\"\n#define TESSERA_ONE_TYPE {}\n"
        "#define TESSERA_ONE_TILES {}\n",
        kernel, dtype == DType::f32 ? "float" : name(dtype), extents);
    source << fmt::format(
        "extern \"C\" const char* tessera_cuda_interface() {{ return \"{}\"; }}\n", kCudaInterface);
    for (std::size_t i = 0; i < sources.size(); ++i)
      source << fmt::format("#define added added_{}\n#include \"{}\"\n#undef added\n", i,
                            sources[i]);
  }
  [[noreturn]] void refuse(const std::string& said) const {
    throw InputError("no-backend", fmt::format("nvcc does not compile {} for {} with tiles {}: {}",
                                               kernel, name(dtype), extents, first_error(said)));
  }
};

}  // namespace

CudaCode compile_cuda(const std::string& kernel, DType dtype, const std::vector<int>& tiles) {
  const OneInstance one(kernel, dtype, tiles, cta::kSm90);
  const fs::path cubin = one.file(".cubin");
  const fs::path log = one.file(".cubin.log");
  if (!fs::exists(cubin)) {
    one.say_that_it_compiles();
    one.write_source(one.part(".cu"));
    const bool compiled =
        Child(one.nvcc({"-Xptxas", "-v", "-cubin", one.part(".cu"), "-o", one.part(".cubin")}),
              one.part(".log"))
            .succeeds();
    fs::remove(one.part(".cu"));
    if (!compiled) {
      const std::string said = contents(one.part(".log"));
      fs::remove(one.part(".log"));
      one.refuse(said);
    }
    fs::rename(one.part(".log"), log);
    fs::rename(one.part(".cubin"), cubin);
  }
  CudaCode made{.cubin = contents(cubin)};
  const std::string said = contents(log);
  made.registers = most_of(said, "Used ([0-9]+) registers");
  made.stack_bytes = most_of(said, "([0-9]+) bytes stack frame");
  return made;
}

CudaModule make_cuda(const std::string& kernel, DType dtype, const std::vector<int>& tiles,
                     const cta::Sm& target) {
  const OneInstance one(kernel, dtype, tiles, target);
  CudaModule made{.path = one.file(".so").string(), .cached = true};
  const fs::path log = one.file(".log");
  if (!fs::exists(made.path)) {
    made.cached = false;
    one.say_that_it_compiles();
    const auto start = std::chrono::steady_clock::now();
    const auto part = [&](const char* ending) { return one.part(ending); };
    const Recipe& recipe = one.recipe;
    // What launches is the same for all, and compiled beside the first.
    const std::string backend_source = recipe.headers + "/cuda/backend.cu";
    const std::string backend =
        (one.folder / ("backend-" + recipe.hash({backend_source}) + ".o")).string();
    const bool has_backend = fs::exists(backend);
    one.write_source(part(".cu"));
    std::vector<std::string> objects{part(".o")};
    std::vector<std::string> logs{part(".log")};
    std::vector<Child> children;
    children.emplace_back(one.nvcc({"-Xptxas", "-v", "-c", part(".cu"), "-o", objects[0]}),
                          logs[0]);
    objects.push_back(has_backend ? backend : part(".backend.o"));
    logs.push_back(part(".backend.log"));
    if (!has_backend)
      children.emplace_back(one.nvcc({"-c", backend_source, "-o", objects.back()}), logs.back());
    bool compiled = true;
    for (const Child& child : children) compiled = child.succeeds() && compiled;
    if (compiled) {
      std::vector<std::string> link{recipe.nvcc, "-shared", "-cudart", "static",
                                    "-L" + recipe.libraries};
      link.insert(link.end(), objects.begin(), objects.end());
      link.insert(link.end(), {"-o", part(".so")});
      logs.push_back(part(".link.log"));
      compiled = Child(link, logs.back()).succeeds();
    }
    std::string said;
    for (const auto& l : logs) {
      said += contents(l);
      fs::remove(l);
    }
    if (compiled) {
      std::ofstream(log) << said;
      if (!has_backend) fs::rename(objects.back(), backend);
      fs::rename(part(".so"), made.path);
    }
    fs::remove(part(".cu"));
    for (const auto& o : objects) {
      if (o != backend) fs::remove(o);
    }
    if (!compiled) one.refuse(said);
    made.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  }
  const std::string said = contents(log);
  made.registers = most_of(said, "Used ([0-9]+) registers");
  made.spilled_bytes = most_of(said, "([0-9]+) bytes spill stores");
  return made;
}

}  // namespace tessera::cli

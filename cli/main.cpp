#include "cli/app.hpp"
#include "cli/loaded_kernels.hpp"

int main(int argc, char** argv) {
  return tessera::cli::run_app(argc, argv, tessera::cli::loaded_kernels());
}

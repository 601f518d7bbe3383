#include "cli/app.hpp"
#include "my_kernel.hpp"
#include "oracle.hpp"

int main(int argc, char** argv) {
  using In = const tessera::OracleInputs&;
  return tessera::cli::run_app(
      argc, argv,
      {
          tessera::cli::handle(tessera::entry<MyKernel>(
              [](const auto& k, In in) { return my_kernel_oracle(in["x"], in["y"], k.alpha); })),
      });
}

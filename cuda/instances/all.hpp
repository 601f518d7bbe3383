// Every kernel that is compiled for CUDA, one translation unit each: its element types and sets of
// tile sizes.
#pragma once

#include "cuda/backend.hpp"

namespace tessera::cuda {

void add_add_blocked(std::vector<Instance>& to);
void add_add_vectors(std::vector<Instance>& to);
void add_dma_matmul(std::vector<Instance>& to);
void add_flash_attention(std::vector<Instance>& to);
void add_grad_relu(std::vector<Instance>& to);
void add_grad_w(std::vector<Instance>& to);
void add_grad_x(std::vector<Instance>& to);
void add_grouped_matmul(std::vector<Instance>& to);
void add_matmul(std::vector<Instance>& to);
void add_matmul_layernorm_gelu(std::vector<Instance>& to);
void add_matmul_relu(std::vector<Instance>& to);
void add_pipelined_add(std::vector<Instance>& to);
void add_softmax_rows(std::vector<Instance>& to);

inline constexpr void (*kAllKernels[])(std::vector<Instance>&) = {
    add_add_blocked, add_add_vectors,
    add_dma_matmul,  add_flash_attention,
    add_grad_relu,   add_grad_w,
    add_grad_x,      add_grouped_matmul,
    add_matmul,      add_matmul_layernorm_gelu,
    add_matmul_relu, add_pipelined_add,
    add_softmax_rows};

}  // namespace tessera::cuda

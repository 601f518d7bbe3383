// Oracles of recurrent layers, step by step. x (len, gates, batch, d) are what is added to products
// of a state, w (gates, d, d) is multiplied from the left; states are (batch, d), 0 where there is
// no Tensor. What is multiplied is rounded by `roundoff`. Each gives h of all steps, (len, batch,
// d), then h, and of an LSTM c, at the end.
#pragma once

#include "reference/tensor.hpp"

namespace tessera::reference {

/// h = tanh(x + h w).
std::vector<Expected> rnn(const Tensor& x, const Tensor& w, const Tensor* h0, double roundoff);
/// Gates: reset, update, new; bias (1, d) is reset with the product.
std::vector<Expected> gru(const Tensor& x, const Tensor& w, const Tensor& bias, const Tensor* h0,
                          double roundoff);
/// Gates: in, forget, new, out.
std::vector<Expected> lstm(const Tensor& x, const Tensor& w, const Tensor* h0, const Tensor* c0,
                           double roundoff);

}  // namespace tessera::reference

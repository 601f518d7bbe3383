// Oracles of the kernels on a mesh. Arrays are those of all devices, one shard after the other.
#pragma once

#include "reference/tensor.hpp"

namespace tessera::reference {

/// x (n shards): all of them, n times.
Expected all_gather(const Tensor& x, int devices);
/// x: on each of n devices n parts; part p of the result is the sum of the devices' part p. `unit`:
/// roundoff of the type that sums are rounded to.
Expected reduce_scatter(const Tensor& x, int devices, double unit);
/// The same, all parts on every device.
Expected all_reduce(const Tensor& x, int devices, double unit);
/// counts (n, n): rows from s to d; x holds each device's rows by destination; the result has
/// `limit` rows on each device, by sender, then zeros.
Expected all_to_all(const Tensor& x, int devices, const std::vector<int>& counts, int limit);
/// Every shard of x times w of each device: x (n m, k), w (n k, n).
Expected all_gather_matmul(const Tensor& x, const Tensor& w, int devices);
/// Part p: the sum over devices of the device's part p of x times its w: x (n n m, k), w (n k, n).
Expected matmul_reduce_scatter(const Tensor& x, const Tensor& w, int devices);
/// x[i-1] + x[i] + x[i+1], zero outside.
Expected three_rows(const Tensor& x);

}  // namespace tessera::reference

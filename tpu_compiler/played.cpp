#include "tpu_compiler/played.hpp"

namespace tessera::tpu_compiler {

predict::TpuSchedule played_schedule(const std::string& libtpu, const Verdict& accepted,
                                     const program::Call& call, bool operands_known,
                                     const DeviceSpec& device, std::size_t most_spans) {
  try {
    predict::require_known_version(libtpu);
    std::vector<Array> bounds;
    for (const std::int64_t extent : call.bounds) {
      bounds.emplace_back(DType::i32, Shape{1});
      bounds.back().set(0, static_cast<double>(extent));
    }
    std::vector<const Array*> values;
    for (const Array& a : bounds) values.push_back(&a);
    if (operands_known) {
      for (const std::vector<Array>* arrays : {&call.prefetched, &call.inputs})
        for (const Array& a : *arrays) values.push_back(&a);
    }
    const predict::Listing listing = predict::read_listing(accepted.bundles, accepted.utilization);
    return predict::schedule_of(listing, values, device, most_spans);
  } catch (const predict::ListingError& e) {
    predict::TpuSchedule none;
    none.unmodelled = e.what();
    return none;
  }
}

}  // namespace tessera::tpu_compiler

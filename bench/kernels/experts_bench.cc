#include "bench/kernels/experts_bench.h"

#include <algorithm>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace beamline {
namespace {

struct Mixture {
  int num_experts, num_chosen;
  int64_t hidden_size, inner_size;
};

// Routing is random, so nearly even. Bytes counts the weights of the largest possible number of
// active experts.
void TimeRows(Bench& bench, const Mixture& mixture, const std::vector<int64_t>& rows_of_steps) {
  const auto& [num_experts, num_chosen, hidden_size, inner_size] = mixture;
  const auto name = [&](int64_t rows) {
    return fmt::format("experts bfloat16: {} rows, {} of {} x {} x {}", rows, num_chosen,
                       num_experts, hidden_size, inner_size);
  };
  if (std::none_of(rows_of_steps.begin(), rows_of_steps.end(),
                   [&](int64_t rows) { return bench.Wants(name(rows)); })) {
    return;
  }
  const DType dtype = DType::kBFloat16;
  std::vector<std::unique_ptr<PackedWeight>> weights;
  std::vector<const PackedWeight*> in, out;
  for (int e = 0; e < num_experts; ++e) {
    weights.push_back(bench.Weight(2 * inner_size, hidden_size, dtype));
    in.push_back(weights.back().get());
    weights.push_back(bench.Weight(hidden_size, inner_size, dtype));
    out.push_back(weights.back().get());
  }
  for (const int64_t rows : rows_of_steps) {
    if (!bench.Wants(name(rows))) continue;
    const int64_t num_places = rows * num_chosen;
    ExpertsParams params;
    params.num_chosen = num_chosen;
    params.activation = Activation::kSilu;
    params.in = in, params.out = out;
    params.x = bench.RandomTensor({rows, hidden_size}, dtype);
    params.router_logits = bench.RandomTensor({rows, num_experts}, DType::kFloat32);
    params.inner = bench.RandomTensor({num_places, inner_size}, dtype);
    params.outputs = bench.RandomTensor({num_places, hidden_size}, dtype);
    params.y = bench.RandomTensor({rows, hidden_size}, dtype);
    const double size = 3.0 * static_cast<double>(hidden_size * inner_size);
    bench.Time(name(rows), 2.0 * size * static_cast<double>(num_places),
               2.0 * size * static_cast<double>(std::min<int64_t>(num_experts, num_places)),
               [&](int) { bench.backend().Experts(params); });
    bench.Clear();
  }
}

}  // namespace

void TimeExperts(Bench& bench) {
  TimeRows(bench, {64, 8, 2048, 1024}, {1, 4, 32, 128, 256, 2048});  // OLMoE 7B
  TimeRows(bench, {8, 2, 2048, 7168}, {1, 32, 256, 2048});           // Mixtral's, half as wide
}

}  // namespace beamline

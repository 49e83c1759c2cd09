// Experts: sorts rows by expert, so that each expert's rows are one product.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <vector>

#include "kernels/cpu/ops.h"

namespace beamline::cpu {
namespace {

constexpr double kExpertsNsPerLogit = 3.0;
constexpr double kNsPerElement = 0.2;

// The routing of rows to experts. A place is a row in the sorted order, expert after expert.
struct Routes {
  std::vector<int32_t> experts;  // [num_rows, num_chosen], best first
  std::vector<float> weights;    // as experts
  std::vector<int32_t> places;   // as experts
  std::vector<int32_t> rows;     // row of each place
  std::vector<int32_t> offsets;  // [num_experts + 1], places of each expert
  std::vector<int32_t> next;     // [num_experts], the next free place
};

// The best experts of a row of logits, and their weights.
void Choose(const ExpertsParams& params, const float* logits, int32_t* experts, float* weights) {
  const auto num_experts = static_cast<int32_t>(params.in.size());
  float maximum = logits[0];
  for (int32_t e = 1; e < num_experts; ++e) maximum = std::max(maximum, logits[e]);
  float total = 0.0f, chosen = 0.0f;
  for (int32_t e = 0; e < num_experts; ++e) total += std::exp(logits[e] - maximum);
  for (int i = 0; i < params.num_chosen; ++i) {
    int32_t best = -1;
    for (int32_t e = 0; e < num_experts; ++e) {
      if (std::find(experts, experts + i, e) != experts + i) continue;
      if (best < 0 || logits[e] > logits[best]) best = e;
    }
    experts[i] = best;
    weights[i] = std::exp(logits[best] - maximum);
    chosen += weights[i];
  }
  const float sum = params.renormalize ? chosen : total;
  for (int i = 0; i < params.num_chosen; ++i) weights[i] /= sum;
}

// Assigns a place to every choice: by expert, then by row.
void Sort(int num_experts, int num_chosen, Routes& routes) {
  routes.offsets.assign(num_experts + 1, 0);
  for (const int32_t expert : routes.experts) ++routes.offsets[expert + 1];
  for (int e = 0; e < num_experts; ++e) routes.offsets[e + 1] += routes.offsets[e];
  routes.next.assign(routes.offsets.begin(), routes.offsets.end() - 1);
  for (size_t choice = 0; choice < routes.experts.size(); ++choice) {
    const int32_t place = routes.next[routes.experts[choice]]++;
    routes.places[choice] = place;
    routes.rows[place] = static_cast<int32_t>(choice) / num_chosen;
  }
}

// Rows begin .. end - 1 of a matrix.
Tensor Rows(const Tensor& matrix, int64_t begin, int64_t end) {
  Tensor rows = matrix.First(end);
  rows.data = matrix.row<float>(begin);
  rows.dims[0] = end - begin;
  return rows;
}

void Product(Context& context, const Tensor& x, const PackedWeight& weight, Activation activation,
             bool gated, const Tensor& y) {
  MatMulParams product;
  product.x = x;
  product.weight = &weight;
  product.activation = activation;
  product.gated = gated;
  product.y = y;
  Compute(context, product);
}

// y of a row: sums its experts' outputs in the order of its choices, so that it does not depend on
// other rows.
void Combine(const ExpertsParams& params, const Routes& routes, int64_t row, float* sum) {
  const int64_t size = params.y.dim(-1);
  std::fill_n(sum, size, 0.0f);
  for (int i = 0; i < params.num_chosen; ++i) {
    const int64_t choice = row * params.num_chosen + i;
    const float weight = routes.weights[choice];
    const float* const output = params.outputs.row<float>(routes.places[choice]);
    for (int64_t c = 0; c < size; ++c) sum[c] += weight * output[c];
  }
  if (!params.shared.empty()) {
    const float* const shared = params.shared.row<float>(row);
    const float share =
        1.0f / (1.0f + std::exp(-params.router_logits.row<float>(row)[params.in.size()]));
    for (int64_t c = 0; c < size; ++c) sum[c] += share * shared[c];
  }
  const float* const residual = params.residual.empty() ? nullptr : params.residual.row<float>(row);
  float* const y = params.y.row<float>(row);
  for (int64_t c = 0; c < size; ++c) y[c] = residual == nullptr ? sum[c] : sum[c] + residual[c];
}

}  // namespace

void Compute(Context& context, const ExpertsParams& params) {
  static thread_local Routes routes;  // reused, to keep its memory
  const int64_t num_rows = params.x.num_rows();
  const int num_experts = static_cast<int>(params.in.size()), num_chosen = params.num_chosen;
  const int64_t num_places = num_rows * num_chosen, size = params.x.dim(-1);
  if (num_rows == 0) return;
  for (auto* list : {&routes.experts, &routes.places, &routes.rows}) list->resize(num_places);
  routes.weights.resize(num_places);
  Routes& of_rows = routes;  // of this thread, whichever one reads it
  context.Run(num_rows, 16, kExpertsNsPerLogit * num_rows * num_experts * num_chosen,
              [&](int64_t begin, int64_t end, Scratch&) {
                for (int64_t row = begin; row < end; ++row) {
                  Choose(params, params.router_logits.row<float>(row),
                         of_rows.experts.data() + row * num_chosen,
                         of_rows.weights.data() + row * num_chosen);
                }
              });
  Sort(num_experts, num_chosen, of_rows);
  // The inputs are stored in `outputs`: all first products are done before the second ones
  // overwrite them.
  context.Run(num_places, 16, kNsPerElement * num_places * size,
              [&](int64_t begin, int64_t end, Scratch&) {
                for (int64_t place = begin; place < end; ++place) {
                  std::copy_n(params.x.row<float>(of_rows.rows[place]), size,
                              params.outputs.row<float>(place));
                }
              });
  const auto of_each_expert = [&](const auto& product) {
    for (int e = 0; e < num_experts; ++e) {
      const int64_t begin = of_rows.offsets[e], end = of_rows.offsets[e + 1];
      if (begin == end) continue;
      product(e, Rows(params.outputs, begin, end), Rows(params.inner, begin, end));
    }
  };
  of_each_expert([&](int e, const Tensor& x, const Tensor& inner) {
    Product(context, x, *params.in[e], params.activation, /*gated=*/true, inner);
  });
  of_each_expert([&](int e, const Tensor& y, const Tensor& inner) {
    Product(context, inner, *params.out[e], Activation::kNone, /*gated=*/false, y);
  });
  context.Run(num_rows, 4, kNsPerElement * num_places * size,
              [&](int64_t begin, int64_t end, Scratch& scratch) {
                scratch.Reset(Scratch::BytesFor<float>(size));
                float* const sum = scratch.Take<float>(size);
                for (int64_t row = begin; row < end; ++row) Combine(params, of_rows, row, sum);
              });
}

}  // namespace beamline::cpu

// The operators of kernels/operators.h in plain float64 loops, over host memory: what every backend
// is tested against. Written from the contract, not from an implementation.
#pragma once

#include <cstdint>
#include <vector>

#include "kernels/operators.h"

namespace beamline::reference {

// A matrix of float64 results.
struct Matrix {
  int64_t rows = 0;
  int64_t cols = 0;
  std::vector<double> values;

  Matrix(int64_t num_rows, int64_t num_cols)
      : rows(num_rows), cols(num_cols), values(num_rows * num_cols) {}
  double& at(int64_t r, int64_t c) { return values[r * cols + c]; }
  double at(int64_t r, int64_t c) const { return values[r * cols + c]; }
};

double Activate(Activation activation, double x);

Matrix Embed(const EmbedParams& params);

// `weight` is [out_features, in_features]; params.weight, params.normed and params.y are not read.
Matrix MatMul(const MatMulParams& params, const Matrix& weight);

// Normalised rows and the sums before.
struct NormResult {
  Matrix y;
  Matrix sum;
};
NormResult Norm(const NormParams& params);

// Queries, keys and values of every token, packed, after rotary and scaling.
struct HeadsResult {
  Matrix query;
  Matrix key;
  Matrix value;
};
HeadsResult ProjectHeads(const ProjectHeadsParams& params, const Matrix& weight);

Matrix Attention(const AttentionParams& params);

Matrix Unfold(const UnfoldParams& params);

Matrix Pool(const PoolParams& params);

// The experts' weights; params.in, params.out, params.inner, params.outputs and params.y are not
// read.
Matrix Experts(const ExpertsParams& params, const std::vector<Matrix>& in,
               const std::vector<Matrix>& out);

// One row of TopCandidates.
struct CandidatesResult {
  std::vector<double> scores;  // [vocab_size], after normalisation and edits
  double log_normalizer = 0;
};
CandidatesResult EditScores(const std::vector<float>& logits, const LogitsEdits* edits,
                            bool normalize_first);

// The probability of each token after SampleRow's filters: 0 where a token is filtered out.
std::vector<double> SampleProbabilities(const std::vector<float>& logits, const SampleRow& row);

}  // namespace beamline::reference

// Long because every operator has its twin here.
#include "tests/kernels/reference_ops.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numbers>
#include <numeric>

namespace beamline::reference {
namespace {

// Row r, column c of a float32 tensor; an empty one is all zeros.
double At(const Tensor& tensor, int64_t r, int64_t c) {
  return tensor.empty() ? 0.0 : static_cast<double>(tensor.row<float>(r)[c]);
}

double VectorAt(const Tensor& tensor, int64_t i) {
  return tensor.empty() ? 0.0 : static_cast<double>(tensor.as<float>()[i]);
}

double Product(const Matrix& x, int64_t row, const Matrix& weight, int64_t out) {
  double sum = 0;
  for (int64_t k = 0; k < weight.cols; ++k) sum += x.at(row, k) * weight.at(out, k);
  return sum;
}

void NormalizeRow(const FusedNorm& norm, int64_t size, double* row) {
  const double count = static_cast<double>(size);
  const double mean =
      norm.kind == NormKind::kRmsNorm ? 0.0 : std::accumulate(row, row + size, 0.0) / count;
  double variance = 0;
  for (int64_t c = 0; c < size; ++c) variance += std::pow(row[c] - mean, 2) / count;
  for (int64_t c = 0; c < size; ++c) {
    row[c] = (row[c] - mean) / std::sqrt(variance + norm.epsilon) * VectorAt(norm.gain, c) +
             VectorAt(norm.bias, c);
  }
}

// The nearest number with 8 significant bits.
double RoundToBFloat16(double x) {
  int exponent = 0;
  const double mantissa = std::frexp(x, &exponent);
  return std::ldexp(std::nearbyint(std::ldexp(mantissa, 8)), exponent - 8);
}

// What ALiBi adds to the score of a query at `position` with a key.
double Alibi(const AttentionParams& p, int head, int position, int key) {
  const double slope = p.alibi_slopes[head];
  if (p.rounded_alibi_factor == 0) return -slope * std::abs(position - key);
  return RoundToBFloat16(RoundToBFloat16(slope) * RoundToBFloat16(key)) * p.rounded_alibi_factor;
}

// The rows that a product multiplies.
template <typename Params>
Matrix InputRows(const Params& p) {
  Matrix rows(p.x.num_rows(), p.x.dim(-1));
  for (int64_t r = 0; r < rows.rows; ++r) {
    for (int64_t c = 0; c < rows.cols; ++c) rows.at(r, c) = At(p.x, r, c);
    if (!p.input_norm.gain.empty()) NormalizeRow(p.input_norm, rows.cols, &rows.at(r, 0));
  }
  return rows;
}

// A head of a packed matrix of heads.
void RotateHead(const Rotary& rotary, int64_t position, double* head) {
  const int64_t half = rotary.cos_sin.dim(-1) / 2;
  for (int64_t i = 0; i < half; ++i) {
    const int64_t first = rotary.interleaved ? 2 * i : i;
    const int64_t second = rotary.interleaved ? 2 * i + 1 : i + half;
    const double cosine = At(rotary.cos_sin, position, i);
    const double sine = At(rotary.cos_sin, position, half + i);
    const double a = head[first];
    const double b = head[second];
    head[first] = a * cosine - b * sine;
    head[second] = a * sine + b * cosine;
  }
}

// The key (or value) of one head at a position of one sequence. Of keys that lie as columns: their
// first elements; the others are block_size apart.
const float* HeadAt(const AttentionParams& p, const Tensor& packed, const Tensor* paged,
                    int sequence, int position, int kv_head, KeyLayout layout) {
  if (paged == nullptr) {
    return packed.row<float>(p.query_offsets[sequence] + position) + kv_head * p.head_dim;
  }
  const int64_t block_size = paged->dim(2);
  const int64_t block =
      p.block_tables[static_cast<int64_t>(sequence) * p.max_blocks + position / block_size];
  const int64_t head = (block * p.num_kv_heads + kv_head) * block_size * p.head_dim;
  const int64_t offset = position % block_size;
  return paged->as<float>() + head + (layout == KeyLayout::kRows ? offset * p.head_dim : offset);
}

// What disentangled attention adds to the product of a query and a key.
double PositionScore(const AttentionParams& p, const float* query, const float* key, int head,
                     int distance) {
  const RelativePositions& relative = p.relative;
  const int clamped = std::clamp(distance, -relative.max_distance, relative.max_distance);
  const int row = relative.rows[clamped + relative.max_distance];
  double sum = 0;
  for (int d = 0; d < p.head_dim; ++d) {
    const int column = head * p.head_dim + d;
    if (!relative.keys.empty()) sum += query[d] * At(relative.keys, row, column);
    if (!relative.queries.empty()) sum += key[d] * At(relative.queries, row, column);
  }
  return sum;
}

// One query of one head.
void AttendOne(const AttentionParams& p, int sequence, int query, int head, Matrix& output) {
  const int first = p.query_offsets[sequence];
  const int query_length = p.query_offsets[sequence + 1] - first;
  const int context = p.cache == nullptr ? query_length : p.context_lengths[sequence];
  const int position = context - query_length + query;
  const int num_keys = p.causal ? position + 1 : context;
  const int kv_head = head / (p.num_heads / p.num_kv_heads);
  const Tensor* const keys = p.cache == nullptr ? nullptr : &p.cache->keys;
  const Tensor* const values = p.cache == nullptr ? nullptr : &p.cache->values;
  const KeyLayout layout = p.cache == nullptr ? KeyLayout::kRows : p.cache->key_layout;
  const int64_t stride = layout == KeyLayout::kRows ? 1 : keys->dim(2);
  const float* const q = p.query.row<float>(first + query) + head * p.head_dim;
  std::vector<double> scores(std::max(0, num_keys));
  for (int j = 0; j < num_keys; ++j) {
    const float* const key = HeadAt(p, p.key, keys, sequence, j, kv_head, layout);
    for (int d = 0; d < p.head_dim; ++d) scores[j] += static_cast<double>(q[d]) * key[d * stride];
    if (!p.relative.empty()) scores[j] += PositionScore(p, q, key, head, j - position);
    scores[j] *= p.scale;
    if (p.softcap > 0) scores[j] = p.softcap * std::tanh(scores[j] / p.softcap);
    if (p.alibi_slopes != nullptr) scores[j] += Alibi(p, head, position, j);
    if (!p.position_bias.empty()) {
      const int max_distance = static_cast<int>(p.position_bias.dim(-1) - 1) / 2;
      const int distance = std::clamp(j - position, -max_distance, max_distance);
      scores[j] += At(p.position_bias, head, distance + max_distance);
    }
  }
  if (scores.empty()) return;
  for (int j = 0; p.window > 0 && j < num_keys; ++j) {
    if (std::abs(position - j) >= p.window) scores[j] = -std::numeric_limits<double>::infinity();
  }
  const double maximum = *std::max_element(scores.begin(), scores.end());
  double total = 0;
  for (double& score : scores) total += score = std::exp(score - maximum);
  std::vector<double> sums(p.head_dim);
  for (int j = 0; j < num_keys; ++j) {
    const float* const value = HeadAt(p, p.value, values, sequence, j, kv_head, KeyLayout::kRows);
    for (int d = 0; d < p.head_dim; ++d) sums[d] += scores[j] * value[d];
  }
  for (int d = 0; d < p.head_dim; ++d) {
    output.at(first + query, head * p.head_dim + d) = sums[d] / total;
  }
}

double PoolColumn(const PoolParams& p, int64_t begin, int64_t end, int64_t c) {
  const double length = static_cast<double>(end - begin);
  if (begin == end) return 0;
  if (p.pooling == Pooling::kCls) return At(p.hidden, begin, c);
  if (p.pooling == Pooling::kLast) return At(p.hidden, end - 1, c);
  double sum = 0;
  double maximum = -std::numeric_limits<double>::infinity();
  for (int64_t i = begin; i < end; ++i) {
    sum += At(p.hidden, i, c);
    maximum = std::max(maximum, At(p.hidden, i, c));
  }
  if (p.pooling == Pooling::kMax) return maximum;
  return sum / (p.pooling == Pooling::kMean ? length : std::sqrt(length));
}

std::vector<double> Softmax(const std::vector<double>& scores) {
  const double maximum = *std::max_element(scores.begin(), scores.end());
  std::vector<double> probabilities(scores.size());
  double total = 0;
  for (size_t i = 0; i < scores.size(); ++i) {
    total += probabilities[i] = std::exp(scores[i] - maximum);
  }
  for (double& probability : probabilities) probability /= total;
  return probabilities;
}

// Removes all tokens but the shortest prefix, in the order of keys, whose probability reaches
// `mass`.
void KeepPrefix(const std::vector<double>& keys, double mass, std::vector<double>& scores) {
  const std::vector<double> probabilities = Softmax(scores);
  std::vector<size_t> order(scores.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::stable_sort(order.begin(), order.end(),
                   [&](size_t a, size_t b) { return keys[a] < keys[b]; });
  double before = 0;
  for (size_t i = 0; i < order.size(); ++i) {
    if (i > 0 && before >= mass) scores[order[i]] = -std::numeric_limits<double>::infinity();
    before += probabilities[order[i]];
  }
}

void KeepTypical(double mass, std::vector<double>& scores) {
  const std::vector<double> probabilities = Softmax(scores);
  double entropy = 0;
  for (double p : probabilities) entropy -= p > 0 ? p * std::log(p) : 0;
  std::vector<double> keys(scores.size());
  for (size_t i = 0; i < keys.size(); ++i) {
    keys[i] = std::abs(-std::log(probabilities[i]) - entropy);
  }
  KeepPrefix(keys, mass, scores);
}

}  // namespace

double Activate(Activation activation, double x) {
  switch (activation) {
    case Activation::kNone:
      return x;
    case Activation::kRelu:
      return std::max(0.0, x);
    case Activation::kGelu:
      return 0.5 * x * std::erfc(-x / std::numbers::sqrt2);
    case Activation::kGeluTanh:
      return 0.5 * x *
             (1 + std::tanh(std::sqrt(2 / std::numbers::pi) * (x + 0.044715 * x * x * x)));
    case Activation::kSilu:
      return x / (1 + std::exp(-x));
    case Activation::kTanh:
      return std::tanh(x);
  }
  return x;
}

Matrix Embed(const EmbedParams& p) {
  Matrix output(p.num_tokens, p.output.dim(-1));
  for (int64_t i = 0; i < output.rows; ++i) {
    for (int64_t c = 0; c < output.cols; ++c) {
      double sum = At(p.token_table, p.token_ids[i], c) * p.token_scale;
      if (!p.position_table.empty()) sum += At(p.position_table, p.positions[i], c);
      if (!p.type_table.empty()) sum += At(p.type_table, p.type_ids[i], c);
      output.at(i, c) = sum;
    }
    if (!p.norm.gain.empty()) NormalizeRow(p.norm, output.cols, &output.at(i, 0));
  }
  return output;
}

Matrix MatMul(const MatMulParams& p, const Matrix& weight) {
  const int64_t columns = p.gated ? weight.rows / 2 : weight.rows;
  const Matrix x = InputRows(p);
  Matrix y(x.rows, columns);
  for (int64_t r = 0; r < y.rows; ++r) {
    for (int64_t c = 0; c < columns; ++c) {
      double value = Activate(p.activation, Product(x, r, weight, c) + VectorAt(p.bias, c));
      if (p.gated) value *= Product(x, r, weight, c + columns) + VectorAt(p.bias, c + columns);
      if (p.softcap > 0) value = p.softcap * std::tanh(value / p.softcap);
      y.at(r, c) = value + At(p.residual, r, c);
    }
  }
  return y;
}

NormResult Norm(const NormParams& p) {
  const int64_t size = p.x.dim(-1);
  NormResult result{Matrix(p.x.num_rows(), size), Matrix(p.x.num_rows(), size)};
  for (int64_t r = 0; r < result.y.rows; ++r) {
    for (int64_t c = 0; c < size; ++c) {
      result.y.at(r, c) = result.sum.at(r, c) = At(p.x, r, c) + At(p.residual, r, c);
    }
    NormalizeRow({p.kind, p.gain, p.bias, p.epsilon}, size, &result.y.at(r, 0));
    for (int64_t c = 0; c < size; ++c) result.y.at(r, c) += At(p.addend, r, c);
  }
  return result;
}

HeadsResult ProjectHeads(const ProjectHeadsParams& p, const Matrix& weight) {
  const int64_t num_tokens = p.x.num_rows();
  const int64_t query_size = static_cast<int64_t>(p.num_heads) * p.head_dim;
  const int64_t key_size = static_cast<int64_t>(p.num_kv_heads) * p.head_dim;
  HeadsResult result{Matrix(num_tokens, query_size), Matrix(num_tokens, key_size),
                     Matrix(num_tokens, key_size)};
  const Matrix x = InputRows(p);
  for (int64_t t = 0; t < num_tokens; ++t) {
    std::vector<double> heads(weight.rows);
    for (int64_t o = 0; o < weight.rows; ++o) {
      heads[o] = Product(x, t, weight, o) + VectorAt(p.bias, o);
      if (p.clip > 0) heads[o] = std::clamp<double>(heads[o], -p.clip, p.clip);
    }
    for (int h = 0; h < p.num_heads + p.num_kv_heads; ++h) {
      const FusedNorm& norm = h < p.num_heads ? p.query_norm : p.key_norm;
      if (norm.gain.empty()) continue;
      const int64_t size = norm.gain.dim(-1);  // of a head, or of all of them
      const int64_t begin = int64_t{h} * p.head_dim;
      if (size == p.head_dim || h == 0 || h == p.num_heads) {
        NormalizeRow(norm, size, heads.data() + begin);
      }
    }
    for (int h = 0; p.rotary != nullptr && h < p.num_heads + p.num_kv_heads; ++h) {
      RotateHead(*p.rotary, p.positions[t], heads.data() + h * p.head_dim);
    }
    for (int64_t c = 0; c < query_size; ++c) result.query.at(t, c) = heads[c] * p.query_scale;
    for (int64_t c = 0; c < key_size; ++c) {
      result.key.at(t, c) = heads[query_size + c];
      result.value.at(t, c) = heads[query_size + key_size + c];
    }
  }
  return result;
}

Matrix Attention(const AttentionParams& p) {
  Matrix output(p.query.num_rows(), static_cast<int64_t>(p.num_heads) * p.head_dim);
  for (int s = 0; s < p.num_sequences; ++s) {
    for (int q = 0; q < p.query_offsets[s + 1] - p.query_offsets[s]; ++q) {
      for (int h = 0; h < p.num_heads; ++h) AttendOne(p, s, q, h, output);
    }
  }
  return output;
}

Matrix Experts(const ExpertsParams& p, const std::vector<Matrix>& in,
               const std::vector<Matrix>& out) {
  Matrix y(p.x.num_rows(), p.x.dim(-1));
  for (int64_t r = 0; r < y.rows; ++r) {
    const float* const logits = p.router_logits.row<float>(r);
    const std::vector<double> shares = Softmax(std::vector<double>(logits, logits + in.size()));
    std::vector<size_t> order(in.size());
    std::iota(order.begin(), order.end(), size_t{0});
    std::stable_sort(order.begin(), order.end(),
                     [&](size_t a, size_t b) { return logits[a] > logits[b]; });
    order.resize(p.num_chosen);
    double sum = 0;
    for (const size_t e : order) sum += p.renormalize ? shares[e] : 1.0 / p.num_chosen;
    Matrix x(1, y.cols), inner(1, in[0].rows / 2);
    for (int64_t c = 0; c < y.cols; ++c) {
      x.at(0, c) = At(p.x, r, c);
      y.at(r, c) = At(p.residual, r, c);
      if (!p.shared.empty()) y.at(r, c) += At(p.shared, r, c) / (1 + std::exp(-logits[in.size()]));
    }
    for (const size_t e : order) {
      for (int64_t i = 0; i < inner.cols; ++i) {
        inner.at(0, i) =
            Activate(p.activation, Product(x, 0, in[e], i)) * Product(x, 0, in[e], i + inner.cols);
      }
      for (int64_t c = 0; c < y.cols; ++c) {
        y.at(r, c) += shares[e] / sum * Product(inner, 0, out[e], c);
      }
    }
  }
  return y;
}

Matrix Unfold(const UnfoldParams& p) {
  Matrix output(p.input.num_rows(), p.input.dim(-1) * p.kernel_size);
  for (int s = 0; s < p.num_sequences; ++s) {
    for (int64_t i = p.offsets[s]; i < p.offsets[s + 1]; ++i) {
      for (int64_t c = 0; c < output.cols; ++c) {
        const int64_t row = i + c % p.kernel_size - p.kernel_size / 2;
        const bool exists = row >= p.offsets[s] && row < p.offsets[s + 1];
        output.at(i, c) = exists ? At(p.input, row, c / p.kernel_size) : 0.0;
      }
    }
  }
  return output;
}

Matrix Pool(const PoolParams& p) {
  Matrix output(p.num_sequences, p.hidden.dim(-1));
  for (int64_t s = 0; s < output.rows; ++s) {
    double squares = 0;
    for (int64_t c = 0; c < output.cols; ++c) {
      output.at(s, c) = PoolColumn(p, p.offsets[s], p.offsets[s + 1], c);
      squares += output.at(s, c) * output.at(s, c);
    }
    if (!p.normalize || squares == 0) continue;
    for (int64_t c = 0; c < output.cols; ++c) output.at(s, c) /= std::sqrt(squares);
  }
  return output;
}

CandidatesResult EditScores(const std::vector<float>& logits, const LogitsEdits* edits,
                            bool normalize_first) {
  CandidatesResult result;
  result.scores.assign(logits.begin(), logits.end());
  const double maximum = *std::max_element(result.scores.begin(), result.scores.end());
  double total = 0;
  for (double score : result.scores) total += std::exp(score - maximum);
  result.log_normalizer = maximum + std::log(total);
  if (normalize_first) {
    for (double& score : result.scores) score -= result.log_normalizer;
  }
  if (edits == nullptr) return result;
  for (const LogitsEdits::Penalty& penalty : edits->penalties) {
    double& score = result.scores[penalty.id];
    score = score < 0 ? score * edits->repetition_penalty : score / edits->repetition_penalty;
    if (penalty.output_count > 0) score -= edits->presence_penalty;
    score -= static_cast<double>(edits->frequency_penalty) * penalty.output_count;
  }
  for (const LogitsEdits::Bias& bias : edits->biases) result.scores[bias.id] += bias.value;
  if (edits->forced_id >= 0) {
    std::fill(result.scores.begin(), result.scores.end(), -std::numeric_limits<double>::infinity());
    result.scores[edits->forced_id] = 0;
  }
  return result;
}

std::vector<double> SampleProbabilities(const std::vector<float>& logits, const SampleRow& row) {
  std::vector<double> scores(logits.begin(), logits.end());
  for (double& score : scores) score /= row.temperature;
  const double removed = -std::numeric_limits<double>::infinity();
  if (row.top_k > 0 && static_cast<size_t>(row.top_k) < scores.size()) {
    std::vector<double> sorted = scores;
    std::sort(sorted.begin(), sorted.end(), std::greater<>());
    for (double& score : scores) score = score < sorted[row.top_k - 1] ? removed : score;
  }
  if (row.top_p < 1) {
    std::vector<double> keys(scores.size());
    for (size_t i = 0; i < keys.size(); ++i) keys[i] = -scores[i];
    KeepPrefix(keys, row.top_p, scores);
  }
  if (row.min_p > 0) {
    const std::vector<double> probabilities = Softmax(scores);
    const double best = *std::max_element(probabilities.begin(), probabilities.end());
    for (size_t i = 0; i < scores.size(); ++i) {
      if (probabilities[i] < row.min_p * best) scores[i] = removed;
    }
  }
  if (row.typical_p < 1) KeepTypical(row.typical_p, scores);
  return Softmax(scores);
}

}  // namespace beamline::reference

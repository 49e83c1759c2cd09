// The operators in float16 and bfloat16, and in float32 at sizes that only a GPU is asked for,
// against the float64 twin on the same (rounded) inputs.
#include <algorithm>
#include <numeric>

#include "gtest/gtest.h"
#include "kernels/cuda_loader.h"
#include "tests/gpu/typed_arrays.h"
#include "tests/kernels/reference_ops.h"

namespace beamline {
namespace {

// ||actual - expected|| / ||expected||: one rounding of the output, and of what is kept in between.
double Tolerance(DType dtype) {
  return dtype == DType::kFloat32 ? 3e-6 : dtype == DType::kFloat16 ? 8e-4 : 6e-3;
}

class HalfOpTest : public testing::TestWithParam<DType> {
 protected:
  static void SetUpTestSuite() {
    auto backend = MakeCudaBackend(0);
    if (backend.ok()) backend_ = std::move(*backend).release();
  }
  static void TearDownTestSuite() {
    delete backend_;
    backend_ = nullptr;
  }
  void SetUp() override {
    if (backend_ == nullptr) GTEST_SKIP() << "no CUDA device";
    seed_ = std::random_device()();
    random_.seed(seed_);
  }
  void TearDown() override {
    if (HasFailure()) std::fprintf(stderr, "seed %u\n", seed_);
    if (backend_ == nullptr) return;
    EXPECT_TRUE(backend_->Synchronize().ok());
  }

  Backend& backend() { return *backend_; }
  DType dtype() const { return GetParam(); }
  int RandomInt(int low, int high) {
    return std::uniform_int_distribution<int>(low, high)(random_);
  }
  TypedArray Random(int64_t rows, int64_t cols, float scale = 1.0f) {
    return TypedArray::Random(backend(), dtype(), rows, cols, scale, random_);
  }
  TypedArray Output(int64_t rows, int64_t cols, DType type) {
    return TypedArray::Poisoned(backend(), type, rows, cols);
  }
  TypedArray Output(int64_t rows, int64_t cols) { return Output(rows, cols, dtype()); }
  IndexArray Ids(std::vector<int32_t> values) { return IndexArray(backend(), std::move(values)); }
  void ExpectClose(const TypedArray& actual, const reference::Matrix& expected,
                   double tolerance) const {
    const double error = actual.RelativeError(expected);
    EXPECT_LE(error, tolerance) << Name(dtype());
  }
  void ExpectClose(const TypedArray& actual, const reference::Matrix& expected) const {
    ExpectClose(actual, expected, Tolerance(dtype()));
  }

  // A weight with its values after rounding.
  struct Weight {
    std::unique_ptr<PackedWeight> packed;
    reference::Matrix values;
  };
  Weight RandomWeight(int64_t out_features, int64_t in_features) {
    const TypedArray array =
        Random(out_features, in_features, 1.0f / std::sqrt(float(in_features)));
    const HostMatrix part = {
        .data = array.host().data(), .rows = out_features, .cols = in_features};
    auto packed = backend().PackWeight({&part, 1}, dtype());
    EXPECT_TRUE(packed.ok()) << packed.status();
    reference::Matrix values(out_features, in_features);
    std::copy(array.host().begin(), array.host().end(), values.values.begin());
    return {*std::move(packed), std::move(values)};
  }

  static Backend* backend_;
  std::mt19937 random_;
  unsigned seed_ = 0;
};
Backend* HalfOpTest::backend_ = nullptr;

INSTANTIATE_TEST_SUITE_P(Types, HalfOpTest,
                         testing::Values(DType::kFloat32, DType::kFloat16, DType::kBFloat16),
                         [](const auto& test_info) { return std::string(Name(test_info.param)); });

TEST_P(HalfOpTest, MatMulWithEveryEpilogue) {
  const struct {
    int rows, in_features, half;
  } shapes[] = {{1, 256, 128}, {3, 72, 50},   {5, 4096, 64},  {8, 1024, 64}, {12, 96, 80},
                {16, 320, 40}, {17, 200, 33}, {130, 256, 96}, {77, 65, 64}};
  for (const auto& shape : shapes) {
    const Weight weight = RandomWeight(2 * shape.half, shape.in_features);
    const TypedArray x = Random(shape.rows, shape.in_features, 1.5f);
    const TypedArray bias = Random(1, 2 * shape.half);
    for (Activation activation : {Activation::kNone, Activation::kRelu, Activation::kGelu,
                                  Activation::kGeluTanh, Activation::kSilu, Activation::kTanh}) {
      for (int variant = 0; variant < 8; ++variant) {
        const bool gated = (variant & 1) != 0;
        const int columns = gated ? shape.half : 2 * shape.half;
        const TypedArray residual = Random(shape.rows, columns);
        const TypedArray y = Output(shape.rows, columns);
        SCOPED_TRACE(testing::Message()
                     << shape.rows << "x" << shape.in_features << "x" << 2 * shape.half
                     << " activation " << static_cast<int>(activation) << " variant " << variant);
        MatMulParams params, expected;
        params.weight = expected.weight = weight.packed.get();
        params.activation = expected.activation = activation;
        params.gated = expected.gated = gated;
        params.x = x.device();
        expected.x = x.host_tensor();
        if ((variant & 2) != 0) {
          params.bias = bias.device_vector();
          expected.bias = bias.host_vector();
        }
        if ((variant & 4) != 0) {
          params.residual = residual.device();
          expected.residual = residual.host_tensor();
        }
        params.y = y.device();
        expected.y = y.host_tensor();
        backend().MatMul(params);
        ExpectClose(y, reference::MatMul(expected, weight.values));
      }
    }
  }
}

TEST_P(HalfOpTest, LogitsAreFloat32) {
  for (int rows : {1, 5, 40}) {
    for (int vocab_size : {8000, 6001}) {
      const Weight weight = RandomWeight(vocab_size, 192);
      const TypedArray x = Random(rows, 192);
      const TypedArray bias = Random(1, vocab_size);
      for (bool biased : {false, true}) {
        const TypedArray y = Output(rows, vocab_size, DType::kFloat32);
        MatMulParams params, expected;
        params.weight = expected.weight = weight.packed.get();
        params.x = x.device();
        expected.x = x.host_tensor();
        if (biased) {
          params.bias = bias.device_vector();
          expected.bias = bias.host_vector();
        }
        params.y = y.device();
        expected.y = y.host_tensor();
        backend().MatMul(params);
        // Nothing is rounded to half precision on the way.
        ExpectClose(y, reference::MatMul(expected, weight.values), Tolerance(DType::kFloat32));
      }
    }
  }
}

TEST_P(HalfOpTest, NormAddsTheResidual) {
  // The last two straddle what a launch gets of shared memory without asking.
  for (int hidden_size : {64, 256, 768, 1023, 5120, 12224, 12288}) {
    for (NormKind kind : {NormKind::kLayerNorm, NormKind::kRmsNorm}) {
      const int rows = RandomInt(1, 40);
      const TypedArray x = Random(rows, hidden_size, 2.0f), residual = Random(rows, hidden_size);
      const TypedArray gain = Random(1, hidden_size), bias = Random(1, hidden_size);
      const TypedArray y = Output(rows, hidden_size), sum = Output(rows, hidden_size);
      NormParams params, expected;
      params.kind = expected.kind = kind;
      params.x = x.device(), expected.x = x.host_tensor();
      params.residual = residual.device(), expected.residual = residual.host_tensor();
      params.gain = gain.device_vector(), expected.gain = gain.host_vector();
      params.bias = bias.device_vector(), expected.bias = bias.host_vector();
      params.y = y.device(), expected.y = y.host_tensor();
      params.sum = sum.device();
      backend().Norm(params);
      const reference::NormResult result = reference::Norm(expected);
      ExpectClose(y, result.y);
      ExpectClose(sum, result.sum);
    }
  }
}

TEST_P(HalfOpTest, EmbedAddsItsTables) {
  for (int hidden_size : {64, 100, 768}) {
    const int num_tokens = 45;
    const TypedArray tokens = Random(300, hidden_size), positions = Random(60, hidden_size),
                     types = Random(2, hidden_size);
    std::vector<int32_t> ids(num_tokens), places(num_tokens), kinds(num_tokens);
    for (int i = 0; i < num_tokens; ++i) {
      ids[i] = RandomInt(0, 299), places[i] = RandomInt(0, 59), kinds[i] = RandomInt(0, 1);
    }
    const IndexArray device_ids = Ids(ids), device_places = Ids(places), device_kinds = Ids(kinds);
    const TypedArray output = Output(num_tokens, hidden_size);
    EmbedParams params, expected;
    params.num_tokens = expected.num_tokens = num_tokens;
    params.token_scale = expected.token_scale = 3.5f;
    params.token_ids = device_ids.device(), expected.token_ids = ids.data();
    params.positions = device_places.device(), expected.positions = places.data();
    params.type_ids = device_kinds.device(), expected.type_ids = kinds.data();
    params.token_table = tokens.device(), expected.token_table = tokens.host_tensor();
    params.position_table = positions.device(), expected.position_table = positions.host_tensor();
    params.type_table = types.device(), expected.type_table = types.host_tensor();
    params.output = output.device(), expected.output = output.host_tensor();
    backend().Embed(params);
    ExpectClose(output, reference::Embed(expected));
  }
}

TEST_P(HalfOpTest, PoolsEveryWay) {
  const int hidden_size = 200;
  const TypedArray hidden = Random(60, hidden_size);
  const std::vector<int32_t> offsets = {0, 1, 34, 60};
  const IndexArray device_offsets = Ids(offsets);
  for (Pooling pooling :
       {Pooling::kMean, Pooling::kCls, Pooling::kLast, Pooling::kMax, Pooling::kMeanSqrtLength}) {
    for (bool normalize : {false, true}) {
      const TypedArray output = Output(3, hidden_size, DType::kFloat32);
      PoolParams params, expected;
      params.pooling = expected.pooling = pooling;
      params.normalize = expected.normalize = normalize;
      params.num_sequences = expected.num_sequences = 3;
      params.hidden = hidden.device(), expected.hidden = hidden.host_tensor();
      params.offsets = device_offsets.device(), expected.offsets = offsets.data();
      params.output = output.device(), expected.output = output.host_tensor();
      backend().Pool(params);
      ExpectClose(output, reference::Pool(expected), Tolerance(DType::kFloat32));
    }
  }
}

TEST_P(HalfOpTest, ProjectsHeadsIntoTheCache) {
  const int num_tokens = 21, hidden_size = 128, num_heads = 6, num_kv_heads = 2, head_dim = 64;
  const int block_size = 16, num_blocks = 5;
  const int width = (num_heads + 2 * num_kv_heads) * head_dim;
  const Weight weight = RandomWeight(width, hidden_size);
  const TypedArray x = Random(num_tokens, hidden_size), bias = Random(1, width);
  const TypedArray query = Output(num_tokens, num_heads * head_dim);
  const TypedArray workspace = Output(num_tokens, width);
  const TypedArray keys = Output(num_blocks * num_kv_heads * block_size, head_dim);
  const TypedArray values = Output(num_blocks * num_kv_heads * block_size, head_dim);
  std::vector<int32_t> slots(num_blocks * block_size);
  std::iota(slots.begin(), slots.end(), 0);
  std::shuffle(slots.begin(), slots.end(), random_);
  slots.resize(num_tokens);
  std::vector<int32_t> positions(num_tokens);
  for (int32_t& position : positions) position = RandomInt(0, 99);
  std::vector<float> angles(100 * head_dim);
  for (int p = 0; p < 100; ++p) {
    for (int i = 0; i < head_dim / 2; ++i) {
      const double angle = p * std::pow(10000.0, -2.0 * i / head_dim);
      angles[p * head_dim + i] = static_cast<float>(std::cos(angle));
      angles[p * head_dim + head_dim / 2 + i] = static_cast<float>(std::sin(angle));
    }
  }
  const TypedArray cos_sin(backend(), DType::kFloat32, 100, head_dim, angles);
  const IndexArray device_slots = Ids(slots), device_positions = Ids(positions);
  for (bool interleaved : {false, true}) {
    Rotary rotary = {cos_sin.device(), interleaved},
           host_rotary = {cos_sin.host_tensor(), interleaved};
    KvLayer cache = {
        Tensor(keys.device().data, dtype(), {num_blocks, num_kv_heads, block_size, head_dim}),
        Tensor(values.device().data, dtype(), {num_blocks, num_kv_heads, block_size, head_dim})};
    ProjectHeadsParams params;
    params.weight = weight.packed.get();
    params.num_heads = num_heads, params.num_kv_heads = num_kv_heads, params.head_dim = head_dim;
    params.query_scale = 0.125f;
    ProjectHeadsParams expected = params;
    params.x = x.device(), expected.x = x.host_tensor();
    params.bias = bias.device_vector(), expected.bias = bias.host_vector();
    params.positions = device_positions.device(), expected.positions = positions.data();
    params.rotary = &rotary, expected.rotary = &host_rotary;
    params.query = query.device();
    params.workspace = workspace.device();
    params.cache = &cache;
    params.slots = device_slots.device();
    backend().ProjectHeads(params);
    const reference::HeadsResult result = reference::ProjectHeads(expected, weight.values);
    // The product is rounded before the rotation.
    ExpectClose(query, result.query, 2 * Tolerance(dtype()));
    for (const auto& [array, matrix] : {std::pair(&keys, &result.key), {&values, &result.value}}) {
      const std::vector<float> stored = array->Read();
      double error = 0, norm = 0;
      for (int t = 0; t < num_tokens; ++t) {
        for (int c = 0; c < num_kv_heads * head_dim; ++c) {
          const int row = (slots[t] / block_size * num_kv_heads + c / head_dim) * block_size +
                          slots[t] % block_size;
          const double difference = stored[row * head_dim + c % head_dim] - matrix->at(t, c);
          error += difference * difference;
          norm += matrix->at(t, c) * matrix->at(t, c);
        }
      }
      EXPECT_LE(std::sqrt(error / norm), 2 * Tolerance(dtype()));
    }
  }
}

}  // namespace
}  // namespace beamline

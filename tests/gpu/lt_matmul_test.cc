// cuBLASLt's products and epilogues against float64.
#include "kernels/cuda/epilogues/lt_matmul.h"

#include <algorithm>
#include <filesystem>
#include <fstream>

#include "tests/gpu/cuda_fixture.h"
#include "tests/gpu/lt_case.h"

namespace beamline::lt_matmul_test {
namespace {

class LtMatMulTest : public CudaTypedTest {};
INSTANTIATE_TEST_SUITE_P(Types, LtMatMulTest,
                         testing::Values(DType::kFloat32, DType::kFloat16, DType::kBFloat16),
                         DTypeName);

TEST_P(LtMatMulTest, EveryEpilogueAtOddShapes) {
  for (const Shape& shape : {Shape{1, 8, 8}, Shape{7, 13, 5}, Shape{33, 40, 24}, Shape{65, 50, 33},
                             Shape{130, 96, 72}, Shape{257, 129, 200}, Shape{64, 1, 40}}) {
    for (int e = 0; e < cuda::kNumLtEpilogues; ++e) {
      for (int transposes = 0; transposes < 4; ++transposes) {
        Case c(backend(), dtype(), shape, static_cast<LtEpilogue>(e), transposes, random());
        SCOPED_TRACE(testing::Message() << shape.m << " x " << shape.n << " x " << shape.k << " "
                                        << Name(c.epilogue) << " transposes " << transposes);
        if ((c.epilogue == LtEpilogue::kBgradA && (transposes & 1) == 0) ||
            (c.epilogue == LtEpilogue::kBgradB && (transposes & 2) != 0)) {
          EXPECT_EQ(products().Run(c.product).code(), absl::StatusCode::kInvalidArgument);
          continue;
        }
        device().BeginOperator();
        const absl::Status status = products().Run(c.product);
        ASSERT_TRUE(status.ok()) << status;
        c.ExpectResults(backend());
      }
    }
  }
}

// Rows packed at odd widths: nothing is 16-byte aligned.
TEST_P(LtMatMulTest, UnalignedOperands) {
  for (const LtEpilogue epilogue :
       {LtEpilogue::kNone, LtEpilogue::kBias, LtEpilogue::kReluBias, LtEpilogue::kGeluBias}) {
    const Shape s = {19, 27, 31};
    SCOPED_TRACE(Name(epilogue));
    const StridedMatrix a = RandomMatrix(dtype(), s.m, s.k, s.k);
    const StridedMatrix b = RandomMatrix(dtype(), s.k, s.n, s.n);
    const StridedMatrix d = Poisoned(dtype(), s.m, s.n, s.n);
    const TypedArray bias = TypedArray::Random(backend(), dtype(), 1, s.n, 1.0f, random());
    LtProduct product = {.a = a.tensor(), .b = b.tensor(), .d = d.tensor(), .epilogue = epilogue};
    if (ReadsBias(epilogue)) product.bias = bias.device_vector();
    const absl::Status status = products().Run(product);
    ASSERT_TRUE(status.ok()) << status;
    reference::Matrix expected(s.m, s.n);
    for (int64_t i = 0; i < s.m; ++i) {
      for (int64_t j = 0; j < s.n; ++j) {
        double sum = ReadsBias(epilogue) ? bias.host()[j] : 0.0;
        for (int64_t k = 0; k < s.k; ++k) sum += a.at(i, k) * b.at(k, j);
        expected.at(i, j) = epilogue == LtEpilogue::kReluBias   ? std::max(sum, 0.0)
                            : epilogue == LtEpilogue::kGeluBias ? Gelu(sum)
                                                                : sum;
      }
    }
    EXPECT_LE(d.RelativeError(expected), Tolerance(dtype(), epilogue));
  }
}

// alpha, and c in place: what measuring must not add twice.
TEST_P(LtMatMulTest, AddsToItsOutput) {
  const Shape s = {37, 48, 40};
  for (const bool in_place : {false, true}) {
    const StridedMatrix a = RandomMatrix(dtype(), s.m, s.k, s.k);
    const StridedMatrix b = RandomMatrix(dtype(), s.k, s.n, s.n);
    const StridedMatrix c = RandomMatrix(dtype(), s.m, s.n, s.n);
    const StridedMatrix d = Poisoned(dtype(), s.m, s.n, s.n);
    const StridedMatrix& result = in_place ? c : d;
    ASSERT_TRUE(products()
                    .Run({.a = a.tensor(),
                          .b = b.tensor(),
                          .c = c.tensor(),
                          .d = result.tensor(),
                          .alpha = -0.5f})
                    .ok());
    reference::Matrix expected(s.m, s.n);
    for (int64_t i = 0; i < s.m; ++i) {
      for (int64_t j = 0; j < s.n; ++j) {
        expected.at(i, j) = c.at(i, j);
        for (int64_t k = 0; k < s.k; ++k) expected.at(i, j) -= 0.5 * a.at(i, k) * b.at(k, j);
      }
    }
    EXPECT_LE(result.RelativeError(expected), Tolerance(dtype()));
  }
}

// c comes before the bias and the activation.
TEST_P(LtMatMulTest, AddsBeforeTheEpilogue) {
  const Shape s = {37, 48, 40};
  for (const LtEpilogue epilogue :
       {LtEpilogue::kBias, LtEpilogue::kReluBias, LtEpilogue::kGeluBias, LtEpilogue::kRelu}) {
    SCOPED_TRACE(Name(epilogue));
    const StridedMatrix a = RandomMatrix(dtype(), s.m, s.k, s.k, 0.2f);
    const StridedMatrix b = RandomMatrix(dtype(), s.k, s.n, s.n);
    const StridedMatrix c = RandomMatrix(dtype(), s.m, s.n, s.n);
    const StridedMatrix d = Poisoned(dtype(), s.m, s.n, s.n);
    const TypedArray bias = TypedArray::Random(backend(), dtype(), 1, s.n, 1.0f, random());
    LtProduct product = {.a = a.tensor(), .b = b.tensor(), .c = c.tensor(), .d = d.tensor()};
    product.epilogue = epilogue;
    if (ReadsBias(epilogue)) product.bias = bias.device_vector();
    const absl::Status status = products().Run(product);
    ASSERT_TRUE(status.ok()) << status;
    reference::Matrix expected(s.m, s.n);
    for (int64_t i = 0; i < s.m; ++i) {
      for (int64_t j = 0; j < s.n; ++j) {
        double sum = c.at(i, j) + (ReadsBias(epilogue) ? bias.host()[j] : 0.0);
        for (int64_t k = 0; k < s.k; ++k) sum += a.at(i, k) * b.at(k, j);
        expected.at(i, j) = epilogue == LtEpilogue::kBias       ? sum
                            : epilogue == LtEpilogue::kGeluBias ? Gelu(sum)
                                                                : std::max(sum, 0.0);
      }
    }
    EXPECT_LE(d.RelativeError(expected), Tolerance(dtype(), epilogue));
  }
}

TEST_P(LtMatMulTest, StridedBatch) {
  constexpr int64_t kBatch = 5;
  const Shape s = {21, 24, 40};
  for (const bool shared_b : {false, true}) {
    for (const LtEpilogue epilogue : {LtEpilogue::kNone, LtEpilogue::kBias, LtEpilogue::kGelu}) {
      SCOPED_TRACE(Name(epilogue));
      const StridedMatrix a = RandomMatrix(dtype(), kBatch * s.m, s.k, s.k);
      const StridedMatrix b = RandomMatrix(dtype(), (shared_b ? 1 : kBatch) * s.k, s.n, s.n);
      const StridedMatrix d = Poisoned(dtype(), kBatch * s.m, s.n, s.n);
      const TypedArray bias = TypedArray::Random(backend(), dtype(), kBatch, s.n, 1.0f, random());
      LtProduct product;
      product.a = Tensor(a.tensor().data, dtype(), {kBatch, s.m, s.k});
      product.b = shared_b ? b.tensor() : Tensor(b.tensor().data, dtype(), {kBatch, s.k, s.n});
      product.d = Tensor(d.tensor().data, dtype(), {kBatch, s.m, s.n});
      product.epilogue = epilogue;
      if (ReadsBias(epilogue)) product.bias = bias.device();
      const absl::Status status = products().Run(product);
      ASSERT_TRUE(status.ok()) << status;
      reference::Matrix expected(kBatch * s.m, s.n);
      for (int64_t i = 0; i < kBatch * s.m; ++i) {
        const int64_t batch = i / s.m;
        for (int64_t j = 0; j < s.n; ++j) {
          double sum = ReadsBias(epilogue) ? bias.host()[batch * s.n + j] : 0.0;
          for (int64_t k = 0; k < s.k; ++k) {
            sum += a.at(i, k) * b.at(shared_b ? k : batch * s.k + k, j);
          }
          expected.at(i, j) = epilogue == LtEpilogue::kGelu ? Gelu(sum) : sum;
        }
      }
      EXPECT_LE(d.RelativeError(expected), Tolerance(dtype(), epilogue));
    }
  }
}

TEST_P(LtMatMulTest, GroupOfUnequalProducts) {
  std::vector<std::unique_ptr<Case>> cases;
  std::vector<LtProduct> group;
  for (int i = 0; i < 11; ++i) {
    std::uniform_int_distribution<int64_t> size(1, 20);
    const Shape shape = {size(random()) * 9, size(random()) * 8, size(random()) * 8};
    const auto epilogue = static_cast<LtEpilogue>(i % 6);
    cases.push_back(std::make_unique<Case>(backend(), dtype(), shape, epilogue, i % 4, random()));
    group.push_back(cases.back()->product);
  }
  for (int repeat = 0; repeat < 2; ++repeat) {  // the second time nothing is measured
    for (const auto& c : cases) c->d.Upload();
    const absl::Status status = products().RunGroup(group);
    ASSERT_TRUE(status.ok()) << status;
    for (const auto& c : cases) c->ExpectResults(backend());
  }
  ASSERT_TRUE(products().RunGroup({}).ok());
  group[3].bias = Tensor();
  const absl::Status status = products().RunGroup(group);
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_NE(std::string(status.message()).find("product 3: bias"), std::string::npos) << status;
}

class LtTest : public CudaTest {
 protected:
  void TearDown() override {
    if (!folder_.empty()) std::filesystem::remove_all(folder_);
    CudaTest::TearDown();
  }
  std::string FileInNewFolder() {
    char name[] = "/tmp/beamline-lt-XXXXXX";
    folder_ = mkdtemp(name);
    return folder_ + "/algorithms";
  }
  std::unique_ptr<cuda::LtMatMul> Open(const std::string& file) {
    auto lt = cuda::LtMatMul::Create(device(), file);
    BEAMLINE_CHECK(lt.ok());
    (*lt)->set_gradients(cuda::Gradients());
    return *std::move(lt);
  }

 private:
  std::string folder_;
};

TEST_F(LtTest, TensorFloatOnRequestOnly) {
  const Shape s = {96, 64, 256};
  const StridedMatrix a = RandomMatrix(DType::kFloat32, s.m, s.k, s.k);
  const StridedMatrix b = RandomMatrix(DType::kFloat32, s.k, s.n, s.n);
  reference::Matrix expected(s.m, s.n);
  for (int64_t i = 0; i < s.m; ++i) {
    for (int64_t j = 0; j < s.n; ++j) {
      for (int64_t k = 0; k < s.k; ++k) expected.at(i, j) += a.at(i, k) * b.at(k, j);
    }
  }
  double errors[2];
  for (const bool tf32 : {false, true}) {
    const StridedMatrix d = Poisoned(DType::kFloat32, s.m, s.n, s.n);
    ASSERT_TRUE(
        products().Run({.a = a.tensor(), .b = b.tensor(), .d = d.tensor(), .tf32 = tf32}).ok());
    errors[tf32 ? 1 : 0] = d.RelativeError(expected);
  }
  EXPECT_LE(errors[0], Tolerance(DType::kFloat32));
  EXPECT_LE(errors[1], 2e-3);
  EXPECT_GE(errors[1], 2e-5);  // it was used
}

// The 127 magnitudes of e4m3 in order, code by code; 0x7f is NaN.
double Fp8Value(uint8_t code) {
  const int exponent = (code >> 3) & 15, mantissa = code & 7;
  const double size =
      exponent == 0 ? std::ldexp(mantissa, -9) : std::ldexp(8 + mantissa, exponent - 10);
  return (code & 0x80) != 0 ? -size : size;
}

class Fp8Matrix {
 public:
  Fp8Matrix(Backend& backend, int64_t rows, int64_t cols, std::mt19937& random)
      : rows_(rows), cols_(cols), codes_(rows * cols) {
    for (uint8_t& code : codes_) {
      do code = static_cast<uint8_t>(random());
      while ((code & 0x7f) > 0x58);  // up to 16
    }
    auto buffer = backend.Allocate(codes_.size());
    BEAMLINE_CHECK(buffer.ok());
    buffer_ = *std::move(buffer);
    backend.CopyToDevice(codes_.data(), buffer_->data(), codes_.size());
  }
  Tensor tensor() const { return {buffer_->data(), DType::kFloat8E4M3, {rows_, cols_}}; }
  double at(int64_t r, int64_t c) const { return Fp8Value(codes_[r * cols_ + c]); }
  // Full of NaN.
  void Poison(Backend& backend) {
    std::fill(codes_.begin(), codes_.end(), uint8_t{0x7f});
    backend.CopyToDevice(codes_.data(), buffer_->data(), codes_.size());
  }
  void Read(Backend& backend) {
    BEAMLINE_CHECK(backend.CopyToHost(buffer_->data(), codes_.data(), codes_.size()).ok());
  }

 private:
  int64_t rows_, cols_;
  std::vector<uint8_t> codes_;
  std::unique_ptr<Buffer> buffer_;
};

TEST_F(LtTest, Float8WithScales) {
  const Shape s = {40, 64, 96};
  const Fp8Matrix a(backend(), s.m, s.k, random()), b(backend(), s.n, s.k, random());
  // Each 16 bytes apart.
  const TypedArray scales(backend(), DType::kFloat32, 1, 9,
                          {0.25f, 0, 0, 0, 0.125f, 0, 0, 0, 0.5f});
  const auto* scale = static_cast<const float*>(scales.device().data);
  const TypedArray bias = TypedArray::Random(backend(), DType::kBFloat16, 1, s.n, 4.0f, random());
  reference::Matrix expected(s.m, s.n);
  for (int64_t i = 0; i < s.m; ++i) {
    for (int64_t j = 0; j < s.n; ++j) {
      for (int64_t k = 0; k < s.k; ++k) expected.at(i, j) += a.at(i, k) * b.at(j, k) / 32;
    }
  }
  LtProduct product = {.a = a.tensor(), .b = b.tensor(), .transpose_b = true};
  product.a_scale = scale;
  product.b_scale = scale + 4;
  if (device().properties().major * 10 + device().properties().minor < 89) {
    const StridedMatrix d = Poisoned(DType::kFloat32, s.m, s.n, s.n);
    product.d = d.tensor();
    EXPECT_FALSE(products().Run(product).ok());  // no GPU older than 8.9 has float8
    return;
  }
  for (const DType dtype : {DType::kFloat32, DType::kFloat16, DType::kBFloat16}) {
    SCOPED_TRACE(Name(dtype));
    const StridedMatrix d = Poisoned(dtype, s.m, s.n, s.n);
    product.d = d.tensor();
    const absl::Status status = products().Run(product);
    ASSERT_TRUE(status.ok()) << status;
    // Hopper adds float8's products in fewer bits than float32's.
    EXPECT_LE(d.RelativeError(expected), std::max(2e-3, Tolerance(dtype)));
  }
  const StridedMatrix biased = Poisoned(DType::kBFloat16, s.m, s.n, s.n);
  LtProduct with_bias = product;
  with_bias.d = biased.tensor();
  with_bias.epilogue = LtEpilogue::kBias;
  with_bias.bias = bias.device_vector();
  EXPECT_TRUE(products().Run(with_bias).ok());
  Fp8Matrix narrow(backend(), s.m, s.n, random());
  narrow.Poison(backend());
  product.d = narrow.tensor();
  product.d_scale = scale + 8;
  const absl::Status status = products().Run(product);
  ASSERT_TRUE(status.ok()) << status;
  narrow.Read(backend());
  for (int64_t i = 0; i < s.m; ++i) {
    for (int64_t j = 0; j < s.n; ++j) {
      const double scaled = std::clamp(expected.at(i, j) * 0.5, -448.0, 448.0);
      // Half a unit of three bits of mantissa, and the sum's own error.
      ASSERT_LE(std::abs(narrow.at(i, j) - scaled), std::abs(scaled) * 0.07 + 0.1) << i << " " << j;
      expected.at(i, j) += bias.host()[j];
    }
  }
  EXPECT_LE(biased.RelativeError(expected), Tolerance(DType::kBFloat16));
}

TEST_F(LtTest, ChoicesOutliveTheProcessInAFile) {
  const std::string file = FileInNewFolder();
  std::vector<std::unique_ptr<Case>> cases;
  for (const LtEpilogue epilogue : {LtEpilogue::kNone, LtEpilogue::kReluBias, LtEpilogue::kGelu}) {
    cases.push_back(std::make_unique<Case>(backend(), DType::kBFloat16, Shape{48, 64, 32}, epilogue,
                                           2, random()));
  }
  {
    const auto first = Open(file);
    for (const auto& c : cases) ASSERT_TRUE(first->Run(c->product).ok());
    for (const auto& c : cases) ASSERT_TRUE(first->Run(c->product).ok());
    EXPECT_EQ(first->num_measured(), 3);
    EXPECT_EQ(first->num_recalled(), 0);
  }
  const auto second = Open(file);
  EXPECT_EQ(second->num_recalled(), 0);  // nothing is prepared before it is asked for
  for (size_t i = 0; i < 2; ++i) {
    ASSERT_TRUE(second->Run(cases[i]->product).ok());
    cases[i]->ExpectResults(backend());
  }
  EXPECT_EQ(second->num_recalled(), 2);
  EXPECT_EQ(second->num_measured(), 0);
}

// A well-formed file whose algorithm is none of cuBLASLt's.
TEST_F(LtTest, AnAlgorithmThatDoesNotFitIsMeasuredAnew) {
  const std::string file = FileInNewFolder();
  Case c(backend(), DType::kFloat16, {48, 64, 32}, LtEpilogue::kBias, 0, random());
  {
    const auto lt = Open(file);
    ASSERT_TRUE(lt->Run(c.product).ok());
  }
  // The version stands in the file; take it from there.
  std::ifstream stream(file);
  std::string line;
  std::getline(stream, line);
  std::getline(stream, line, '\t');
  std::getline(stream, line, '\t');
  cuda::AlgorithmFile forged(file, device().properties().name, std::stoull(line));
  ASSERT_TRUE(forged.Load().ok());
  cuda::AlgorithmBits bits;
  for (uint64_t& word : bits) word = 0x0123456789abcdefu;
  ASSERT_TRUE(forged.Add(cuda::KeyOf(c.product), bits).ok());
  const auto lt = Open(file);
  ASSERT_TRUE(lt->Run(c.product).ok());
  c.ExpectResults(backend());
  EXPECT_EQ(lt->num_recalled(), 0);
  EXPECT_EQ(lt->num_measured(), 1);
}

TEST_F(LtTest, UnusableFilesAreIgnored) {
  const std::string file = FileInNewFolder();
  const std::string letter = "Dear reader,\nthis is no list of algorithms.\n";
  std::ofstream(file) << letter;
  Case c(backend(), DType::kFloat16, {48, 64, 32}, LtEpilogue::kBias, 0, random());
  const auto lt = Open(file);
  ASSERT_TRUE(lt->Run(c.product).ok());
  c.ExpectResults(backend());
  EXPECT_EQ(lt->num_measured(), 1);
  std::ifstream stream(file);
  EXPECT_EQ(std::string(std::istreambuf_iterator<char>(stream), {}), letter);
}

TEST_F(LtTest, RefusalsNameTheField) {
  Case c(backend(), DType::kFloat16, {16, 32, 8}, LtEpilogue::kDReluBgrad, 0, random());
  c.product.aux = Tensor();
  const absl::Status status = products().Run(c.product);
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_TRUE(std::string(status.message()).starts_with("aux is ")) << status;
}

}  // namespace
}  // namespace beamline::lt_matmul_test

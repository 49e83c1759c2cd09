// Gradients of biases: the passes over a matrix by themselves, cuBLASLt's epilogues, and the check
// that keeps those of its algorithms out that sum wrongly.
#include <bit>
#include <cmath>
#include <cstdio>
#include <memory>
#include <string>
#include <vector>

#include "kernels/cuda/epilogues/backward_epilogue.h"
#include "kernels/cuda/epilogues/column_sums.h"
#include "kernels/cuda/epilogues/lt_call.h"
#include "kernels/cuda/epilogues/lt_matmul.h"
#include "kernels/cuda/epilogues/lt_measure.h"
#include "kernels/cuda/epilogues/lt_trial.h"
#include "tests/gpu/cuda_fixture.h"
#include "tests/gpu/lt_case.h"

namespace beamline::lt_sums_test {
namespace {

constexpr LtEpilogue kSumEpilogues[] = {LtEpilogue::kDReluBgrad, LtEpilogue::kDGeluBgrad,
                                        LtEpilogue::kBgradA, LtEpilogue::kBgradB};

bool Exists(LtEpilogue epilogue, int transposes) {
  return !(epilogue == LtEpilogue::kBgradA && (transposes & 1) == 0) &&
         !(epilogue == LtEpilogue::kBgradB && (transposes & 2) != 0);
}

LtProduct Plain(LtProduct product) {
  product.epilogue = LtEpilogue::kNone;
  product.bias = product.aux = Tensor();
  return product;
}

std::string Name(const Case& c, int transposes) {
  return std::to_string(c.shape.m) + " x " + std::to_string(c.shape.n) + " x " +
         std::to_string(c.shape.k) + " " + Name(c.epilogue) + " transposes " +
         std::to_string(transposes) + (c.layout.padding > 0 ? " padded" : "");
}

class LtSumsTest : public CudaTypedTest {
 protected:
  // What it should be, computed as LtMatMul would where cuBLASLt has no sums.
  void RunSplit(const LtProduct& product) {
    device().BeginOperator();
    const absl::Status status = products().Run(Plain(product));
    ASSERT_TRUE(status.ok()) << status;
    cuda::BackwardEpilogue(device(), product, device().stream());
  }
  // Whether a trial of `c` agrees after its results were spoilt.
  template <typename Spoil>
  bool AgreesAfter(const Case& c, Spoil spoil) {
    auto trial = cuda::LtTrial::Create(device(), c.product);
    BEAMLINE_CHECK(trial.ok());
    RunSplit((*trial)->reference());
    (*trial)->Reset();
    RunSplit((*trial)->product());
    spoil((*trial)->product());
    return (*trial)->Agrees();
  }
  // Adds to one element on the device.
  void Add(const Tensor& tensor, int64_t at, float value) {
    const size_t size = SizeOf(tensor.dtype);
    void* const element = static_cast<char*>(tensor.data) + at * static_cast<int64_t>(size);
    uint32_t bits = 0;
    device().CopyToHost(element, &bits, size);
    const auto narrow = static_cast<uint16_t>(bits);
    if (tensor.dtype == DType::kFloat32) {
      bits = std::bit_cast<uint32_t>(std::bit_cast<float>(bits) + value);
    } else if (tensor.dtype == DType::kFloat16) {
      bits = ToFloat16Bits(FromFloat16Bits(narrow) + value);
    } else {
      bits = ToBFloat16Bits(FromBFloat16Bits(narrow) + value);
    }
    device().CopyToDevice(&bits, element, size);
  }
};
INSTANTIATE_TEST_SUITE_P(Types, LtSumsTest,
                         testing::Values(DType::kFloat32, DType::kFloat16, DType::kBFloat16),
                         DTypeName);

// At every width of the thread grid, with and without 16-byte accesses, in one block and in many.
TEST_P(LtSumsTest, ColumnSumsAgainstFloat64) {
  struct Matrix {
    int64_t rows, cols, stride;
  };
  for (const Matrix& s :
       {Matrix{1, 1, 1}, Matrix{40, 64, 64}, Matrix{5, 13, 13}, Matrix{1000, 1, 1},
        Matrix{3000, 1, 7}, Matrix{70000, 3, 3}, Matrix{777, 33, 40}, Matrix{1, 520, 520},
        Matrix{513, 2048, 2056}, Matrix{257, 129, 129}, Matrix{20000, 8, 16}}) {
    SCOPED_TRACE(testing::Message() << s.rows << " x " << s.cols << ", stride " << s.stride);
    const StridedMatrix x = RandomMatrix(dtype(), s.rows, s.cols, s.stride);
    for (const DType sum_type : {dtype(), DType::kFloat32}) {
      const TypedArray sums = TypedArray::Poisoned(backend(), sum_type, 1, s.cols);
      const TypedArray again = TypedArray::Poisoned(backend(), sum_type, 1, s.cols);
      for (const TypedArray* to : {&sums, &again}) {
        device().BeginOperator();
        cuda::ColumnSums(device(), x.tensor(), to->device_vector(), device().stream());
      }
      ASSERT_TRUE(device().Synchronize().ok()) << device().status();
      const std::vector<float> actual = sums.Read();
      EXPECT_EQ(actual, again.Read());  // the same bits; a NaN fails here
      const double rounding = sum_type == DType::kFloat32   ? 1e-7
                              : sum_type == DType::kFloat16 ? 5e-4
                                                            : 4e-3;
      for (int64_t c = 0; c < s.cols; ++c) {
        double sum = 0, size = 0;
        for (int64_t r = 0; r < s.rows; ++r) {
          sum += x.at(r, c);
          size += std::abs(x.at(r, c));
        }
        ASSERT_LE(std::abs(actual[c] - sum), rounding * std::abs(sum) + 1e-6 * size) << c;
      }
    }
  }
}

// Over a product that float64 computed, at sizes of several blocks.
TEST_P(LtSumsTest, GradientsInAPassOfTheirOwn) {
  for (const Shape& shape : {Shape{700, 520, 8}, Shape{1, 8, 8}, Shape{333, 301, 8},
                             Shape{64, 1, 40}, Shape{9, 17, 1}}) {
    for (const LtEpilogue epilogue :
         {LtEpilogue::kDRelu, LtEpilogue::kDReluBgrad, LtEpilogue::kDGelu, LtEpilogue::kDGeluBgrad,
          LtEpilogue::kBgradA, LtEpilogue::kBgradB}) {
      const int transposes = epilogue == LtEpilogue::kBgradA ? 1 : 0;
      Case c(backend(), dtype(), shape, epilogue, transposes, random());
      SCOPED_TRACE(Name(c, transposes));
      const reference::Matrix inner = c.Inner(false);
      const int64_t stride = c.d.stride();
      std::vector<float> values(shape.m * stride, NAN);
      for (int64_t i = 0; i < shape.m; ++i) {
        for (int64_t j = 0; j < shape.n; ++j) {
          values[i * stride + j] = static_cast<float>(inner.at(i, j));
        }
      }
      const StridedMatrix filled(backend(), dtype(), shape.m, shape.n, stride, values);
      device().BeginOperator();
      device().Check(
          cudaMemcpyAsync(c.product.d.data, filled.tensor().data, values.size() * SizeOf(dtype()),
                          cudaMemcpyDeviceToDevice, device().stream()),
          "copy");
      cuda::BackwardEpilogue(device(), c.product, device().stream());
      c.ExpectResults(backend());
    }
  }
}

// Whatever the measurement chose, on other numbers than the ones it was checked with.
TEST_P(LtSumsTest, EveryEpilogueThatSums) {
  for (const Shape& shape : {Shape{64, 1, 40}, Shape{1, 64, 40}, Shape{1, 1, 1}, Shape{33, 40, 1},
                             Shape{40, 33, 13}, Shape{9, 7, 100}, Shape{130, 96, 72}}) {
    for (const Layout& layout : {Layout{}, Layout{.padding = 8, .rows_past = 20}}) {
      for (const LtEpilogue epilogue : kSumEpilogues) {
        for (int transposes = 0; transposes < 4; ++transposes) {
          if (!Exists(epilogue, transposes)) continue;
          for (int seed = 0; seed < 3; ++seed) {
            Case c(backend(), dtype(), shape, epilogue, transposes, random(), layout);
            SCOPED_TRACE(Name(c, transposes));
            device().BeginOperator();
            const absl::Status status = products().Run(c.product);
            ASSERT_TRUE(status.ok()) << status;
            c.ExpectResults(backend());
          }
        }
      }
    }
  }
}

// Each of cuBLASLt's candidates, not only the fastest: those that pass the check are right on other
// numbers, with other memory around them.
TEST_P(LtSumsTest, CandidatesThatPassTheCheckSumRightly) {
  cublasLtContext* const handle = products().handle();
  const auto workspace =
      device().arena().Allocate(cuda::kLtWorkspaceBytes, cuda::ArenaUse::kWorkspace);
  ASSERT_TRUE(workspace.ok());
  const auto run = [&](const LtProduct& product, const cuda::AlgorithmBits& algorithm) {
    return cuda::LtCall(product).Launch(handle, product, &algorithm, *workspace,
                                        device().stream()) == CUBLAS_STATUS_SUCCESS;
  };
  int total = 0, total_dropped = 0;
  for (const Shape& shape : {Shape{64, 1, 40}, Shape{1, 64, 40}, Shape{33, 40, 24}, Shape{7, 13, 5},
                             Shape{65, 48, 40}, Shape{128, 256, 512}}) {
    for (const LtEpilogue epilogue : kSumEpilogues) {
      for (int transposes = 0; transposes < 4; ++transposes) {
        if (!Exists(epilogue, transposes)) continue;
        const Layout layout = {.rows_past = 20};
        const Case like(backend(), dtype(), shape, epilogue, transposes, random(), layout);
        SCOPED_TRACE(Name(like, transposes));
        auto trial = cuda::LtTrial::Create(device(), like.product);
        ASSERT_TRUE(trial.ok()) << trial.status();
        EXPECT_EQ(cuda::KeyOf((*trial)->product()), cuda::KeyOf(like.product));
        RunSplit((*trial)->reference());
        int candidates = 0, dropped = 0, wrong = 0;
        for (const cuda::AlgorithmBits& algorithm : cuda::Candidates(handle, (*trial)->product())) {
          (*trial)->Reset();
          if (!run((*trial)->product(), algorithm)) continue;
          ++candidates;
          const bool agrees = (*trial)->Agrees();
          Case c(backend(), dtype(), shape, epilogue, transposes, random(), layout);
          ASSERT_TRUE(run(c.product, algorithm));
          if (agrees) {
            c.ExpectResults(backend());
            continue;
          }
          ++dropped;
          const reference::Matrix inner = c.Inner(true);
          wrong += c.BiasGradientIsRight(inner, c.Outer(inner)) ? 0 : 1;
        }
        total += candidates;
        total_dropped += dropped;
        if (dropped == 0) continue;
        std::printf("%s %s: %d of %d candidates dropped; %d of them sum wrongly here too\n",
                    Name(dtype()), Name(like, transposes).c_str(), dropped, candidates, wrong);
      }
    }
  }
  std::printf("%s: %d of %d candidates dropped\n", Name(dtype()), total_dropped, total);
  EXPECT_GT(total - total_dropped, 0);  // a check that drops everything is none
  EXPECT_TRUE(device().Synchronize().ok());
  device().arena().Free(*workspace);
}

TEST_P(LtSumsTest, TheCheckSeesWhatIsWrong) {
  for (const LtEpilogue epilogue : kSumEpilogues) {
    const int transposes = epilogue == LtEpilogue::kBgradA ? 1 : 0;
    const Case c(backend(), dtype(), {33, 40, 24}, epilogue, transposes, random(), {.padding = 8});
    SCOPED_TRACE(Name(c, transposes));
    const bool of_operand = epilogue == LtEpilogue::kBgradA || epilogue == LtEpilogue::kBgradB;
    EXPECT_TRUE(AgreesAfter(c, [](const LtProduct&) {}));
    // One column of the sums, by less than an addend is on the average; one element of d.
    const int64_t last_sum = c.product.bias.dim(-1) - 1;
    EXPECT_FALSE(AgreesAfter(c, [&](const LtProduct& p) { Add(p.bias, last_sum, 0.4f); }));
    EXPECT_FALSE(AgreesAfter(c, [&](const LtProduct& p) { Add(p.bias, 0, NAN); }));
    EXPECT_FALSE(
        AgreesAfter(c, [&](const LtProduct& p) { Add(p.d, 32 * p.d.row_stride + 39, 0.4f); }));
    // Sums that reach one row too far, or stop one too early.
    for (const int64_t rows : {-1, 1}) {
      EXPECT_FALSE(AgreesAfter(c,
                               [&](const LtProduct& p) {
                                 Tensor addends = epilogue == LtEpilogue::kBgradA   ? p.a
                                                  : epilogue == LtEpilogue::kBgradB ? p.b
                                                                                    : p.d;
                                 addends.dims[0] += rows;
                                 cuda::ColumnSums(device(), addends, p.bias, device().stream());
                               }))
          << rows << (of_operand ? " rows of the operand" : " rows of d");
    }
    // An algorithm that writes nothing.
    auto trial = cuda::LtTrial::Create(device(), c.product);
    ASSERT_TRUE(trial.ok()) << trial.status();
    RunSplit((*trial)->reference());
    (*trial)->Reset();
    EXPECT_FALSE((*trial)->Agrees());
    RunSplit((*trial)->product());
    EXPECT_TRUE((*trial)->Agrees());
    (*trial)->Reset();
    EXPECT_FALSE((*trial)->Agrees());
  }
}

// c in place, which measuring must neither change nor add twice.
TEST_P(LtSumsTest, AddsToItsOutput) {
  for (const LtEpilogue epilogue : kSumEpilogues) {
    const int transposes = epilogue == LtEpilogue::kBgradA ? 1 : 0;
    Case c(backend(), dtype(), {37, 48, 24}, epilogue, transposes, random());
    SCOPED_TRACE(Name(c, transposes));
    const StridedMatrix addend = RandomMatrix(dtype(), 37, 48, c.d.stride());
    ASSERT_EQ(c.d.stride(), 48);
    device().Check(
        cudaMemcpyAsync(c.product.d.data, addend.tensor().data, 37 * 48 * SizeOf(dtype()),
                        cudaMemcpyDeviceToDevice, device().stream()),
        "copy");
    c.c_values = &addend;
    c.product.c = c.product.d;
    device().BeginOperator();
    const absl::Status status = products().Run(c.product);
    ASSERT_TRUE(status.ok()) << status;
    c.ExpectResults(backend());
  }
}

// As the server's products are, whose module has no kernels for sums.
TEST_P(LtSumsTest, SumsNeedGradients) {
  auto lt = cuda::LtMatMul::Create(device());
  ASSERT_TRUE(lt.ok()) << lt.status();
  for (const LtEpilogue epilogue : kSumEpilogues) {
    const int transposes = epilogue == LtEpilogue::kBgradA ? 1 : 0;
    Case c(backend(), dtype(), {37, 48, 24}, epilogue, transposes, random());
    const absl::Status status = (*lt)->Run(c.product);
    EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
    EXPECT_EQ(status.message(), std::string("epilogue ") + cuda::Name(epilogue) +
                                    " writes sums, which needs LtMatMul::set_gradients");
    EXPECT_EQ((*lt)->RunGroup({&c.product, 1}).code(), absl::StatusCode::kFailedPrecondition);
  }
  EXPECT_TRUE(device().ok());
}

// Side by side on several streams, the first time after measuring all of them.
TEST_P(LtSumsTest, GroupOfProductsThatSum) {
  std::vector<std::unique_ptr<Case>> cases;
  std::vector<LtProduct> group;
  for (const int64_t m : {17, 96}) {
    for (const LtEpilogue epilogue : kSumEpilogues) {
      const int transposes = epilogue == LtEpilogue::kBgradA ? 1 : 0;
      cases.push_back(std::make_unique<Case>(backend(), dtype(), Shape{m, 56, 43}, epilogue,
                                             transposes, random()));
      group.push_back(cases.back()->product);
    }
  }
  for (int repeat = 0; repeat < 2; ++repeat) {
    device().BeginOperator();
    const absl::Status status = products().RunGroup(group);
    ASSERT_TRUE(status.ok()) << status;
    for (const auto& c : cases) c->ExpectResults(backend());
  }
}

}  // namespace
}  // namespace beamline::lt_sums_test

// Trains a two-layer network on one GPU. Each step runs five matmuls, four of them with fused
// epilogues, and no other kernel:
//
//   h     = gelu(x W1 + b1)                    GELU's input is kept for the gradient
//   error = h W2 + b2 - target                 the target is the matmul's c
//   dz    = (error W2^T) * gelu'(...)          also computes the gradient of b1
//   W2   -= rate * h^T error                   W2 is both c and d; also the gradient of b2
//   W1   -= rate * x^T dz                      W1 is both c and d
//
// The first step is repeated in float64 on the host. Prints the losses. Exit status 1 if GPU and
// host disagree, if the loss does not fall, or without a GPU.
//
//   beamline-example-epilogues
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <functional>
#include <initializer_list>
#include <memory>
#include <random>
#include <span>
#include <string>
#include <vector>

#include "base/standard_streams.h"
#include "base/status.h"
#include "base/text.h"
#include "fmt/format.h"
#include "kernels/cuda/epilogues/epilogues.h"

namespace beamline {
namespace {

using cuda::LtEpilogue;

constexpr int64_t kBatch = 512, kInputs = 64, kHidden = 256, kOutputs = 16;
constexpr int kSteps = 200;
constexpr float kRate = 0.05f / kBatch;
constexpr double kTolerance =
    1e-3;  // relative to the largest number; covers float32 sums and cuBLASLt's tanh

std::vector<float> Normal(size_t count, float scale, std::mt19937& random) {
  std::normal_distribution<float> normal(0, scale);
  std::vector<float> values(count);
  for (float& value : values) value = normal(random);
  return values;
}

// Row-major matrices of the network.
struct Network {
  std::vector<float> w1, b1, w2, b2;
};

struct Data {
  std::vector<float> x, target;
};

// One step in float64. Returns the sum of squared errors before the step.
double StepOnHost(const Data& data, Network& net) {
  std::vector<double> dw1(net.w1.size()), db1(net.b1.size()), dw2(net.w2.size()),
      db2(net.b2.size());
  std::vector<double> h(kHidden), slope(kHidden), error(kOutputs);
  const double c = std::sqrt(2 / M_PI);
  double loss = 0;
  for (int64_t row = 0; row < kBatch; ++row) {
    const float* x = &data.x[row * kInputs];
    for (int64_t j = 0; j < kHidden; ++j) {
      double z = net.b1[j];
      for (int64_t i = 0; i < kInputs; ++i) z += double{x[i]} * net.w1[i * kHidden + j];
      const double t = std::tanh(c * (z + 0.044715 * z * z * z));
      h[j] = 0.5 * z * (1 + t);
      slope[j] = 0.5 * (1 + t) + 0.5 * z * (1 - t * t) * c * (1 + 3 * 0.044715 * z * z);
    }
    for (int64_t o = 0; o < kOutputs; ++o) {
      error[o] = double{net.b2[o]} - data.target[row * kOutputs + o];
      for (int64_t j = 0; j < kHidden; ++j) error[o] += h[j] * net.w2[j * kOutputs + o];
      loss += error[o] * error[o];
      db2[o] += error[o];
    }
    for (int64_t j = 0; j < kHidden; ++j) {
      double dh = 0;
      for (int64_t o = 0; o < kOutputs; ++o) {
        dh += error[o] * net.w2[j * kOutputs + o];
        dw2[j * kOutputs + o] += h[j] * error[o];
      }
      const double dz = dh * slope[j];
      db1[j] += dz;
      for (int64_t i = 0; i < kInputs; ++i) dw1[i * kHidden + j] += x[i] * dz;
    }
  }
  const auto update = [](std::vector<float>& weights, const std::vector<double>& gradient) {
    for (size_t i = 0; i < weights.size(); ++i) {
      weights[i] = static_cast<float>(weights[i] - double{kRate} * gradient[i]);
    }
  };
  update(net.w1, dw1);
  update(net.b1, db1);
  update(net.w2, dw2);
  update(net.b2, db2);
  return loss;
}

// The network in GPU memory, and the matmuls of a step.
class Trainer {
 public:
  static absl::StatusOr<std::unique_ptr<Trainer>> Create(const Data& data, const Network& net) {
    auto trainer = std::make_unique<Trainer>();
    BEAMLINE_ASSIGN_OR_RETURN(trainer->device_, cuda::Device::Create(0, {}));
    BEAMLINE_ASSIGN_OR_RETURN(trainer->products_, cuda::LtMatMul::Create(*trainer->device_));
    trainer->products_->set_gradients(cuda::Gradients());
    BEAMLINE_RETURN_IF_ERROR(trainer->Place(data, net));
    return trainer;
  }

  // Returns the sum of squared errors before the step.
  absl::StatusOr<double> Step() {
    BEAMLINE_RETURN_IF_ERROR(Run({.a = x_,
                                  .b = w1_,
                                  .d = h_,
                                  .epilogue = LtEpilogue::kGeluAuxBias,
                                  .bias = b1_,
                                  .aux = z_}));
    BEAMLINE_RETURN_IF_ERROR(Run({.a = h_,
                                  .b = w2_,
                                  .c = minus_target_,
                                  .d = error_,
                                  .epilogue = LtEpilogue::kBias,
                                  .bias = b2_}));
    BEAMLINE_RETURN_IF_ERROR(Run({.a = error_,
                                  .b = w2_,
                                  .d = dz_,
                                  .transpose_b = true,
                                  .epilogue = LtEpilogue::kDGeluBgrad,
                                  .bias = db1_,
                                  .aux = z_}));
    BEAMLINE_RETURN_IF_ERROR(Run({.a = h_,
                                  .b = error_,
                                  .c = w2_,
                                  .d = w2_,
                                  .transpose_a = true,
                                  .alpha = -kRate,
                                  .epilogue = LtEpilogue::kBgradB,
                                  .bias = db2_}));
    BEAMLINE_RETURN_IF_ERROR(
        Run({.a = x_, .b = dz_, .c = w1_, .d = w1_, .transpose_a = true, .alpha = -kRate}));
    BEAMLINE_RETURN_IF_ERROR(UpdateBias(db1_, b1_));
    BEAMLINE_RETURN_IF_ERROR(UpdateBias(db2_, b2_));
    double loss = 0;
    BEAMLINE_ASSIGN_OR_RETURN(const std::vector<float> errors, Read(error_));
    for (const float error : errors) loss += double{error} * error;
    return loss;
  }

  absl::StatusOr<Network> ReadNetwork() {
    Network net;
    BEAMLINE_ASSIGN_OR_RETURN(net.w1, Read(w1_));
    BEAMLINE_ASSIGN_OR_RETURN(net.b1, Read(b1_));
    BEAMLINE_ASSIGN_OR_RETURN(net.w2, Read(w2_));
    BEAMLINE_ASSIGN_OR_RETURN(net.b2, Read(b2_));
    return net;
  }

 private:
  absl::Status Place(const Data& data, const Network& net) {
    std::vector<float> minus_target(data.target.size());
    std::transform(data.target.begin(), data.target.end(), minus_target.begin(), std::negate<>());
    BEAMLINE_ASSIGN_OR_RETURN(x_, Put({kBatch, kInputs}, data.x));
    BEAMLINE_ASSIGN_OR_RETURN(minus_target_, Put({kBatch, kOutputs}, minus_target));
    BEAMLINE_ASSIGN_OR_RETURN(w1_, Put({kInputs, kHidden}, net.w1));
    BEAMLINE_ASSIGN_OR_RETURN(b1_, Put({kHidden}, net.b1));
    BEAMLINE_ASSIGN_OR_RETURN(w2_, Put({kHidden, kOutputs}, net.w2));
    BEAMLINE_ASSIGN_OR_RETURN(b2_, Put({kOutputs}, net.b2));
    BEAMLINE_ASSIGN_OR_RETURN(h_, Put({kBatch, kHidden}));
    BEAMLINE_ASSIGN_OR_RETURN(z_, Put({kBatch, kHidden}));
    BEAMLINE_ASSIGN_OR_RETURN(error_, Put({kBatch, kOutputs}));
    BEAMLINE_ASSIGN_OR_RETURN(dz_, Put({kBatch, kHidden}));
    BEAMLINE_ASSIGN_OR_RETURN(db1_, Put({kHidden}));
    BEAMLINE_ASSIGN_OR_RETURN(db2_, Put({kOutputs}));
    return absl::OkStatus();
  }

  // Allocates device memory and copies `values` to it, if given.
  absl::StatusOr<Tensor> Put(std::initializer_list<int64_t> shape,
                             std::span<const float> values = {}) {
    Tensor tensor(nullptr, DType::kFloat32, shape);
    const size_t bytes = static_cast<size_t>(tensor.num_elements()) * sizeof(float);
    BEAMLINE_ASSIGN_OR_RETURN(tensor.data,
                              device_->arena().Allocate(bytes, cuda::ArenaUse::kActivations));
    if (!values.empty()) device_->CopyToDevice(values.data(), tensor.data, values.size_bytes());
    return tensor;
  }
  absl::StatusOr<std::vector<float>> Read(const Tensor& tensor) {
    std::vector<float> values(static_cast<size_t>(tensor.num_elements()));
    device_->CopyToHost(tensor.data, values.data(), values.size() * sizeof(float));
    BEAMLINE_RETURN_IF_ERROR(device_->status());
    return values;
  }
  absl::Status Run(const cuda::LtProduct& product) {
    device_->BeginOperator();
    return products_->Run(product);
  }
  // On the host, because these are few numbers.
  absl::Status UpdateBias(const Tensor& gradient, const Tensor& bias) {
    BEAMLINE_ASSIGN_OR_RETURN(const std::vector<float> change, Read(gradient));
    BEAMLINE_ASSIGN_OR_RETURN(std::vector<float> values, Read(bias));
    for (size_t i = 0; i < values.size(); ++i) values[i] -= kRate * change[i];
    device_->CopyToDevice(values.data(), bias.data, values.size() * sizeof(float));
    return device_->status();
  }

  std::unique_ptr<cuda::Device> device_;
  std::unique_ptr<cuda::LtMatMul> products_;  // frees its workspace in device_
  Tensor x_, minus_target_, w1_, b1_, w2_, b2_, h_, z_, error_, dz_, db1_, db2_;
};

// The largest difference, relative to the largest number.
double Difference(const std::vector<float>& a, const std::vector<float>& b) {
  double difference = 0, largest = 0;
  for (size_t i = 0; i < a.size(); ++i) {
    const double apart = std::abs(double{a[i]} - b[i]);
    if (!(apart <= difference)) difference = apart;  // keeps NaN
    largest = std::max(largest, std::abs(double{b[i]}));
  }
  return difference / largest;
}

absl::Status Train() {
  std::mt19937 random(1);
  const Data data = {Normal(kBatch * kInputs, 1, random), Normal(kBatch * kOutputs, 1, random)};
  Network net = {Normal(kInputs * kHidden, 1 / std::sqrt(float{kInputs}), random),
                 Normal(kHidden, 0.1f, random),
                 Normal(kHidden * kOutputs, 1 / std::sqrt(float{kHidden}), random),
                 Normal(kOutputs, 0.1f, random)};
  BEAMLINE_ASSIGN_OR_RETURN(const std::unique_ptr<Trainer> trainer, Trainer::Create(data, net));

  const double host_loss = StepOnHost(data, net);
  BEAMLINE_ASSIGN_OR_RETURN(const double first_loss, trainer->Step());
  BEAMLINE_ASSIGN_OR_RETURN(const Network trained, trainer->ReadNetwork());
  const double difference =
      std::max({Difference(trained.w1, net.w1), Difference(trained.b1, net.b1),
                Difference(trained.w2, net.w2), Difference(trained.b2, net.b2),
                std::abs(first_loss - host_loss) / host_loss});
  fmt::print("step 1: loss {:.4f}; float64 on the host {:.4f}; largest difference {:.1e}\n",
             first_loss / kBatch, host_loss / kBatch, difference);
  if (!(difference <= kTolerance)) return absl::InternalError("the GPU and the host disagree");

  double loss = first_loss;
  for (int step = 2; step <= kSteps; ++step) {
    BEAMLINE_ASSIGN_OR_RETURN(loss, trainer->Step());
    if (step % 50 == 0) fmt::print("step {}: loss {:.4f}\n", step, loss / kBatch);
  }
  return loss < first_loss ? absl::OkStatus() : absl::InternalError("the loss did not fall");
}

int Main(int argc) {
  PrepareStandardStreams();
  if (argc > 1) {
    fmt::print(stderr, "usage: beamline-example-epilogues\n");
    return 2;
  }
  absl::Status status = Train();
  if (status.ok()) status = FlushStandardOutput();
  if (status.ok()) return 0;
  fmt::print(stderr, "{}", ErrorLine("beamline-example-epilogues", status.ToString()));
  return 1;
}

}  // namespace
}  // namespace beamline

int main(int argc, char**) { return beamline::Main(argc); }

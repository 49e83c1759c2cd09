#include "kernels/cpu/cpu_backend.h"

#include <algorithm>
#include <cstring>
#include <fstream>
#include <new>

#include "base/check.h"
#include "base/status.h"
#include "fmt/format.h"
#include "hwy/targets.h"
#include "kernels/check_params.h"
#include "kernels/cpu/cpu_count.h"
#include "kernels/cpu/cpu_weight.h"
#include "kernels/cpu/memory_counts.h"
#include "kernels/cpu/ops.h"
#include "kernels/cpu/weight_pages.h"
#include "kernels/input_norm.h"

namespace beamline {
namespace {

class CpuBuffer : public Buffer {
 public:
  CpuBuffer(cpu::SharedBytes memory, size_t bytes, std::shared_ptr<cpu::MemoryCounts> counts,
            MemoryKind kind)
      : memory_(std::move(memory)), counted_(std::move(counts), kind, memory_.get(), bytes) {
    data_ = memory_.get();
    size_ = bytes;
  }

 private:
  cpu::SharedBytes memory_;
  cpu::CountedBuffer counted_;  // destroyed before the memory
};

// Device memory is host memory, and every operator is done when it returns.
class CpuReadBack : public ReadBack {
 public:
  CpuReadBack(cpu::SharedBytes memory, size_t bytes, std::shared_ptr<cpu::MemoryCounts> counts,
              MemoryKind kind)
      : memory_(std::move(memory)), counted_(std::move(counts), kind, memory_.get(), bytes) {
    device_ = memory_.get();
    host_ = memory_.get();
    size_ = bytes;
  }
  void Start(size_t bytes) override { BEAMLINE_CHECK(bytes <= size_); }
  bool Done() override { return true; }
  absl::Status Wait() override { return absl::OkStatus(); }

 private:
  cpu::SharedBytes memory_;
  cpu::CountedBuffer counted_;  // destroyed before the memory
};

std::string CpuModelName() {
  std::ifstream info("/proc/cpuinfo");
  for (std::string line; std::getline(info, line);) {
    const size_t colon = line.find(": ");
    if (line.starts_with("model name") && colon != std::string::npos) return line.substr(colon + 2);
  }
  return "unknown CPU";
}

const char* VectorExtension() {
  const auto targets = hwy::SupportedTargets();
  if (targets & HWY_AVX3) return "AVX-512";
  if (targets & HWY_AVX2) return "AVX2";
  if (targets & HWY_NEON) return "NEON";
  return "baseline vectors";
}

constexpr CheckOptions kCheckOptions = {.float32_only = true,
                                        .host_readable = true,
                                        .converts_cache = true,
                                        .key_layout = KeyLayout::kColumns};

bool IsFloat(DType dtype) {
  return dtype == DType::kFloat32 || dtype == DType::kBFloat16 || dtype == DType::kFloat16;
}

class CpuBackend final : public Backend {
 public:
  CpuBackend(const CpuBackendOptions& options, int num_threads)
      : Backend(kCheckOptions), context_(num_threads, options.own_threads, options.cores) {}

  std::string Name() const override { return "cpu"; }
  std::string Description() const override {
    return fmt::format("{}, {} thread{}, {}", CpuModelName(), context_.num_threads(),
                       context_.num_threads() == 1 ? "" : "s", VectorExtension());
  }

  // A row's result never depends on other rows.
  absl::Status MakeBatchInvariant() override { return absl::OkStatus(); }
  absl::Status SupportsDType(DType dtype) const override {
    if (dtype == DType::kFloat32) return absl::OkStatus();
    if (dtype == DType::kInt8) return absl::OkStatus();
    if (dtype == DType::kBFloat16) return cpu::SupportsBFloat16();
    return absl::UnimplementedError(
        fmt::format("the CPU backend computes in float32, bfloat16 and int8, not in {}",
                    beamline::Name(dtype)));
  }
  absl::Status SupportsPrecision(const Precision& precision) const override {
    BEAMLINE_RETURN_IF_ERROR(SupportsDType(precision.compute));
    const bool is_stored = IsFloat(precision.weights) || precision.weights == DType::kInt8;
    const bool multiplies = precision.weights == precision.compute ||
                            (precision.compute == DType::kFloat32 && is_stored);
    if (multiplies && IsFloat(CacheDType(precision))) return absl::OkStatus();
    return UnsupportedPrecision(
        Name(), precision,
        "weights float32, bfloat16, float16 or int8 with compute float32, weights bfloat16 with "
        "compute bfloat16, weights int8 with compute int8, and with all of them cache float32, "
        "bfloat16 or float16");
  }
  DType ActivationDType(DType) const override { return DType::kFloat32; }

  // Counts pages that have been written. The threads' scratch memory is not counted.
  std::vector<MemoryUse> MemoryUsage() const override { return counts_->Read(); }

  absl::StatusOr<std::unique_ptr<Buffer>> Allocate(size_t bytes, MemoryKind kind) override {
    return AllocateAs<Buffer, CpuBuffer>(bytes, kind);
  }
  absl::StatusOr<std::unique_ptr<ReadBack>> AllocateReadBack(size_t bytes) override {
    return AllocateAs<ReadBack, CpuReadBack>(bytes, MemoryKind::kActivations);
  }
  void CopyToDevice(const void* host, void* device, size_t bytes) override {
    if (bytes > 0) std::memcpy(device, host, bytes);
  }
  absl::Status CopyToHost(const void* device, void* host, size_t bytes) override {
    if (bytes > 0) std::memcpy(host, device, bytes);
    return absl::OkStatus();
  }
  absl::Status Synchronize() override { return absl::OkStatus(); }

  absl::StatusOr<std::unique_ptr<PackedWeight>> PackWeight(std::span<const HostMatrix> parts,
                                                           const Precision& precision) override {
    BEAMLINE_RETURN_IF_ERROR(ValidateWeightParts(parts));
    BEAMLINE_RETURN_IF_ERROR(SupportsPrecision(precision));
    const int num_threads = context_.num_threads();
    absl::StatusOr<std::unique_ptr<cpu::CpuWeight>> weight;
    if (precision.compute == DType::kInt8) {
      weight = cpu::PackInt8Weight(parts, num_threads, weight_pages_);
    } else if (precision.compute == DType::kBFloat16) {
      weight = cpu::PackBFloat16Weight(parts, num_threads, weight_pages_);
    } else {
      weight = cpu::PackFloat32Weight(parts, precision.weights, num_threads, weight_pages_);
    }
    if (weight.ok()) (*weight)->CountIn(counts_);
    return weight;
  }

 private:
  void Compute(const Operation& operation) override {
    std::visit([this](const auto* params) { ComputeAfterNorm(*params); }, operation);
  }
  // Runs an input_norm as its own operator, as a product reads each row once per strip.
  template <typename Params>
  void ComputeAfterNorm(const Params& params) {
    if constexpr (requires { params.input_norm; }) {
      if (HasInputNorm(params)) {
        cpu::Compute(context_, InputNormOf(params));
        return cpu::Compute(context_, ProductOfNormed(params));
      }
    }
    cpu::Compute(context_, params);
  }

  // Memory that is written little by little uses small pages, so that it takes no more than was
  // written.
  cpu::SharedBytes MemoryFor(size_t bytes, MemoryKind kind) {
    if (kind == MemoryKind::kWeights) return weight_pages_.Allocate(bytes);
    return cpu::SharedBytes(cpu::AllocateAligned(bytes));
  }
  template <typename Interface, typename Memory>
  absl::StatusOr<std::unique_ptr<Interface>> AllocateAs(size_t bytes, MemoryKind kind) {
    try {
      return std::make_unique<Memory>(MemoryFor(std::max<size_t>(bytes, 1), kind), bytes, counts_,
                                      kind);
    } catch (const std::bad_alloc&) {
      return absl::ResourceExhaustedError(fmt::format("cannot allocate {} bytes", bytes));
    }
  }

  cpu::Context context_;
  cpu::WeightPages weight_pages_;
  const std::shared_ptr<cpu::MemoryCounts> counts_ = std::make_shared<cpu::MemoryCounts>();
};

}  // namespace

std::unique_ptr<Backend> MakeCpuBackend(const CpuBackendOptions& options) {
  BEAMLINE_CHECK(options.num_threads >= 0);
  const int num_threads = options.num_threads > 0 ? options.num_threads : cpu::AvailableCpus();
  return std::make_unique<CpuBackend>(options, std::min(num_threads, cpu::ThreadPool::kMaxThreads));
}

}  // namespace beamline

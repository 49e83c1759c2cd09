#include "kernels/cuda/cuda_backend.h"

#include <cstdlib>
#include <utility>
#include <variant>

#include "base/status.h"
#include "fmt/format.h"
#include "kernels/check_params.h"
#include "kernels/cuda/attention/attention.h"
#include "kernels/cuda/choice/choice_ops.h"
#include "kernels/cuda/device/copy_small.h"
#include "kernels/cuda/device/read_back.h"
#include "kernels/cuda/products/experts.h"
#include "kernels/cuda/products/matmul.h"
#include "kernels/cuda/products/weight.h"
#include "kernels/cuda/rows/row_ops.h"

namespace beamline::cuda {
namespace {

// Environment variable with the path of cuBLASLt's GEMM autotuning cache (algorithm_file.h).
constexpr char kAlgorithmFileVariable[] = "BEAMLINE_CUDA_ALGO_CACHE";

class CudaBuffer : public Buffer {
 public:
  CudaBuffer(Device& device, void* memory, size_t bytes) : device_(device) {
    data_ = memory;
    size_ = bytes;
  }
  ~CudaBuffer() override { device_.arena().Free(data_); }

 private:
  Device& device_;
};

// Pinned host memory, at the same address on the GPU.
class HostVisibleBuffer : public Buffer {
 public:
  HostVisibleBuffer(Device& device, void* memory, size_t bytes) : device_(device) {
    data_ = memory;
    size_ = bytes;
  }
  ~HostVisibleBuffer() override {
    device_.Use();
    static_cast<void>(device_.Synchronize());  // operators may still read it
    cudaFreeHost(data_);
  }

 private:
  Device& device_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<CudaBackend>> CudaBackend::Create(int index,
                                                                 const GpuMemoryLimit& memory) {
  BEAMLINE_ASSIGN_OR_RETURN(std::unique_ptr<Device> device, Device::Create(index, memory));
  const char* file = std::getenv(kAlgorithmFileVariable);
  BEAMLINE_ASSIGN_OR_RETURN(std::unique_ptr<LtMatMul> lt,
                            LtMatMul::Create(*device, file == nullptr ? "" : file));
  std::unique_ptr<CudaBackend> backend(new CudaBackend(std::move(device), std::move(lt)));
  Device& opened = backend->device();
  opened.Check(backend->landing_.Create(), "cudaHostAlloc");
  BEAMLINE_RETURN_IF_ERROR(opened.status());
  return backend;
}

std::string CudaBackend::Name() const { return fmt::format("cuda:{}", device_->index()); }

std::string CudaBackend::Description() const {
  const cudaDeviceProp& p = device_->properties();
  int driver = 0;
  cudaDriverGetVersion(&driver);
  return fmt::format("{}, {} multiprocessors, {:.0f} GiB, compute capability {}.{}, CUDA {}.{}",
                     p.name, p.multiProcessorCount,
                     static_cast<double>(p.totalGlobalMem) / (1 << 30), p.major, p.minor,
                     driver / 1000, driver % 1000 / 10);
}

absl::Status CudaBackend::SupportsDType(DType dtype) const {
  if (dtype == DType::kFloat32 || dtype == DType::kFloat16 || dtype == DType::kBFloat16) {
    return absl::OkStatus();
  }
  return absl::UnimplementedError(
      fmt::format("the CUDA backend computes in float32, float16 and bfloat16, not in {}",
                  beamline::Name(dtype)));
}

absl::Status CudaBackend::SupportsHeadDim(int head_dim) const {
  if (head_dim <= kMostHeadDim) return absl::OkStatus();
  return absl::UnimplementedError(fmt::format(
      "the CUDA backend computes attention over heads of at most {} elements, not of {}",
      kMostHeadDim, head_dim));
}

absl::Status CudaBackend::SupportsHiddenSize(int hidden_size) const {
  const int most = MostNormColumns(*device_);
  if (hidden_size <= most) return absl::OkStatus();
  return absl::UnimplementedError(fmt::format(
      "this GPU computes norms over rows of at most {} elements, not of {}", most, hidden_size));
}

absl::Status CudaBackend::MakeBatchInvariant() {
  device_->set_batch_invariant();
  return absl::OkStatus();
}

std::vector<MemoryUse> CudaBackend::MemoryUsage() const { return device_->arena().used(); }

std::optional<size_t> CudaBackend::FreeMemory() const { return device_->arena().unused(); }

absl::StatusOr<std::unique_ptr<Buffer>> CudaBackend::Allocate(size_t bytes, MemoryKind kind) {
  device_->Use();
  const ArenaUse use = kind == MemoryKind::kWeights ? ArenaUse::kWeights
                       : kind == MemoryKind::kCache ? ArenaUse::kCache
                                                    : ArenaUse::kActivations;
  BEAMLINE_ASSIGN_OR_RETURN(void* memory, device_->arena().Allocate(bytes, use));
  return std::make_unique<CudaBuffer>(*device_, memory, bytes);
}

absl::StatusOr<std::unique_ptr<Buffer>> CudaBackend::AllocateHostVisible(size_t bytes) {
  device_->Use();
  void* memory = nullptr;
  device_->Check(cudaHostAlloc(&memory, bytes, cudaHostAllocMapped | cudaHostAllocPortable),
                 "cudaHostAlloc");
  BEAMLINE_RETURN_IF_ERROR(device_->status());
  return std::make_unique<HostVisibleBuffer>(*device_, memory, bytes);
}

void CudaBackend::WaitForReaders() {
  if (may_run_) static_cast<void>(Synchronize());  // the device keeps a fault
}

void CudaBackend::CopyToDevice(const void* host, void* device, size_t bytes) {
  device_->Use();
  landed_ = nullptr;
  device_->CopyToDevice(host, device, bytes);
}

bool CudaBackend::CopyAndFill(const void* host, void* device, size_t bytes,
                              const FillTokensParams& fill) {
  if (bytes > kMostCopySmallBytes || fill.fills.size() > kMostCopySmallFills) return false;
  device_->Use();
  landed_ = nullptr;
  may_run_ = true;
  if (device_->MayTransfer("a copy to the device")) {
    CopySmallAndFill(*device_, host, device, bytes, fill);
  }
  return true;
}

absl::Status CudaBackend::CopyToHost(const void* device, void* host, size_t bytes) {
  device_->Use();
  if (bytes > HostLanding::kMostBytes) {
    device_->CopyToHost(device, host, bytes);
    may_run_ = false;
    return device_->status();
  }
  if (!device_->MayTransfer("a copy to the host")) return device_->status();
  const WaitMark::Scope waiting(*device_->wait_mark());
  if (device == landed_ && bytes == landed_bytes_) {
    landing_.Take(*device_, host, bytes);
  } else {
    landing_.Copy(*device_, device, host, bytes);
  }
  landed_ = nullptr;
  may_run_ = false;
  return device_->status();
}

absl::Status CudaBackend::Synchronize() {
  device_->Use();
  may_run_ = false;
  return device_->Synchronize();
}

absl::StatusOr<std::unique_ptr<ReadBack>> CudaBackend::AllocateReadBack(size_t bytes) {
  device_->Use();
  return CudaReadBack::Create(*device_, bytes);
}

absl::StatusOr<std::unique_ptr<PackedWeight>> CudaBackend::PackWeight(
    std::span<const HostMatrix> parts, const Precision& precision) {
  BEAMLINE_RETURN_IF_ERROR(ValidateWeightParts(parts));
  BEAMLINE_RETURN_IF_ERROR(SupportsPrecision(precision));
  device_->Use();
  return CudaWeight::Pack(parts, precision.weights, *device_);
}

void CudaBackend::SetLog(Log log) {
  log_ = std::move(log);
  logged_.clear();
  logged_products_.clear();
}

void CudaBackend::Replay(uint64_t key, absl::FunctionRef<void()> work) {
  device_->Use();
  const WaitMark::Scope waiting(*device_->wait_mark());
  landed_ = nullptr;
  may_run_ = true;
  recorder_.Replay(key, work);
}

template <typename Params>
void CudaBackend::Launch(const Params& params) {
  cuda::Compute(*device_, params);
}
template <typename Params>
void CudaBackend::LaunchProduct(const Params& params) {
  if (params.x.num_rows() == 0) return;
  const ProductChoice choice = ChooseProduct(*device_, params);
  if (log_ && logged_products_.insert(choice.kind()).second) log_(choice.Describe());
  cuda::Compute(*device_, *lt_, params, choice);
}
template <>
void CudaBackend::Launch(const MatMulParams& params) {
  LaunchProduct(params);
}
template <>
void CudaBackend::Launch(const ProjectHeadsParams& params) {
  LaunchProduct(params);
}
template <>
void CudaBackend::Launch(const PoolParams& params) {
  HostPlace landing;
  const size_t bytes = static_cast<size_t>(params.output.dim(-1)) * sizeof(float);
  if (params.num_sequences == 1 && bytes <= HostLanding::kMostBytes && !device_->capturing()) {
    landing = landing_.Begin();
    landed_ = params.output.data;
    landed_bytes_ = bytes;
  }
  cuda::Compute(*device_, params, landing);
}
template <>
void CudaBackend::Launch(const AttentionParams& params) {
  if (params.num_sequences == 0 || params.query.num_rows() == 0) return;
  const AttentionChoice choice =
      device_->batch_invariant()
          ? PickBatchInvariantAttention(params, device_->has_wgmma())
          : PickAttention(params, device_->num_multiprocessors(), device_->has_wgmma());
  if (log_ && logged_.insert(choice.kind()).second) log_(choice.Describe());
  cuda::Compute(*device_, params, choice);
}

void CudaBackend::Compute(const Operation& operation) {
  device_->Use();
  device_->BeginOperator();
  if (!device_->ok()) return;
  landed_ = nullptr;
  may_run_ = true;
  // The launch queue is limited, so a launch may wait.
  const WaitMark::Scope waiting(*device_->wait_mark());
  std::visit([this](const auto* params) { Launch(*params); }, operation);
}

}  // namespace beamline::cuda

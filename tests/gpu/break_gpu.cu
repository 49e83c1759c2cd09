// Breaks a GPU under a program: preloaded into it (LD_PRELOAD), it waits for a file and then
// launches a kernel with a fault, in the context that the program's own kernels have there. What
// CUDA is asked for of that GPU fails from then on, as after a fault of the program's own
// (bench/gpu/replica_faults.py).
//
// BEAMLINE_TEST_BREAK_FILE names the file, whose text is the GPU's number and the fault: "address",
// a write to no memory, or "trap". It is removed when the GPU is broken.
#include <cuda_runtime_api.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <thread>

namespace {

__global__ void Break(bool by_trap, int* nowhere) {
  if (by_trap) asm volatile("trap;");
  *nowhere = 1;
}

void AwaitFile(const std::string& path) {
  for (;; std::this_thread::sleep_for(std::chrono::milliseconds(5))) {
    std::FILE* const file = std::fopen(path.c_str(), "r");
    if (file == nullptr) continue;
    int gpu = -1;
    char kind[16] = "";
    const int count = std::fscanf(file, "%d %15s", &gpu, kind);
    std::fclose(file);
    if (count != 2) continue;  // not written yet
    cudaError_t error = cudaSetDevice(gpu);
    if (error == cudaSuccess) {
      Break<<<1, 1>>>(std::strcmp(kind, "trap") == 0, reinterpret_cast<int*>(16));
      error = cudaGetLastError();
    }
    if (error == cudaSuccess) error = cudaDeviceSynchronize();
    std::fprintf(stderr, "break_gpu: GPU %d: %s\n", gpu, cudaGetErrorString(error));
    std::remove(path.c_str());
  }
}

const bool kStarted = [] {
  const char* const path = std::getenv("BEAMLINE_TEST_BREAK_FILE");
  if (path != nullptr) std::thread(AwaitFile, std::string(path)).detach();
  return path != nullptr;
}();

}  // namespace

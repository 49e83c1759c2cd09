// The measured algorithms of cuBLASLt, kept in a file so that the next process need not measure
// again.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "kernels/cuda/epilogues/lt_product.h"

namespace beamline::cuda {

// A cublasLtMatmulAlgo_t, whose content is opaque.
using AlgorithmBits = std::array<uint64_t, 8>;

// A text file with one choice per line. Each line has the GPU and the cuBLASLt version of its
// measurement, and a checksum. Several GPUs and processes may share a file. A writer reads it
// again, adds its own choices and replaces the file in one step, so that a reader sees a complete
// file. If two processes write at the same moment, one of them loses its last choice, which a later
// process measures again.
class AlgorithmFile {
 public:
  // `device` is the GPU's name, `library` cuBLASLt's version. With an empty path nothing is kept.
  AlgorithmFile(std::string path, std::string device, uint64_t library);

  // Reads the file. Choices of other GPUs and versions are left alone. OK if there is no file yet.
  // FAILED_PRECONDITION: not a file of this kind, which is then neither used nor written.
  // DATA_LOSS: damaged; nothing of it is used, and the next choice replaces it. NOT_FOUND: all of
  // its choices are of other GPUs or versions, or the file has the format without checked sums,
  // which the next choice replaces.
  absl::Status Load();

  // The choice for `key`, or null. The caller checks with cuBLASLt that it fits before running it.
  const AlgorithmBits* Find(const AlgorithmKey& key) const;
  // Remembers a choice and writes the file; creates its folder. UNAVAILABLE: the file cannot be
  // written. Later calls do not try again.
  absl::Status Add(const AlgorithmKey& key, const AlgorithmBits& bits);

  size_t size() const { return choices_.size(); }

 private:
  // Replaces others_ by the lines of others, and adds ours to choices_ as far as they are new.
  absl::Status Read(const std::string& text);

  std::string path_, device_;
  uint64_t library_;
  bool read_only_ = false;  // the file is of another kind, or cannot be written
  std::map<AlgorithmKey, AlgorithmBits> choices_;
  std::vector<std::string> others_;  // lines of other GPUs and versions
};

}  // namespace beamline::cuda

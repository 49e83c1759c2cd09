#include "kernels/cuda/epilogues/algorithm_file.h"

#include <unistd.h>

#include <charconv>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <sstream>
#include <string_view>
#include <utility>

#include "base/status.h"
#include "fmt/format.h"
#include "fmt/ranges.h"

namespace beamline::cuda {
namespace {

constexpr std::string_view kFirstLine = "beamline cuBLASLt algorithms 2";
// The first line of a file whose choices were not checked for wrong sums. They are measured again.
constexpr std::string_view kEarlierFirstLine = "beamline cuBLASLt algorithms 1";

// FNV-1a: detects damage, not forgery.
uint64_t Checksum(std::string_view text) {
  uint64_t hash = 0xcbf29ce484222325u;
  for (const char c : text) hash = (hash ^ static_cast<uint8_t>(c)) * 0x100000001b3u;
  return hash;
}

std::vector<std::string_view> Split(std::string_view text, char separator) {
  std::vector<std::string_view> parts;
  for (;;) {
    const size_t end = text.find(separator);
    parts.push_back(text.substr(0, end));
    if (end == std::string_view::npos) return parts;
    text.remove_prefix(end + 1);
  }
}

// Exactly `numbers.size()` numbers in `base`, separated by commas.
template <typename Numbers>
bool Parse(std::string_view text, int base, Numbers& numbers) {
  const std::vector<std::string_view> parts = Split(text, ',');
  if (parts.size() != numbers.size()) return false;
  for (size_t i = 0; i < parts.size(); ++i) {
    const char* const end = parts[i].data() + parts[i].size();
    const auto result = std::from_chars(parts[i].data(), end, numbers[i], base);
    if (result.ec != std::errc() || result.ptr != end) return false;
  }
  return true;
}

std::string Line(const std::string& device, uint64_t library, const AlgorithmKey& key,
                 const AlgorithmBits& bits) {
  const std::string body = fmt::format("{}\t{}\t{}\t{:x}", device, library,
                                       fmt::join(key.fields, ","), fmt::join(bits, ","));
  return fmt::format("{}\t{:x}", body, Checksum(body));
}

std::string ReadWhole(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

}  // namespace

AlgorithmFile::AlgorithmFile(std::string path, std::string device, uint64_t library)
    : path_(std::move(path)), device_(std::move(device)), library_(library) {}

absl::Status AlgorithmFile::Read(const std::string& text) {
  if (text.empty()) return absl::OkStatus();
  std::vector<std::string_view> lines = Split(text, '\n');
  if (lines.front() == kEarlierFirstLine) {
    return absl::NotFoundError(
        fmt::format("{} is of an earlier version; its choices are measured again", path_));
  }
  if (lines.front() != kFirstLine) {
    return absl::FailedPreconditionError(
        fmt::format("{} is no file of cuBLASLt algorithms; it is left as it is", path_));
  }
  std::map<AlgorithmKey, AlgorithmBits> ours;
  std::vector<std::string> others;
  for (size_t i = 1; i < lines.size(); ++i) {
    if (lines[i].empty() && i + 1 == lines.size()) break;  // after the last newline
    const std::vector<std::string_view> parts = Split(lines[i], '\t');
    AlgorithmKey key;
    AlgorithmBits bits;
    std::array<uint64_t, 1> library, checksum;
    const size_t body = lines[i].rfind('\t');
    if (parts.size() != 5 || !Parse(parts[1], 10, library) || !Parse(parts[2], 10, key.fields) ||
        !Parse(parts[3], 16, bits) || !Parse(parts[4], 16, checksum) ||
        checksum[0] != Checksum(lines[i].substr(0, body))) {
      return absl::DataLossError(
          fmt::format("{}: line {} is damaged; its choices are measured again", path_, i + 1));
    }
    if (parts[0] == device_ && library[0] == library_) {
      ours.emplace(key, bits);
    } else {
      others.emplace_back(lines[i]);
    }
  }
  choices_.merge(ours);
  others_ = std::move(others);
  return absl::OkStatus();
}

absl::Status AlgorithmFile::Load() {
  std::error_code error;
  if (path_.empty() || !std::filesystem::exists(path_, error)) return absl::OkStatus();
  const absl::Status status =
      std::filesystem::is_regular_file(path_, error)
          ? Read(ReadWhole(path_))
          : absl::FailedPreconditionError(fmt::format("{} is not a regular file", path_));
  read_only_ = absl::IsFailedPrecondition(status);
  if (status.ok() && choices_.empty() && !others_.empty()) {
    return absl::NotFoundError(
        fmt::format("{} has no choices of {} with cuBLASLt {}", path_, device_, library_));
  }
  return status;
}

const AlgorithmBits* AlgorithmFile::Find(const AlgorithmKey& key) const {
  const auto found = choices_.find(key);
  return found == choices_.end() ? nullptr : &found->second;
}

absl::Status AlgorithmFile::Add(const AlgorithmKey& key, const AlgorithmBits& bits) {
  choices_[key] = bits;
  if (path_.empty() || read_only_) return absl::OkStatus();
  // Takes over what other processes have written. A file that is damaged by now is replaced.
  if (absl::IsFailedPrecondition(Read(ReadWhole(path_)))) {
    read_only_ = true;
    return absl::OkStatus();
  }
  std::ostringstream text;
  text << kFirstLine << '\n';
  for (const std::string& line : others_) text << line << '\n';
  for (const auto& [choice, algorithm] : choices_) {
    text << Line(device_, library_, choice, algorithm) << '\n';
  }
  std::error_code error;
  std::filesystem::create_directories(std::filesystem::path(path_).parent_path(), error);
  const std::string temporary = fmt::format("{}.{}.{}", path_, getpid(), static_cast<void*>(this));
  std::ofstream file(temporary, std::ios::binary | std::ios::trunc);
  file << text.str();
  file.close();
  error.clear();
  if (file) std::filesystem::rename(temporary, path_, error);
  if (file && !error) return absl::OkStatus();
  std::error_code ignored;
  std::filesystem::remove(temporary, ignored);
  read_only_ = true;
  return absl::UnavailableError(
      fmt::format("{} cannot be written; what is measured from now on is not kept", path_));
}

}  // namespace beamline::cuda

// Drives a fuzzer without libFuzzer: every file of its corpus, then a fixed sequence of mutations
// of them, the same each time.
//
// usage: NAME_fuzzer CORPUS_FOLDER DICTIONARY MUTATIONS   or   NAME_fuzzer FILE
//
// An input that stops the program, or takes ten seconds, is left in the temporary folder by name.
#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <random>
#include <string>
#include <string_view>
#include <vector>

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size);
// Of fuzzers that know their input's structure.
extern "C" __attribute__((weak)) size_t LLVMFuzzerCustomMutator(uint8_t* data, size_t size,
                                                                size_t max_size, unsigned seed);
// Of the sanitizers.
extern "C" __attribute__((weak)) void __sanitizer_set_death_callback(void (*callback)());

namespace beamline {
namespace {

constexpr unsigned kSeed = 20261122;
constexpr unsigned kMaxSeconds = 10;  // for one input
constexpr size_t kMaxGrowth = 1024;   // of a mutated input

std::string running;     // the input
std::string crash_path;  // where it goes

std::mt19937& Generator() {
  static std::mt19937 generator(kSeed);
  return generator;
}

// 0 .. size - 1.
size_t Below(size_t size) { return size == 0 ? 0 : Generator()() % size; }

std::vector<std::string>& Dictionary() {
  static std::vector<std::string> words;
  return words;
}

void KeepInput() {
  const int file = open(crash_path.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600);
  const bool kept = file >= 0 && write(file, running.data(), running.size()) >= 0;
  std::fprintf(stderr, "the input of %zu bytes is %s %s\n", running.size(),
               kept ? "in" : "lost; it cannot be written to", crash_path.c_str());
}

void OnSignal(int signal) {
  std::fprintf(stderr, "signal %d\n", signal);
  KeepInput();
  std::_Exit(1);
}

void Run(std::string input) {
  running = std::move(input);
  alarm(kMaxSeconds);
  // A copy of its own, so that a sanitizer sees a step past its end.
  const std::vector<uint8_t> bytes(running.begin(), running.end());
  LLVMFuzzerTestOneInput(bytes.data(), bytes.size());
  alarm(0);
}

std::string ReadFile(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

std::vector<std::string> ReadCorpus(const std::filesystem::path& folder) {
  std::vector<std::filesystem::path> paths;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    paths.push_back(entry.path());
  }
  std::sort(paths.begin(), paths.end());
  std::vector<std::string> corpus;
  for (const auto& path : paths) corpus.push_back(ReadFile(path));
  return corpus;
}

// What stands between the quotes of libFuzzer's NAME="TEXT", with its \xNN, \" and \\.
std::string Unescape(std::string_view text) {
  std::string word;
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '\\' || i + 1 == text.size()) {
      word += text[i];
    } else if (text[++i] == 'x') {
      unsigned value = 0;
      const char* const digits = text.data() + i + 1;
      std::from_chars(digits, std::min(digits + 2, text.data() + text.size()), value, 16);
      word += static_cast<char>(value);
      i += 2;
    } else {
      word += text[i];
    }
  }
  return word;
}

void ReadDictionary(const std::filesystem::path& path) {
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);) {
    const size_t begin = line.find('"'), end = line.rfind('"');
    if (line.starts_with('#') || begin == end) continue;
    Dictionary().push_back(Unescape(std::string_view(line).substr(begin + 1, end - begin - 1)));
  }
}

std::string AnyWord() {
  static const std::vector<std::string> kNumbers = {
      "0", "-1", "1e309", "-0.0", "2147483648", "4294967296", "1000000000", "18446744073709551616"};
  const size_t which = Below(kNumbers.size() + Dictionary().size());
  return which < kNumbers.size() ? kNumbers[which] : Dictionary()[which - kNumbers.size()];
}

void MutateOnce(std::string& input) {
  const size_t at = Below(input.size());
  const size_t length = 1 + Below(std::min<size_t>(input.size(), 64));
  switch (Below(input.empty() ? 1 : 7)) {
    case 0:
      input.insert(at, AnyWord());
      break;
    case 1:
      input[at] = static_cast<char>(input[at] ^ (1 << Below(8)));
      break;
    case 2:
      input[at] = static_cast<char>(Below(256));
      break;
    case 3:
      input.erase(at, length);
      break;
    case 4:
      input.insert(Below(input.size()), input.substr(at, length));
      break;
    case 5: {  // a number or a word takes another's place
      const auto is_word = [](unsigned char c) { return std::isalnum(c) || c == '_' || c == '-'; };
      size_t begin = at, end = at;
      while (begin > 0 && is_word(static_cast<unsigned char>(input[begin - 1]))) --begin;
      while (end < input.size() && is_word(static_cast<unsigned char>(input[end]))) ++end;
      input.replace(begin, end - begin, AnyWord());
      break;
    }
    default:
      input.resize(at);
      break;
  }
}

std::string Mutated(const std::vector<std::string>& corpus) {
  std::string input = corpus[Below(corpus.size())];
  const size_t max_size = input.size() + kMaxGrowth;
  if (LLVMFuzzerCustomMutator != nullptr) {
    const size_t size = input.size();
    input.resize(max_size);
    input.resize(LLVMFuzzerCustomMutator(reinterpret_cast<uint8_t*>(input.data()), size, max_size,
                                         static_cast<unsigned>(Generator()())));
    return input;
  }
  if (Below(8) == 0) input.resize(Below(input.size())), input += corpus[Below(corpus.size())];
  for (size_t count = 1 + Below(4); count > 0; --count) MutateOnce(input);
  return input;
}

int Replay(const std::filesystem::path& folder, const char* dictionary, int num_mutations) {
  const std::vector<std::string> corpus = ReadCorpus(folder);
  if (corpus.empty()) {
    std::fprintf(stderr, "%s: no files\n", folder.c_str());
    return 1;
  }
  ReadDictionary(dictionary);
  for (const std::string& input : corpus) Run(input);
  for (int i = 0; i < num_mutations; ++i) Run(Mutated(corpus));
  std::printf("%zu files, %d mutations, seed %u\n", corpus.size(), num_mutations, kSeed);
  return 0;
}

}  // namespace
}  // namespace beamline

// What libFuzzer offers to LLVMFuzzerCustomMutator.
extern "C" size_t LLVMFuzzerMutate(uint8_t* data, size_t size, size_t max_size) {
  std::string input(reinterpret_cast<const char*>(data), size);
  beamline::MutateOnce(input);
  const size_t new_size = std::min(input.size(), max_size);
  std::memcpy(data, input.data(), new_size);
  return new_size;
}

int main(int argc, char** argv) {
  if (argc != 2 && argc != 4) {
    std::fprintf(stderr, "usage: %s CORPUS_FOLDER DICTIONARY MUTATIONS | FILE\n", argv[0]);
    return 2;
  }
  const std::string name = std::filesystem::path(argv[0]).filename();
  beamline::crash_path =
      std::filesystem::temp_directory_path() / (name + "-crash-" + std::to_string(getpid()));
  for (const int signal : {SIGABRT, SIGALRM}) std::signal(signal, beamline::OnSignal);
  if (__sanitizer_set_death_callback != nullptr) {
    __sanitizer_set_death_callback(beamline::KeepInput);
  } else {
    for (const int signal : {SIGSEGV, SIGBUS, SIGFPE, SIGILL}) {
      std::signal(signal, beamline::OnSignal);
    }
  }
  if (argc == 4) return beamline::Replay(argv[1], argv[2], std::atoi(argv[3]));
  beamline::Run(beamline::ReadFile(argv[1]));
  return 0;
}

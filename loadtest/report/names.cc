#include "loadtest/report/names.h"

#include <span>
#include <utility>

namespace beamline::loadtest {
namespace {

using NamePair = std::pair<std::string_view, std::string_view>;

constexpr NamePair kKinds[] = {{"generate", "generation"},
                               {"generate_stream", "streamed generation"},
                               {"generate_many", "generation of many"},
                               {"encode", "embedding"},
                               {"encode_many", "embedding of many"},
                               {"score", "scoring"},
                               {"classify", "classification"},
                               {"classify_tokens", "token classification"},
                               {"fill_mask", "mask filling"},
                               {"rerank", "reranking"},
                               {"tokenize", "tokenization"}};
constexpr NamePair kEnvironment[] = {
    {"cpu", "processor"},           {"cores", "cores"},         {"memory", "memory"},
    {"system", "operating system"}, {"kernel", "kernel"},       {"beamline", "load generator"},
    {"revision", "revision"},       {"build", "type of build"}, {"grpc", "gRPC"},
    {"protobuf", "protobuf"},       {"compiler", "compiler"}};

std::string Find(std::span<const NamePair> titles, std::string_view key) {
  for (const auto& [name, title] : titles) {
    if (name == key) return std::string(title);
  }
  return std::string(key);
}

}  // namespace

std::string KindTitle(std::string_view kind) { return Find(kKinds, kind); }

std::string ClassTitle(const ClassSummary& summary) {
  return summary.name == summary.kind ? KindTitle(summary.kind) : summary.name;
}

std::string EnvironmentTitle(std::string_view key) { return Find(kEnvironment, key); }

}  // namespace beamline::loadtest

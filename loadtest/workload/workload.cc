#include "loadtest/workload/workload.h"

#include "base/text.h"
#include "fmt/format.h"
#include "fmt/ranges.h"

namespace beamline::loadtest {
namespace {

constexpr Kind kKinds[] = {Kind::kGenerate, Kind::kGenerateStream, Kind::kGenerateMany,
                           Kind::kEncode,   Kind::kEncodeMany,     Kind::kScore,
                           Kind::kClassify, Kind::kClassifyTokens, Kind::kFillMask,
                           Kind::kRerank,   Kind::kTokenize};

}  // namespace

const char* KindName(Kind kind) {
  switch (kind) {
    case Kind::kGenerate:
      return "generate";
    case Kind::kGenerateStream:
      return "generate_stream";
    case Kind::kGenerateMany:
      return "generate_many";
    case Kind::kEncode:
      return "encode";
    case Kind::kEncodeMany:
      return "encode_many";
    case Kind::kScore:
      return "score";
    case Kind::kClassify:
      return "classify";
    case Kind::kClassifyTokens:
      return "classify_tokens";
    case Kind::kFillMask:
      return "fill_mask";
    case Kind::kRerank:
      return "rerank";
    case Kind::kTokenize:
      return "tokenize";
  }
  return "unknown";
}

absl::StatusOr<Kind> ParseKind(std::string_view name) {
  std::vector<std::string> known;
  for (const Kind kind : kKinds) {
    if (name == KindName(kind)) return kind;
    known.emplace_back(KindName(kind));
  }
  return absl::InvalidArgumentError(fmt::format("kind \"{}\" is not known: expected one of {}{}",
                                                Shorten(name, 100), fmt::join(known, ", "),
                                                DidYouMean(name, known)));
}

bool IsGeneration(Kind kind) {
  return kind == Kind::kGenerate || kind == Kind::kGenerateStream || kind == Kind::kGenerateMany;
}

}  // namespace beamline::loadtest

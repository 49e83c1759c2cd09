#include "loadtest/workload/workload_file.h"

#include <algorithm>
#include <initializer_list>
#include <set>
#include <string_view>
#include <utility>
#include <vector>

#include "base/file.h"
#include "base/text.h"
#include "base/yaml.h"
#include "fmt/format.h"
#include "loadtest/workload/options_json.h"
#include "yaml-cpp/yaml.h"

namespace beamline::loadtest {
namespace {

namespace fs = std::filesystem;

constexpr size_t kMaxFileBytes = size_t{1} << 20;

// Reads the keys of one YAML mapping. After the first error, later reads do nothing.
class Reader {
 public:
  Reader(const YAML::Node& node, std::string where, std::initializer_list<std::string_view> keys)
      : node_(node), where_(std::move(where)) {
    if (!node.IsMap()) {
      Fail("", "expected a mapping");
      return;
    }
    const std::vector<std::string> known(keys.begin(), keys.end());
    std::set<std::string> before;
    for (const auto& entry : node) {
      const auto key = entry.first.as<std::string>();
      if (std::find(known.begin(), known.end(), key) == known.end()) {
        Fail(key, "unknown key" + DidYouMean(key, known));
      }
      if (!before.insert(key).second) Fail(key, "given twice");
    }
  }

  bool Has(const char* key) const { return status_.ok() && node_[key].IsDefined(); }
  YAML::Node Get(const char* key) const { return node_[key]; }
  const absl::Status& status() const { return status_; }

  void Read(const char* key, std::string& value) {
    if (Has(key)) value = Text(key);
  }

  // Parse: a function from std::string to absl::StatusOr<Value>.
  template <typename Value, typename Parse>
  void Read(const char* key, Value& value, Parse parse) {
    if (!Has(key)) return;
    if (auto parsed = parse(Text(key)); parsed.ok()) {
      value = *std::move(parsed);
    } else {
      Fail(key, parsed.status().message());
    }
  }

  template <typename Number>
  void ReadNumber(const char* key, Number& value, Number low, Number high) {
    if (!Has(key)) return;
    Number number{};
    const bool is_number =
        node_[key].IsScalar() && YAML::convert<Number>::decode(node_[key], number);
    if (is_number && number >= low && number <= high) {
      value = number;
    } else {
      Fail(key, fmt::format("expected a number of {} .. {}", low, high));
    }
  }

  template <typename Status>
  void Check(const char* key, const Status& status) {
    if (!status.ok()) Fail(key, status.message());
  }

  // reason: std::string or absl::string_view.
  template <typename Reason>
  void Fail(const std::string& key, const Reason& reason) {
    if (!status_.ok()) return;
    status_ = absl::InvalidArgumentError(
        fmt::format("{}{}{}: {}", where_, key.empty() ? "" : ".", key, std::string(reason)));
  }

 private:
  std::string Text(const char* key) {
    if (node_[key].IsScalar()) return node_[key].Scalar();
    Fail(key, "expected a single value");
    return "";
  }

  const YAML::Node node_;
  const std::string where_;
  absl::Status status_;
};

absl::StatusOr<PromptSource> ParsePrompt(const YAML::Node& node, const std::string& where,
                                         const fs::path& folder) {
  PromptSource source;
  Reader reader(node, where, {"text", "jsonl", "words", "tokens", "shared"});
  const int num_sources =
      reader.Has("text") + reader.Has("jsonl") + reader.Has("words") + reader.Has("tokens");
  if (num_sources != 1) reader.Fail("", "expected exactly one of text, jsonl, words and tokens");
  if (reader.Has("text")) reader.Read("text", source.texts.emplace_back());
  reader.Read("jsonl", source.texts,
              [&](const std::string& path) { return ReadTexts(folder / path); });
  reader.Read("words", source.words, Distribution::Parse);
  reader.Read("tokens", source.tokens, Distribution::Parse);
  reader.ReadNumber<int64_t>("shared", source.num_shared, 0, kMaxShared);
  if (!reader.status().ok()) return reader.status();
  for (const auto& length : {source.words, source.tokens}) {
    if (length && length->low() < 1) reader.Fail("", "prompts cannot be empty");
  }
  if (!reader.status().ok()) return reader.status();
  return source;
}

absl::Status ReadOptions(Reader& reader, RequestClass& result) {
  if (!reader.Has("options")) return absl::OkStatus();
  const YAML::Node options = reader.Get("options");
  if (IsGeneration(result.kind)) return ReadMessage(options, result.generate);
  switch (result.kind) {
    case Kind::kScore:
      return ReadMessage(options, result.score);
    case Kind::kClassify:
      return ReadMessage(options, result.classify);
    case Kind::kClassifyTokens:
      return ReadMessage(options, result.classify_tokens);
    case Kind::kFillMask:
      return ReadMessage(options, result.fill_mask);
    case Kind::kRerank:
      return ReadMessage(options, result.rerank);
    case Kind::kTokenize:
      return absl::InvalidArgumentError("tokenize takes none");
    default:
      return ReadMessage(options, result.encode);
  }
}

void CheckTogether(Reader& reader, const RequestClass& result) {
  if (!IsGeneration(result.kind) && (result.max_new_tokens || result.beam_width)) {
    reader.Fail("kind", "max_new_tokens and beam_width are for generation");
  }
  if (result.beam_width && (result.beam_width->low() < 1 || result.beam_width->high() > 64)) {
    reader.Fail("beam_width", "expected widths of 1 .. 64");
  }
  if (result.max_new_tokens && result.max_new_tokens->low() < 1) {
    reader.Fail("max_new_tokens", "expected at least 1");
  }
  const bool takes_texts = result.kind == Kind::kTokenize || result.kind == Kind::kRerank ||
                           result.kind == Kind::kClassifyTokens || result.kind == Kind::kFillMask;
  if (takes_texts && result.prompt.tokens) {
    reader.Fail("prompt.tokens", fmt::format("{} takes a text", KindName(result.kind)));
  }
  if (result.cancel_share > 0 && !reader.Has("cancel_after_ms")) {
    reader.Fail("cancel_after_ms", "needed with cancel_share");
  }
  if (result.deadline_share > 0 && (!reader.Has("deadline_ms") || result.deadline_ms.low() < 1)) {
    reader.Fail("deadline_ms", "at least 1, needed with deadline_share");
  }
}

absl::StatusOr<RequestClass> ParseClass(const YAML::Node& node, const std::string& where,
                                        const fs::path& folder) {
  RequestClass result;
  Reader reader(node, where,
                {"name", "kind", "weight", "model", "prompt", "batch", "options", "max_new_tokens",
                 "beam_width", "cancel_share", "cancel_after_ms", "deadline_share", "deadline_ms"});
  if (!reader.Has("kind")) reader.Fail("kind", "required");
  reader.Read("kind", result.kind, ParseKind);
  result.name = KindName(result.kind);
  reader.Read("name", result.name);
  reader.ReadNumber("weight", result.weight, 1e-6, 1e6);
  reader.Read("model", result.model);
  reader.ReadNumber<int>("batch", result.batch, 1, kMaxBatch);
  reader.Read("max_new_tokens", result.max_new_tokens, Distribution::Parse);
  reader.Read("beam_width", result.beam_width, Distribution::Parse);
  reader.ReadNumber("cancel_share", result.cancel_share, 0.0, 1.0);
  reader.Read("cancel_after_ms", result.cancel_after_ms, Distribution::Parse);
  reader.ReadNumber("deadline_share", result.deadline_share, 0.0, 1.0);
  reader.Read("deadline_ms", result.deadline_ms, Distribution::Parse);
  if (!reader.Has("prompt")) reader.Fail("prompt", "required");
  if (!reader.status().ok()) return reader.status();

  auto prompt = ParsePrompt(reader.Get("prompt"), where + ".prompt", folder);
  if (!prompt.ok()) return prompt.status();
  result.prompt = *std::move(prompt);
  reader.Check("options", ReadOptions(reader, result));
  CheckTogether(reader, result);
  if (!reader.status().ok()) return reader.status();
  return result;
}

absl::StatusOr<Workload> ParseRoot(const YAML::Node& root, const fs::path& folder) {
  Workload workload;
  Reader reader(root, "workload", {"distinct", "requests"});
  int64_t num_distinct = 0;
  reader.ReadNumber<int64_t>("distinct", num_distinct, 0, kMaxDistinct);
  workload.num_distinct = static_cast<uint64_t>(num_distinct);
  if (!reader.Has("requests") || !reader.Get("requests").IsSequence()) {
    reader.Fail("requests", "expected a list of classes of requests");
  }
  if (!reader.status().ok()) return reader.status();
  for (const auto& node : reader.Get("requests")) {
    const std::string where = fmt::format("requests[{}]", workload.classes.size());
    auto parsed = ParseClass(node, where, folder);
    if (!parsed.ok()) return parsed.status();
    workload.classes.push_back(*std::move(parsed));
  }
  if (workload.classes.empty()) {
    return absl::InvalidArgumentError("workload.requests: expected at least one");
  }
  return workload;
}

}  // namespace

absl::StatusOr<Workload> ParseWorkload(const std::string& yaml, const fs::path& folder) {
  const auto root = LoadYaml("workload", yaml);
  if (!root.ok()) return root.status();
  try {
    auto workload = ParseRoot(*root, folder);
    if (workload.ok()) workload->source = yaml;
    return workload;
  } catch (const YAML::Exception& error) {
    return absl::InvalidArgumentError(fmt::format("workload: {}", error.what()));
  }
}

absl::StatusOr<Workload> ReadWorkload(const std::string& path) {
  const auto yaml = ReadFile("--workload", path, kMaxFileBytes);
  if (!yaml.ok()) return yaml.status();
  auto workload = ParseWorkload(*yaml, fs::path(path).parent_path());
  if (workload.ok()) return workload;
  return absl::InvalidArgumentError(
      fmt::format("--workload {}: {}", path, std::string(workload.status().message())));
}

}  // namespace beamline::loadtest

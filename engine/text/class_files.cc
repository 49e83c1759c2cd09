#include "engine/text/class_files.h"

#include <algorithm>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "engine/text/tokenizer_class.h"
#include "engine/text/tokenizer_json.h"
#include "fmt/format.h"
#include "fmt/ranges.h"

namespace beamline::text {
namespace {

using nlohmann::json;

constexpr std::string_view kWordClasses[] = {"BertTokenizer", "DistilBertTokenizer",
                                             "ElectraTokenizer", kMpNetTokenizer};
constexpr std::string_view kMergeClasses[] = {"GPT2Tokenizer",    "RobertaTokenizer",
                                              "BartTokenizer",    "Qwen2Tokenizer",
                                              "GPTNeoXTokenizer", "DebertaTokenizer"};
constexpr std::string_view kMarianClasses[] = {kMarianTokenizer};
constexpr std::string_view kTypedClasses[] = {"BertTokenizer", "ElectraTokenizer",
                                              kDebertaV2Tokenizer, "DebertaTokenizer"};

struct Readers {
  std::string_view files;
  std::span<const std::string_view> classes;
};

Readers ReadersOf(ClassFiles files) {
  switch (files) {
    case ClassFiles::kWords:
      return {"vocab.txt", kWordClasses};
    case ClassFiles::kMerges:
      return {"vocab.json with merges.txt", kMergeClasses};
    case ClassFiles::kMarian:
      break;
  }
  return {"source.spm with target.spm", kMarianClasses};
}

// The file and field that name the class, for the error.
std::string Source(const CheckpointPath& folder, const TokenizerConfig& config,
                   const json& model_config, const std::string& class_name) {
  const std::string name = StringMember(config.json, "tokenizer_class");
  const std::string model_file = (folder / "config.json").string();
  const std::string of_model = StringMember(model_config, "tokenizer_class");
  const std::string model_type = StringMember(model_config, "model_type");
  if (class_name.empty() || (name.empty() && of_model.empty())) {
    return fmt::format("{}: model_type is \"{}\", whose tokenizer class is {}", model_file,
                       model_type, class_name.empty() ? "TokenizersBackend" : class_name);
  }
  return name.empty() ? fmt::format("{}: tokenizer_class is \"{}\"", model_file, of_model)
                      : fmt::format("{}: tokenizer_class is \"{}\"", config.place, name);
}

}  // namespace

absl::Status CheckClassReads(ClassFiles files, const CheckpointPath& folder,
                             const TokenizerConfig& config, const json& model_config) {
  const Readers readers = ReadersOf(files);
  const std::string name = TokenizerClassName(config, model_config);
  const bool is_silent = name.empty() && StringMember(model_config, "model_type").empty();
  if (is_silent || std::ranges::count(readers.classes, name) > 0) return absl::OkStatus();
  return absl::UnimplementedError(fmt::format(
      "{}; accepted for {} without a tokenizer.json: {}; save the tokenizer with transformers "
      "(AutoTokenizer, save_pretrained) to get a tokenizer.json",
      Source(folder, config, model_config, name), readers.files, fmt::join(readers.classes, ", ")));
}

bool GivesTypes(const TokenizerConfig& config, const json& model_config) {
  const std::vector<std::string> inputs = config.ModelInputNames();
  if (!inputs.empty()) return std::ranges::count(inputs, "token_type_ids") > 0;
  const std::string name = TokenizerClassName(config, model_config);
  const bool is_silent = name.empty() && StringMember(model_config, "model_type").empty();
  return is_silent || std::ranges::count(kTypedClasses, name) > 0;
}

}  // namespace beamline::text

#include "engine/checkpoint/formats/compressed_tensors_config.h"

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <string_view>
#include <utility>
#include <vector>

#include "base/json.h"
#include "base/status.h"
#include "engine/checkpoint/formats/config_fault.h"
#include "fmt/format.h"
#include "re2/re2.h"

namespace beamline {
namespace {

using Strategy = WeightScheme::Strategy;

constexpr std::string_view kPatternPrefix = "re:";
constexpr std::array<std::string_view, 10> kKeys = {
    "config_groups",    "format",       "global_compression_ratio", "ignore",
    "kv_cache_scheme",  "quant_method", "quantization_status",      "sparsity_config",
    "transform_config", "version"};
// "mixed-precision" says that groups have formats of their own.
constexpr std::array<std::string_view, 5> kCompressions = {
    "pack-quantized", "int-quantized", "float-quantized", "naive-quantized", "mixed-precision"};
constexpr int64_t kMostBlock = int64_t{1} << 20;

// A target of a group; patterns match from the begin of a name, as re.match does.
struct Target {
  std::string text;
  std::unique_ptr<RE2> pattern;  // of "re:" targets
  size_t group = 0;
};

bool IsEmbedding(std::string_view module) {
  const size_t dot = module.rfind('.');
  const std::string_view last = dot == std::string_view::npos ? module : module.substr(dot + 1);
  return last.find("embed") != std::string_view::npos || last == "wte" || last == "wpe";
}

class Config final : public CompressedTensorsConfig {
 public:
  absl::Status Read(const nlohmann::json& config) {
    for (const auto& [key, value] : config.items()) {
      if (std::ranges::find(kKeys, key) == kKeys.end()) return UnknownKey(key, kKeys);
    }
    BEAMLINE_RETURN_IF_ERROR(CheckFormat("format", config.value("format", nlohmann::json())));
    const nlohmann::json status = config.value("quantization_status", nlohmann::json("compressed"));
    if (status != "compressed") {
      return ConfigFault("quantization_status", status, "\"compressed\"");
    }
    for (const char* const key : {"sparsity_config", "transform_config"}) {
      const nlohmann::json value = config.value(key, nlohmann::json());
      // Dense checkpoints have one that says so.
      const bool is_dense = value.is_object() && value.value("format", nlohmann::json()) == "dense";
      if (!value.is_null() && !value.empty() && !is_dense) {
        return ConfigFault(key, value, "none: sparse and transformed weights are not read");
      }
    }
    const nlohmann::json groups = config.value("config_groups", nlohmann::json());
    if (!groups.is_object() || groups.empty()) {
      return ConfigFault("config_groups", groups, "an object with a group at least");
    }
    for (const auto& [name, group] : groups.items()) {
      BEAMLINE_RETURN_IF_ERROR(AddGroup("config_groups." + name, group));
    }
    return absl::OkStatus();
  }

  absl::StatusOr<WeightScheme> SchemeOf(const std::string& module) const override {
    const std::string_view type = IsEmbedding(module) ? "Embedding" : "Linear";
    const Target* found = nullptr;
    for (const Target& target : targets_) {
      if (target.pattern == nullptr && target.text == module) return schemes_[target.group];
      const bool matches =
          target.pattern != nullptr ? MatchesBegin(module, *target.pattern) : target.text == type;
      // Patterns before types, of several patterns the first by their texts.
      const bool is_first =
          found == nullptr ||
          (target.pattern != nullptr && (found->pattern == nullptr || target.text < found->text));
      if (matches && is_first) found = &target;
    }
    if (found != nullptr) return schemes_[found->group];
    return absl::InvalidArgumentError(
        fmt::format("config.json: quantization_config.config_groups has no target for \"{}\", "
                    "which is stored quantised",
                    module));
  }

 private:
  static bool MatchesBegin(const std::string& module, const RE2& pattern) {
    return pattern.Match(module, 0, module.size(), RE2::ANCHOR_START, nullptr, 0);
  }

  static absl::Status CheckFormat(const std::string& key, const nlohmann::json& format) {
    const bool is_known = format.is_string() &&
                          std::ranges::find(kCompressions, format.get_ref<const std::string&>()) !=
                              kCompressions.end();
    return is_known ? absl::OkStatus() : ConfigFault(key, format, kCompressions);
  }

  absl::Status AddGroup(const std::string& key, const nlohmann::json& group) {
    if (!group.is_object()) return ConfigFault(key, group, "an object");
    const nlohmann::json format = group.value("format", nlohmann::json());
    if (!format.is_null()) BEAMLINE_RETURN_IF_ERROR(CheckFormat(key + ".format", format));
    const nlohmann::json weights = group.value("weights", nlohmann::json());
    // Groups of activations alone (attention, caches) say nothing of weights.
    if (weights.is_null()) return absl::OkStatus();
    BEAMLINE_ASSIGN_OR_RETURN(const WeightScheme scheme, ReadScheme(key + ".weights", weights));
    const nlohmann::json targets = group.value("targets", nlohmann::json());
    if (!targets.is_array()) return ConfigFault(key + ".targets", targets, "a list of names");
    for (const nlohmann::json& text : targets) {
      if (!text.is_string()) return ConfigFault(key + ".targets", targets, "a list of names");
      Target target = {.text = text.get<std::string>(), .group = schemes_.size()};
      if (target.text.starts_with(kPatternPrefix)) {
        RE2::Options options;
        options.set_log_errors(false);
        target.pattern = std::make_unique<RE2>(target.text.substr(kPatternPrefix.size()), options);
        if (!target.pattern->ok()) {
          return ConfigFault(
              key + ".targets", text,
              fmt::format("a regular expression of RE2 ({})", target.pattern->error()));
        }
      }
      targets_.push_back(std::move(target));
    }
    schemes_.push_back(scheme);
    return absl::OkStatus();
  }

  static absl::StatusOr<WeightScheme> ReadScheme(const std::string& key,
                                                 const nlohmann::json& weights) {
    if (!weights.is_object()) return ConfigFault(key, weights, "an object");
    WeightScheme scheme;
    const nlohmann::json bits = weights.value("num_bits", nlohmann::json(8));
    const auto num_bits = WholeNumber(bits, 1, 8);
    if (!num_bits.has_value()) return ConfigFault(key + ".num_bits", bits, "1 to 8");
    scheme.bits = static_cast<int>(*num_bits);
    const nlohmann::json type = weights.value("type", nlohmann::json("int"));
    if (type != "int" && type != "float") return ConfigFault(key + ".type", type, "int, float");
    scheme.is_float = type == "float";
    if (scheme.is_float && scheme.bits != 8) {
      return ConfigFault(key + ".num_bits", bits, "8 with type \"float\"");
    }
    const nlohmann::json symmetric = weights.value("symmetric", nlohmann::json(true));
    if (!symmetric.is_boolean()) return ConfigFault(key + ".symmetric", symmetric, "true, false");
    scheme.is_symmetric = symmetric.get<bool>();
    if (scheme.is_float && !scheme.is_symmetric) {
      return ConfigFault(key + ".symmetric", symmetric, "true with type \"float\"");
    }
    BEAMLINE_RETURN_IF_ERROR(ReadStrategy(key, weights, scheme));
    return scheme;
  }

  static absl::Status ReadStrategy(const std::string& key, const nlohmann::json& weights,
                                   WeightScheme& scheme) {
    const nlohmann::json size = weights.value("group_size", nlohmann::json());
    nlohmann::json strategy = weights.value("strategy", nlohmann::json());
    if (strategy.is_null()) strategy = size.is_null() ? "tensor" : size == -1 ? "channel" : "group";
    if (strategy == "tensor") {
      scheme.strategy = Strategy::kTensor;
    } else if (strategy == "channel") {
      scheme.strategy = Strategy::kChannel;
    } else if (strategy == "group") {
      scheme.strategy = Strategy::kGroup;
      const auto group_size = WholeNumber(size, 1, kMostBlock);
      if (!group_size.has_value()) {
        return ConfigFault(key + ".group_size", size, fmt::format("1 to {}", kMostBlock));
      }
      scheme.group_size = *group_size;
    } else if (strategy == "block") {
      scheme.strategy = Strategy::kBlock;
      return ReadBlock(key + ".block_structure", weights.value("block_structure", nlohmann::json()),
                       scheme);
    } else {
      return ConfigFault(key + ".strategy", strategy, "tensor, channel, group, block");
    }
    return absl::OkStatus();
  }

  // [128, 128] or "128x128".
  static absl::Status ReadBlock(const std::string& key, const nlohmann::json& block,
                                WeightScheme& scheme) {
    int64_t rows = 0, cols = 0;
    if (block.is_string() && RE2::FullMatch(block.get_ref<const std::string&>(),
                                            "(\\d{1,7})x(\\d{1,7})", &rows, &cols)) {
    } else if (block.is_array() && block.size() == 2) {
      rows = WholeNumber(block[0], 1, kMostBlock).value_or(0);
      cols = WholeNumber(block[1], 1, kMostBlock).value_or(0);
    }
    if (rows < 1 || cols < 1) return ConfigFault(key, block, "two sizes, [128, 128]");
    scheme.block_rows = rows;
    scheme.block_cols = cols;
    return absl::OkStatus();
  }

  std::vector<WeightScheme> schemes_;
  std::vector<Target> targets_;
};

}  // namespace

absl::StatusOr<std::shared_ptr<const CompressedTensorsConfig>> CompressedTensorsConfig::Parse(
    const nlohmann::json& config) {
  auto parsed = std::make_shared<Config>();
  BEAMLINE_RETURN_IF_ERROR(parsed->Read(config));
  return parsed;
}

}  // namespace beamline

#include "engine/models/rotary_config.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <numbers>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "fmt/format.h"

namespace beamline {
namespace {

constexpr double kDefaultTheta = 10000.0;
// Of the table of cosines and sines: 1,048,576 positions with heads of 256.
constexpr int64_t kMostTableElements = int64_t{1} << 28;

// What the types read. Every number is of the object that describes them.
struct RotaryParameters {
  double theta = kDefaultTheta;
  int32_t head_dim = 0;
  double original_positions = 0;  // max_position_embeddings before the model's context was extended
};

// theta ^ (2 i / head_dim) of pair i, as float32.
std::vector<float> Periods(const RotaryParameters& p) {
  std::vector<float> periods(p.head_dim / 2);
  for (size_t i = 0; i < periods.size(); ++i) {
    const float exponent = static_cast<float>(2 * i) / static_cast<float>(p.head_dim);
    periods[i] = static_cast<float>(
        std::pow(static_cast<double>(static_cast<float>(p.theta)), static_cast<double>(exponent)));
  }
  return periods;
}

std::vector<float> DefaultFrequencies(const RotaryParameters& p) {
  std::vector<float> frequencies = Periods(p);
  for (float& value : frequencies) value = 1.0f / value;
  return frequencies;
}

// A parameter that must be positive.
double Positive(ConfigFields& rope, std::string_view name, std::optional<double> fallback = {}) {
  const std::optional<double> value = rope.OptionalDouble(name);
  if (value.has_value() ? *value <= 0 : !fallback.has_value()) {
    rope.Fault(name, "a number above 0 is expected");
  }
  return value.value_or(fallback.value_or(1.0));
}

RotarySpec ReadLinear(ConfigFields& rope, const RotaryParameters& p) {
  const auto factor = static_cast<float>(Positive(rope, "factor"));
  RotarySpec rotary = {DefaultFrequencies(p)};
  for (float& frequency : rotary.frequencies) frequency /= factor;
  return rotary;
}

// Long waves are slowed by the factor, short ones stay, those between are blended.
RotarySpec ReadLlama3(ConfigFields& rope, const RotaryParameters& p) {
  const double factor = Positive(rope, "factor");
  const double low = Positive(rope, "low_freq_factor");
  const double high = Positive(rope, "high_freq_factor");
  if (high <= low) rope.Fault("high_freq_factor", "a number above low_freq_factor is expected");
  const auto longest = static_cast<float>(p.original_positions / low);
  const auto shortest = static_cast<float>(p.original_positions / high);
  RotarySpec rotary = {DefaultFrequencies(p)};
  for (float& frequency : rotary.frequencies) {
    const float wave = static_cast<float>(2 * std::numbers::pi) / frequency;
    if (wave > longest) {
      frequency /= static_cast<float>(factor);
    } else if (!(wave < shortest)) {
      const float smooth =
          (static_cast<float>(p.original_positions) / wave - static_cast<float>(low)) /
          static_cast<float>(high - low);
      frequency = (1.0f - smooth) * frequency / static_cast<float>(factor) + smooth * frequency;
    }
  }
  return rotary;
}

// How much longer contexts sharpen attention: arXiv:2309.00071, section 3.4.
double YarnScale(double factor, double weight) {
  return factor <= 1 ? 1.0 : 0.1 * weight * std::log(factor) + 1.0;
}

// 0 below `low`, 1 above `high`, and even between.
float Ramp(size_t pair, double low, double high) {
  if (low == high) high += 0.001;
  return std::clamp(
      (static_cast<float>(pair) - static_cast<float>(low)) / static_cast<float>(high - low), 0.0f,
      1.0f);
}

RotarySpec ReadYarn(ConfigFields& rope, const RotaryParameters& p) {
  const double factor = Positive(rope, "factor");
  const auto given = rope.OptionalDouble("attention_factor");
  const double weight = rope.OptionalDouble("mscale").value_or(0);
  const double weight_all = rope.OptionalDouble("mscale_all_dim").value_or(0);
  const double fast = Positive(rope, "beta_fast", 32), slow = Positive(rope, "beta_slow", 1);
  const bool truncates = rope.Bool("truncate", true);
  // The pair that turns so often within the original positions.
  const auto pair_of = [&](double turns) {
    return p.head_dim * std::log(p.original_positions / (turns * 2 * std::numbers::pi)) /
           (2 * std::log(p.theta));
  };
  double low = pair_of(fast), high = pair_of(slow);
  if (truncates) low = std::floor(low), high = std::ceil(high);
  low = std::max(low, 0.0);
  high = std::min(high, p.head_dim - 1.0);

  RotarySpec rotary = {Periods(p)};
  for (size_t i = 0; i < rotary.frequencies.size(); ++i) {
    const float period = rotary.frequencies[i];
    const float kept = 1.0f - Ramp(i, low, high);
    rotary.frequencies[i] =
        1.0f / (static_cast<float>(factor) * period) * (1.0f - kept) + 1.0f / period * kept;
  }
  const double scale = weight != 0 && weight_all != 0
                           ? YarnScale(factor, weight) / YarnScale(factor, weight_all)
                           : YarnScale(factor, 1);
  rotary.scale = static_cast<float>(given.value_or(scale));
  return rotary;
}

RotarySpec ReadDefault(ConfigFields&, const RotaryParameters& p) { return {DefaultFrequencies(p)}; }

RotarySpec ReadDynamic(ConfigFields& rope, const RotaryParameters& p) {
  Positive(rope, "factor");
  return ReadDefault(rope, p);
}

struct RotaryType {
  std::string_view name;
  RotarySpec (*read)(ConfigFields& rope, const RotaryParameters& parameters);
  std::array<std::string_view, 8> parameters = {};  // besides those of every type
};

constexpr std::array<RotaryType, 5> kTypes = {{
    {"default", ReadDefault},
    {"linear", ReadLinear, {"factor"}},
    {"dynamic", ReadDynamic, {"factor"}},
    {"llama3",
     ReadLlama3,
     {"factor", "low_freq_factor", "high_freq_factor", "original_max_position_embeddings"}},
    {"yarn",
     ReadYarn,
     {"factor", "original_max_position_embeddings", "attention_factor", "beta_fast", "beta_slow",
      "mscale", "mscale_all_dim", "truncate"}},
}};

}  // namespace

RotarySpec ReadRotary(ConfigFields& config, int32_t head_dim, int32_t max_positions) {
  // An empty rope_scaling counts as none.
  const bool is_older = config.Has("rope_scaling") && !config.IsEmptyObject("rope_scaling");
  ConfigFields rope = config.Nested(is_older ? "rope_scaling" : "rope_parameters");
  RotaryParameters parameters;
  parameters.head_dim = head_dim;
  parameters.theta = rope.OptionalDouble("rope_theta")
                         .value_or(config.OptionalDouble("rope_theta").value_or(kDefaultTheta));
  if (parameters.theta <= 1) {
    (rope.Has("rope_theta") ? rope : config).Fault("rope_theta", "a number above 1 is expected");
  }
  constexpr const char* kOriginal = "original_max_position_embeddings";
  ConfigFields& original = config.Has(kOriginal) ? config : rope;
  parameters.original_positions = Positive(original, kOriginal, max_positions);
  for (ConfigFields* fields : {&config, &rope}) {
    if (fields->OptionalDouble("partial_rotary_factor").value_or(1) != 1) {
      fields->Fault("partial_rotary_factor", "only 1 is supported");
    }
  }
  if (head_dim % 2 != 0) {
    config.Fault(config.Has("head_dim") ? "head_dim" : "num_attention_heads",
                 fmt::format("heads of an even size are expected, not of {}", head_dim));
  }
  if (int64_t{max_positions} * head_dim > kMostTableElements) {
    config.Fault("max_position_embeddings", fmt::format("at most {} are expected with heads of {}",
                                                        kMostTableElements / head_dim, head_dim));
  }

  const char* const type_name = rope.Has("rope_type") ? "rope_type" : "type";
  const std::string name = rope.String(type_name, "default");
  const auto type = std::ranges::find(kTypes, name, &RotaryType::name);
  RotarySpec rotary;
  if (type == kTypes.end()) {
    rope.Fault(type_name, "supported are default, linear, dynamic, llama3, yarn");
  } else {
    std::vector<std::string_view> known = {"rope_type", "type", "rope_theta",
                                           "partial_rotary_factor"};
    known.insert(known.end(), type->parameters.begin(), type->parameters.end());
    rope.RequireKnown(known);
    rotary = type->read(rope, parameters);
  }
  config.Include(rope);
  return rotary;
}

}  // namespace beamline

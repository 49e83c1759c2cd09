#include "engine/models/rotary_config.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <numbers>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "fmt/format.h"

namespace beamline {
namespace {

// Maximum size of the cosine and sine table: 1,048,576 positions with a head size of 256.
constexpr int64_t kMostTableElements = int64_t{1} << 28;

// Input of the rope types. Numbers come from the object that describes the type.
struct RotaryParameters {
  double theta = 0;
  int32_t rotary_dim = 0;         // rotated elements of a head
  int32_t max_positions = 0;      // max_position_embeddings
  double original_positions = 0;  // before the model's context was extended
};

// theta ^ (2 i / rotary_dim) for pair i, as float32.
std::vector<float> Periods(const RotaryParameters& p) {
  std::vector<float> periods(p.rotary_dim / 2);
  for (size_t i = 0; i < periods.size(); ++i) {
    const float exponent = static_cast<float>(2 * i) / static_cast<float>(p.rotary_dim);
    periods[i] = static_cast<float>(
        std::pow(static_cast<double>(static_cast<float>(p.theta)), static_cast<double>(exponent)));
  }
  return periods;
}

std::vector<float> DefaultFrequencies(const RotaryParameters& p) {
  return RotaryFrequencies(p.theta, p.rotary_dim);
}

// Reads a parameter that must be positive.
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

// Long wavelengths are divided by the factor, short ones stay, those between are interpolated.
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

// Attention scale for an extended context: arXiv:2309.00071, section 3.4.
double YarnScale(double factor, double weight) {
  return factor <= 1 ? 1.0 : 0.1 * weight * std::log(factor) + 1.0;
}

// 0 below `low`, 1 above `high`, linear between them.
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
  // null differs from absent here.
  const bool truncates = !rope.IsNull("truncate") && rope.Bool("truncate", true);
  // The pair that makes `turns` full turns within the original positions.
  const auto pair_of = [&](double turns) {
    return p.rotary_dim * std::log(p.original_positions / (turns * 2 * std::numbers::pi)) /
           (2 * std::log(p.theta));
  };
  double low = pair_of(fast), high = pair_of(slow);
  if (truncates) low = std::floor(low), high = std::ceil(high);
  low = std::max(low, 0.0);
  high = std::min(high, p.rotary_dim - 1.0);

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

// Multiplies each period by its own factor from the field `name`.
std::vector<float> ReadStretched(ConfigFields& rope, const char* name,
                                 const std::vector<float>& periods) {
  const std::vector<double> factors = rope.Doubles(name);
  if (factors.size() != periods.size() ||
      std::ranges::any_of(factors, [](double factor) { return factor <= 0; })) {
    rope.Fault(name, fmt::format("{} numbers above 0 are expected", periods.size()));
    return periods;
  }
  std::vector<float> frequencies;
  for (size_t i = 0; i < periods.size(); ++i) {
    frequencies.push_back(1.0f / (static_cast<float>(factors[i]) * periods[i]));
  }
  return frequencies;
}

// As default, with a factor per pair that lengthens its period: short_factor for sequences within
// the original positions, long_factor for longer ones.
RotarySpec ReadLongRope(ConfigFields& rope, const RotaryParameters& p) {
  const std::vector<float> periods = Periods(p);
  RotarySpec rotary;
  rotary.frequencies = ReadStretched(rope, "short_factor", periods);
  std::vector<float> long_frequencies = ReadStretched(rope, "long_factor", periods);
  if (p.original_positions <= 1) {
    rope.Fault("original_max_position_embeddings", "a number above 1 is expected");
  }
  const double factor = Positive(rope, "factor", p.max_positions / p.original_positions);
  const double sharper =
      factor <= 1 ? 1 : std::sqrt(1 + std::log(factor) / std::log(p.original_positions));
  rotary.scale = static_cast<float>(rope.OptionalDouble("attention_factor").value_or(sharper));
  if (p.original_positions < p.max_positions) {
    rotary.original_positions = static_cast<int32_t>(p.original_positions);
    rotary.long_frequencies = std::move(long_frequencies);
  }
  return rotary;
}

struct RotaryType {
  std::string_view name;
  RotarySpec (*read)(ConfigFields& rope, const RotaryParameters& parameters);
  std::array<std::string_view, 9> parameters = {};  // in addition to those of every type
};

constexpr std::array<RotaryType, 6> kTypes = {{
    {"default", ReadDefault},
    {"linear", ReadLinear, {"factor"}},
    {"dynamic", ReadDynamic, {"factor"}},
    {"llama3",
     ReadLlama3,
     {"factor", "low_freq_factor", "high_freq_factor", "original_max_position_embeddings"}},
    {"yarn",
     ReadYarn,
     {"factor", "original_max_position_embeddings", "attention_factor", "beta_fast", "beta_slow",
      "mscale", "mscale_all_dim", "truncate", "finetuned"}},
    {"longrope",
     ReadLongRope,
     {"factor", "short_factor", "long_factor", "attention_factor",
      "original_max_position_embeddings"}},
}};

// The object that describes the angles; empty if there is none.
ConfigFields RopeFields(ConfigFields& config, const RotaryFamily& family) {
  const bool may_be_older = family.layer_type.empty() || family.layer_type == kFullAttention;
  // An empty rope_scaling counts as absent.
  if (may_be_older && config.Has("rope_scaling") && !config.IsEmptyObject("rope_scaling")) {
    return config.Nested("rope_scaling");
  }
  ConfigFields rope = config.Nested("rope_parameters");
  if (family.layer_type.empty()) return rope;
  rope.RequireKnown({kFullAttention, kSlidingAttention});
  ConfigFields of_type = rope.Nested(family.layer_type);
  config.Include(rope);
  return of_type;
}

// Number of rotated elements of a head (the first ones).
int32_t ReadRotaryDim(ConfigFields& config, ConfigFields& rope, int32_t head_dim,
                      const RotaryFamily& family) {
  constexpr const char* kFactor = "partial_rotary_factor";
  ConfigFields& fields = rope.Has(kFactor) ? rope : config;
  const double factor = fields.OptionalDouble(kFactor).value_or(family.partial_factor);
  if (factor == 1 || !family.may_be_partial) {
    if (factor != 1) fields.Fault(kFactor, "only 1 is supported");
    if (head_dim % 2 != 0) {
      config.Fault(config.Has("head_dim") ? "head_dim" : "num_attention_heads",
                   fmt::format("heads of an even size are expected, not of {}", head_dim));
    }
    return head_dim;
  }
  const bool is_fraction = factor > 0 && factor < 1;
  const int32_t rotary_dim = is_fraction ? static_cast<int32_t>(head_dim * factor) : 0;
  if (rotary_dim < 2 || rotary_dim % 2 != 0) {
    fields.Fault(kFactor, fmt::format("a part of heads of {} that is even is expected", head_dim));
    return 2;
  }
  return rotary_dim;
}

}  // namespace

std::vector<float> RotaryFrequencies(double theta, int32_t rotary_dim) {
  std::vector<float> frequencies = Periods({.theta = theta, .rotary_dim = rotary_dim});
  for (float& value : frequencies) value = 1.0f / value;
  return frequencies;
}

RotarySpec ReadRotary(ConfigFields& config, int32_t head_dim, int32_t max_positions,
                      const RotaryFamily& family) {
  ConfigFields rope = RopeFields(config, family);
  RotaryParameters parameters;
  parameters.rotary_dim = ReadRotaryDim(config, rope, head_dim, family);
  parameters.max_positions = max_positions;
  const bool has_theta = rope.Has("rope_theta");
  ConfigFields& theta_fields = has_theta ? rope : config;
  const std::string_view theta_name = has_theta ? "rope_theta" : family.theta_name;
  parameters.theta = theta_fields.OptionalDouble(theta_name).value_or(family.theta);
  if (parameters.theta <= 1) theta_fields.Fault(theta_name, "a number above 1 is expected");
  constexpr const char* kOriginal = "original_max_position_embeddings";
  ConfigFields& original = config.Has(kOriginal) ? config : rope;
  parameters.original_positions =
      Positive(original, kOriginal,
               family.original_positions > 0 ? family.original_positions : max_positions);
  if (int64_t{max_positions} * head_dim > kMostTableElements) {
    config.Fault("max_position_embeddings", fmt::format("at most {} are expected with heads of {}",
                                                        kMostTableElements / head_dim, head_dim));
  }

  const char* const type_name = rope.Has("rope_type") ? "rope_type" : "type";
  std::string name = rope.String(type_name, "default");
  if (std::ranges::find(family.longrope_names, name) != family.longrope_names.end()) {
    name = "longrope";
  }
  const auto type = std::ranges::find(kTypes, name, &RotaryType::name);
  RotarySpec rotary;
  if (type == kTypes.end()) {
    rope.Fault(type_name, "supported are default, linear, dynamic, llama3, yarn, longrope");
  } else {
    std::vector<std::string_view> known = {"rope_type", "type", "rope_theta",
                                           "partial_rotary_factor"};
    known.insert(known.end(), type->parameters.begin(), type->parameters.end());
    rope.RequireKnown(known);
    rotary = type->read(rope, parameters);
    if (rotary.original_positions > 0 && !family.layer_type.empty()) {
      rope.Fault(type_name, "longrope for all layers alone is supported");
    }
  }
  config.Include(rope);
  return rotary;
}

}  // namespace beamline

#include "engine/decoding/default_checks.h"

#include <algorithm>
#include <optional>
#include <string>

#include "base/field_error.h"
#include "fmt/format.h"

namespace beamline {

int32_t DefaultSequences(const GenerationDefaults& defaults) {
  return std::max(defaults.num_beams, defaults.num_return_sequences);
}

absl::Status CheckGenerationDefaults(std::string_view file, const GenerationDefaults& defaults,
                                     const Tokenizer& tokenizer, const DecodingLimits& limits) {
  // Requests name the source of such values in most cases.
  const auto named = [file](const absl::Status& status) {
    const std::string prefix = fmt::format("{}: ", file);
    std::optional<FieldFault> fault = GetFieldFault(status);
    if (!fault.has_value() || !fault->text.empty()) return InField(file, prefix, status);
    if (fault->field.starts_with(kDefaultsFile)) fault->field.erase(0, kDefaultsFile.size());
    fault->field.insert(0, prefix);
    return FieldError(*fault);
  };
  if (!defaults.max_new_tokens.has_value() && defaults.max_length.value_or(2) < 2) {
    return FieldError(fmt::format("{}: max_length", file), fmt::to_string(*defaults.max_length),
                      "at least 2, a token of the prompt and a new one");
  }
  for (const Decoding& decoding : {Decoding(), Decoding(GreedyOptions()),
                                   Decoding(SamplingOptions()), Decoding(BeamOptions())}) {
    GenerateRequest request;
    request.decoding = decoding;
    auto resolved = ResolveDecoding(request, defaults, tokenizer, limits);
    if (!resolved.ok()) return named(resolved.status());
    // The shortest possible prompt: one id, or an encoder-decoder's start token.
    const absl::Status fits = FitLength(request, defaults, limits, /*prompt_tokens=*/1, *resolved);
    if (!fits.ok()) return named(fits);
  }
  return absl::OkStatus();
}

}  // namespace beamline

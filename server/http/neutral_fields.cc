#include "server/http/neutral_fields.h"

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>

#include "fmt/format.h"
#include "fmt/ranges.h"

namespace beamline {
namespace {

using nlohmann::json;

template <size_t kSize>
void OneOf(JsonFields& fields, std::string_view name,
           const std::array<std::string_view, kSize>& accepted) {
  fields.Text(name, [&](const std::string& value) {
    if (std::ranges::find(accepted, value) != accepted.end()) return;
    fields.Refuse(name, value, fmt::format("{}", fmt::join(accepted, ", ")));
  });
}

void AnyText(JsonFields& fields, std::string_view name) {
  fields.Text(name, [](const std::string&) {});
}

void AnyObject(JsonFields& fields, std::string_view name) {
  const json* value = fields.Find(name);
  if (value != nullptr && !value->is_object()) fields.Refuse(name, *value, "an object");
}

// Labels of a stored answer: strings.
void ReadMetadata(JsonFields& fields) {
  const json* metadata = fields.Find("metadata");
  if (metadata == nullptr) return;
  if (!metadata->is_object()) return fields.Refuse("metadata", *metadata, "an object of texts");
  for (const auto& [name, value] : metadata->items()) {
    if (!value.is_string()) {
      return fields.Refuse(fmt::format("metadata[{}]", ShowJson(name)), value, "a text");
    }
  }
}

void ReadModalities(JsonFields& fields) {
  const json* modalities = fields.Find("modalities");
  if (modalities == nullptr) return;
  constexpr std::string_view kAccepted = R"(["text"])";
  if (!modalities->is_array() || modalities->empty()) {
    return fields.Refuse("modalities", *modalities, kAccepted);
  }
  for (size_t i = 0; i < modalities->size(); ++i) {
    if ((*modalities)[i] == "text") continue;
    return fields.Refuse(fmt::format("modalities[{}]", i), (*modalities)[i], "text");
  }
}

}  // namespace

void ReadSender(JsonFields& fields) {
  AnyText(fields, "user");
  AnyText(fields, "safety_identifier");
}

void ReadServiceFields(JsonFields& fields) {
  ReadSender(fields);
  fields.Bool("store", [&](bool value) {
    if (value) fields.Refuse("store", value, "false; this server keeps no answers");
  });
  ReadMetadata(fields);
  OneOf<2>(fields, "service_tier", {"auto", "default"});
  AnyText(fields, "prompt_cache_key");
  OneOf<3>(fields, "prompt_cache_retention", {"in_memory", "in-memory", "24h"});
}

std::string ReadAnswerFields(JsonFields& fields) {
  ReadModalities(fields);
  OneOf<1>(fields, "verbosity", {"medium"});
  AnyObject(fields, "prediction");
  std::string effort;
  OneOf<6>(fields, "reasoning_effort", {"none", "minimal", "low", "medium", "high", "xhigh"});
  fields.Text("reasoning_effort", [&](const std::string& value) { effort = value; });
  return effort;
}

}  // namespace beamline

#include "engine/text/tokenizer_json.h"

namespace beamline::text {

using nlohmann::json;

std::string StringMember(const json& object, const char* key) {
  if (!object.is_object() || !object.contains(key) || !object[key].is_string()) return "";
  return object[key].get<std::string>();
}

json IdOf(const json& tokenizer, const std::string& content) {
  const auto added = tokenizer.find("added_tokens");
  if (added != tokenizer.end() && added->is_array()) {
    for (const json& token : *added) {
      if (StringMember(token, "content") == content && token.contains("id")) return token["id"];
    }
  }
  const json& model = tokenizer["model"];
  const auto vocab = model.find("vocab");
  if (vocab == model.end()) return nullptr;
  if (vocab->is_object()) return vocab->value(content, json());
  for (size_t id = 0; vocab->is_array() && id < vocab->size(); ++id) {  // pieces with scores
    const json& piece = (*vocab)[id];
    if (piece.is_array() && !piece.empty() && piece[0] == content) return id;
  }
  return nullptr;
}

json FindPrecompiled(const json& normalizer) {
  if (!normalizer.is_object()) return nullptr;
  const bool sequence = normalizer.contains("normalizers") && normalizer["normalizers"].is_array();
  const json steps = sequence ? normalizer["normalizers"] : json::array({normalizer});
  for (const json& step : steps) {
    if (StringMember(step, "type") == "Precompiled") return step;
  }
  return nullptr;
}

}  // namespace beamline::text

// The random checkpoints of tests/golden/random, and of other folders beside it, with tokenizers
// that fit them, so that the engine serves them.
#pragma once

#include <algorithm>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>

#include "tests/engine/linked_model.h"

namespace beamline {

// The first `size` tokens of the demo translator.
inline nlohmann::json FirstTokens(int32_t size) {
  nlohmann::json first;
  const nlohmann::json all = nlohmann::json::parse(
      std::ifstream(BEAMLINE_SOURCE_DIR "/models/translate-en-de/vocab.json"));
  for (const auto& [token, id] : all.items()) {
    if (id < size) first[token] = id;
  }
  return first;
}

// A translator whose two sides have vocabularies of their own. `late_id`: of a special token
// "<late>", which vocab.json lacks; -1: none. `set`: the folder in tests/golden.
class RandomTranslator : public LinkedModel {
 public:
  RandomTranslator(const std::string& name, int32_t source_size, int32_t target_size,
                   int32_t late_id = -1, const std::string& set = "random")
      : LinkedModel("tests/golden/" + set + "/" + name) {
    const std::filesystem::path demo = BEAMLINE_SOURCE_DIR "/models/translate-en-de";
    Link(demo / "source.spm");
    Link(demo / "target.spm");
    Write("vocab.json", FirstTokens(source_size));
    Write("target_vocab.json", FirstTokens(target_size));
    nlohmann::json config = {
        {"tokenizer_class", "MarianTokenizer"}, {"separate_vocabs", true}, {"pad_token", "."}};
    if (late_id >= 0) {
      config["added_tokens_decoder"][std::to_string(late_id)] = {{"content", "<late>"},
                                                                 {"special", true}};
    }
    Write("tokenizer_config.json", config);
  }
};

// A model of one stack whose tokenizer knows `size` ids: letters, and "<b>" and "<e>" around a text
// with `with_template`.
class RandomStack : public LinkedModel {
 public:
  RandomStack(const std::string& name, int32_t size, bool with_template,
              const std::string& set = "random")
      : LinkedModel("tests/golden/" + set + "/" + name) {
    nlohmann::json vocabulary = {{"<unk>", 0}, {"<b>", 1}, {"<e>", 2}};
    for (int32_t id = 3; id < size; ++id) {
      const std::string token = id < 29 ? std::string(1, static_cast<char>('a' + id - 3))
                                        : "<" + std::to_string(id) + ">";
      vocabulary[token] = id;
    }
    nlohmann::json tokenizer = {{"added_tokens", nlohmann::json::array()},
                                {"model",
                                 {{"type", "BPE"},
                                  {"vocab", vocabulary},
                                  {"merges", nlohmann::json::array()},
                                  {"unk_token", "<unk>"}}}};
    if (with_template) {
      tokenizer["post_processor"] = {
          {"type", "BertProcessing"}, {"sep", {"<e>", 2}}, {"cls", {"<b>", 1}}};
    }
    Write("tokenizer.json", tokenizer);
  }
};

}  // namespace beamline

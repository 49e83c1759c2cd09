// A model's description: one of its JSON files of any bytes among the others as they should be. The
// first byte chooses the file, 'A' for the first one of kFiles.
#include <cstdint>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "base/check.h"
#include "engine/checkpoint/checkpoint.h"
#include "engine/models/models.h"
#include "tests/engine/checkpoint/checkpoint_folder.h"
#include "tests/fuzz/checks.h"

namespace beamline {
namespace {

using nlohmann::json;

struct ConfigFile {
  const char* model;  // of tests/golden/random
  const char* name;
};

// New ones go to the end: the corpus counts on the order.
constexpr ConfigFile kFiles[] = {
    {"bert-3x40", "config.json"},
    {"roberta-3x16", "config.json"},
    {"gpt2-3x40", "config.json"},
    {"marian-2x16-target", "config.json"},
    {"gpt2-3x40", "generation_config.json"},
    {"marian-2x16-target", "generation_config.json"},
    {"bert-3x40", "modules.json"},
    {"bert-3x40", "1_Pooling/config.json"},
    {"bert-3x40", "sentence_bert_config.json"},
    {"bert-3x40", "config_sentence_transformers.json"},
    {"bert-1x80-shards", "model.safetensors.index.json"},
    {"llama-6of2x10-llama3", "config.json"},
    {"qwen2-6of2x4-window", "config.json"},
    {"qwen3-6of3x10-yarn", "config.json"},
    {"phi3-3x40-longrope", "config.json"},
    {"gemma3-4of2x10", "config.json"},
    {"gpt_neo-3x16-local", "config.json"},
    {"falcon-6of2x8-norms", "config.json"},
    {"qwen3_moe-4of2x6", "config.json"},
};

// The files that sentence-transformers adds.
void WriteModules(const TemporaryFolder& folder) {
  const auto module = [](int index, const char* path, const char* type) {
    return json{{"idx", index},
                {"name", std::to_string(index)},
                {"path", path},
                {"type", std::string("sentence_transformers.models.") + type}};
  };
  folder.WriteJson("modules.json", {module(0, "", "Transformer"), module(1, "1_Pooling", "Pooling"),
                                    module(2, "2_Normalize", "Normalize")});
  folder.WriteJson("1_Pooling/config.json", {{"pooling_mode_mean_tokens", true}});
  folder.WriteJson("sentence_bert_config.json", {{"max_seq_length", 16}});
  folder.WriteJson("config_sentence_transformers.json",
                   {{"prompts", {{"query", "query: "}}}, {"default_prompt_name", "query"}});
}

// A folder for each file, made once.
const TemporaryFolder& FolderOf(size_t index) {
  static std::vector<std::unique_ptr<TemporaryFolder>> folders(std::size(kFiles));
  if (folders[index] == nullptr) {
    folders[index] = std::make_unique<TemporaryFolder>();
    folders[index]->LinkFilesOf(std::string(BEAMLINE_SOURCE_DIR) + "/tests/golden/random/" +
                                kFiles[index].model);
    if (std::string_view(kFiles[index].model) == "bert-3x40") WriteModules(*folders[index]);
  }
  return *folders[index];
}

void CheckStack(const StackSpec& stack) {
  BEAMLINE_CHECK(stack.num_layers > 0 && stack.hidden_size > 0 && stack.num_heads > 0);
  BEAMLINE_CHECK(stack.num_kv_heads > 0 && stack.num_heads % stack.num_kv_heads == 0);
  BEAMLINE_CHECK(stack.head_dim > 0 && stack.feed_forward_size > 0);
  BEAMLINE_CHECK(stack.max_positions > 0 && stack.position_offset >= 0);
  BEAMLINE_CHECK(stack.vocab_size > 0 && stack.num_types >= 0);
  BEAMLINE_CHECK(stack.norm_epsilon >= 0.0f && stack.norm_epsilon < 1e30f);
}

void CheckDescription(const ModelDescription& description) {
  const TransformerSpec& spec = description.spec;
  BEAMLINE_CHECK(spec.encoder.has_value() || spec.decoder.has_value());
  BEAMLINE_CHECK(spec.vocab_size > 0);
  if (spec.encoder.has_value()) CheckStack(*spec.encoder);
  if (spec.decoder.has_value()) {
    CheckStack(*spec.decoder);
    const GenerationDefaults& generation = description.generation;
    BEAMLINE_CHECK(generation.num_beams >= 1 && generation.num_return_sequences >= 1);
    for (const int32_t id : generation.eos_token_ids) {
      BEAMLINE_CHECK(id >= 0 && id < spec.vocab_size);
    }
  } else {
    BEAMLINE_CHECK(description.encoding.dimensions >= 0);
    BEAMLINE_CHECK(description.encoding.dimensions <= spec.encoder->hidden_size);
    BEAMLINE_CHECK(description.encoding.max_input_tokens >= 0);
  }
}

}  // namespace
}  // namespace beamline

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace beamline;
  if (size == 0) return 0;
  const size_t index = static_cast<uint8_t>(data[0] - 'A') % std::size(kFiles);
  const TemporaryFolder& folder = FolderOf(index);
  folder.Write(kFiles[index].name, AsText(data + 1, size - 1));
  const auto checkpoint = Checkpoint::Open(folder.path(), CheckFamily);
  if (!checkpoint.ok()) {
    CheckRefusal(checkpoint.status(), folder.path());
    return 0;
  }
  const auto description = DescribeModel(**checkpoint);
  if (description.ok()) {
    CheckDescription(*description);
  } else {
    CheckRefusal(description.status(), folder.path());
  }
  return 0;
}

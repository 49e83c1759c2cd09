// The chat templates of a checkpoint: render the messages of a conversation to the prompt text, as
// apply_chat_template of transformers does.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "engine/api/request.h"
#include "engine/checkpoint/checkpoint_path.h"
#include "engine/jinja/template.h"

namespace beamline {

// Thread safe; immutable after loading.
class ChatTemplates {
 public:
  // Loads chat_template.jinja and additional_chat_templates/*.jinja of a Hugging Face folder;
  // without these files, "chat_template" of tokenizer_config.json; empty if there is none. An
  // unsupported template does not prevent loading: it is kept with its name and fault. Errors only
  // come from files that cannot be read, and name them.
  static absl::StatusOr<ChatTemplates> Load(const CheckpointPath& folder);
  static absl::StatusOr<ChatTemplates> Load(const std::string& folder) {
    return Load(CheckpointPath(folder));
  }

  bool empty() const { return templates_.empty(); }
  // Names of the templates that can be rendered.
  std::vector<std::string> names() const;

  // Renders a conversation. INVALID_ARGUMENT names the invalid field (below `field`), or says what
  // the template failed on. FAILED_PRECONDITION if the template is not supported. If a StopCheck of
  // the thread (base/stop_check.h) ends the rendering, returns its status. Inputs that the template
  // does not read have no effect. REQUIRES: !empty().
  absl::StatusOr<std::string> Render(const Chat& chat, std::string_view field) const;

  // INVALID_ARGUMENT naming tools or documents that the conversation has but its template does not
  // mention, because the model would never see them. REQUIRES: !empty().
  absl::Status CheckRead(const Chat& chat, std::string_view field) const;

 private:
  struct Named {
    std::string source;                             // the file that it comes from
    bool has_tools = false, has_documents = false;  // whether it mentions these variables
    absl::StatusOr<jinja::Template> parsed;
  };

  void Add(const std::string& name, std::string source, std::string_view text);
  // The template that the conversation requests, chosen as in transformers.
  absl::StatusOr<const Named*> Choose(const Chat& chat, std::string_view field) const;

  std::map<std::string, Named> templates_;
  std::vector<std::pair<std::string, std::string>> special_tokens_;
};

// Total bytes of the conversation's texts.
size_t ChatBytes(const Chat& chat);

}  // namespace beamline

// The chat templates of a checkpoint: messages of a conversation → the text that the model was
// trained on, as apply_chat_template of transformers makes it.
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
  // chat_template.jinja and additional_chat_templates/*.jinja of a Hugging Face folder, without
  // these "chat_template" of tokenizer_config.json; none where there is none. A template that is
  // not served is known by its name and its fault, and stops nobody from loading the model. Errors
  // are of files that cannot be read, and name them.
  static absl::StatusOr<ChatTemplates> Load(const CheckpointPath& folder);
  static absl::StatusOr<ChatTemplates> Load(const std::string& folder) {
    return Load(CheckpointPath(folder));
  }

  bool empty() const { return templates_.empty(); }
  // Of those that can be rendered.
  std::vector<std::string> names() const;

  // The text of a conversation. INVALID_ARGUMENT naming the field, below `field`, that is not what
  // it should be, or what the template makes of it; FAILED_PRECONDITION when the template is not
  // served; that of a StopCheck of the thread (base/stop_check.h) when it ends the rendering.
  // What the template does not read changes nothing. REQUIRES: !empty().
  absl::StatusOr<std::string> Render(const Chat& chat, std::string_view field) const;

  // INVALID_ARGUMENT naming tools or documents that the conversation has and its template does not
  // mention, so that the model would never see them. REQUIRES: !empty().
  absl::Status CheckRead(const Chat& chat, std::string_view field) const;

 private:
  struct Named {
    std::string source;                             // the file that it is of
    bool has_tools = false, has_documents = false;  // the names of these variables
    absl::StatusOr<jinja::Template> parsed;
  };

  void Add(const std::string& name, std::string source, std::string_view text);
  // The template that the conversation asks for, as transformers chooses it.
  absl::StatusOr<const Named*> Choose(const Chat& chat, std::string_view field) const;

  std::map<std::string, Named> templates_;
  std::vector<std::pair<std::string, std::string>> special_tokens_;
};

// Bytes of the conversation, of whatever kind.
size_t ChatBytes(const Chat& chat);

}  // namespace beamline

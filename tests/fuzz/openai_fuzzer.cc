// The body of a request of OpenAI's API: parsed, and converted to what the engine takes. The first
// byte chooses the path: 'A' completions, 'B' chat completions, 'C' embeddings.
#include <algorithm>
#include <cstdint>
#include <string_view>

#include "base/check.h"
#include "google/protobuf/stubs/logging.h"
#include "server/http/openai_request.h"
#include "server/wire/request.h"
#include "tests/fuzz/checks.h"

namespace beamline {
namespace {

constexpr size_t kMostPrompts = 8;

void CheckCompletion(const absl::StatusOr<CompletionRequest>& parsed) {
  if (!parsed.ok()) return CheckRefusal(parsed.status(), "");
  BEAMLINE_CHECK(!parsed->prompts.empty() && parsed->prompts.size() <= kMostPrompts);
  BEAMLINE_CHECK(parsed->names.is_list || parsed->prompts.size() == 1);
  for (size_t i = 0; i < parsed->prompts.size(); ++i) {
    const auto request = ToEngineRequest(parsed->Message(i));
    if (request.ok()) continue;
    BEAMLINE_CHECK(absl::IsInvalidArgument(request.status()));
    CheckRefusal(InOpenAiField(request.status(), parsed->names, i), "");
  }
}

void CheckEmbedding(const absl::StatusOr<EmbeddingRequest>& parsed) {
  if (!parsed.ok()) return CheckRefusal(parsed.status(), "");
  BEAMLINE_CHECK(parsed->names.is_list || parsed->request.inputs_size() == 1);
  const auto request = ToEngineRequest(parsed->request);
  if (!request.ok()) CheckRefusal(InOpenAiField(request.status(), parsed->names), "");
}

}  // namespace
}  // namespace beamline

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace beamline;
  if (size == 0) return 0;
  google::protobuf::SetLogHandler(nullptr);  // it tells of each text that is not UTF-8
  const std::string_view body = AsText(data + 1, size - 1);
  switch (data[0] % 3) {
    case 'A' % 3:
      CheckCompletion(ParseCompletion(body, kMostPrompts));
      break;
    case 'B' % 3:
      CheckCompletion(ParseChatCompletion(body));
      break;
    default:
      CheckEmbedding(ParseEmbedding(body));
  }
  return 0;
}

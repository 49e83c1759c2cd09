// Checks and tokenizing that all requests share. Errors have the form of base/field_error.h.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "engine/api/request.h"
#include "engine/loading/loaded_model.h"

namespace beamline {

// Which vocabulary a prompt's ids belong to: the decoder of a translator may have its own.
enum class PromptSide : uint8_t { kInput, kTarget };

// Bytes of text to tokenize.
size_t TextBytes(const Prompt& prompt);
size_t TextBytes(const std::vector<Prompt>& prompts);

// Checks a prompt before it is tokenized: ids in range, and not empty unless `may_be_empty`. An
// empty text is always accepted if the tokenizer's template adds tokens to it.
absl::Status CheckPrompt(std::string_view field, const Prompt& prompt, PromptSide side,
                         bool may_be_empty, const ModelFacts& model);
// "target_language is 'xx'; accepted: de, en". An empty language means none. If there are many
// languages, the error lists those with the most similar spelling.
absl::Status CheckLanguage(std::string_view field, std::string_view language,
                           const ModelFacts& model);
// "inputs[2] has no tokens; accepted: at least 1".
absl::Status NoTokens(std::string_view field);
// Maximum logits of a step that one request may take if it wants those of many tokens at once.
int32_t MaxStepShare(const ModelFacts& model);
// How many of these logits count as one running sequence; a step has room for both.
int32_t StepTokensPerRow(const ModelFacts& model);
// "model is 'embed-en', which only encodes; Generate accepts the others".
absl::Status WrongTask(const ModelFacts& model, std::string_view rpc, std::string_view what);

// OK for a model that generates, else WrongTask.
absl::Status CheckGenerates(const ModelFacts& model, std::string_view rpc);
// "inputs[2] has 600 tokens; accepted: at most 512", where `length` is the number as text; `hint`
// is appended.
absl::Status TooLong(std::string_view field, std::string_view length, int32_t limit,
                     std::string_view hint, const ModelFacts& model);

Truncation ToTruncation(EncodeTruncation truncate);

// Returns a prompt's ids; with options.as_target, of the target vocabulary. More than `limit` ids
// are an error that ends with `hint`, unless the options truncate.
absl::StatusOr<TokenIds> TokenizePrompt(std::string_view field, const Prompt& prompt,
                                        const EncodeTextOptions& options, int32_t limit,
                                        std::string_view hint, const ModelFacts& model);
// Returns the ids of an encoder's input (text or ids), at least one. If `truncate` says so, they
// are cut to the model's longest input.
absl::StatusOr<TokenIds> TokenizeWithin(std::string_view field, Prompt&& prompt,
                                        EncodeTruncation truncate, std::string_view hint,
                                        const ModelFacts& model);
// Returns the tokens of a text that is a whole input, `field`; otherwise as TokenizeWithin.
absl::StatusOr<std::vector<InputToken>> TokenizeText(std::string_view field,
                                                     const std::string& text,
                                                     EncodeTruncation truncate,
                                                     const ModelFacts& model);
// An error if `bytes` bytes of text must have more tokens than an input may have.
absl::Status CheckBytesFit(std::string_view field, size_t bytes, const ModelFacts& model);
// Bytes begin .. end - 1 of a text.
struct TextRange {
  size_t begin = 0;
  size_t end = 0;
};
// Tokenizes a text of which one part is `field`. If `truncate` says so, tokens of that part are
// cut. Special tokens that the text itself has at its start or end are not added again by the
// template. Returns at least one id.
absl::StatusOr<TokenIds> TokenizeAround(std::string_view field, const std::string& text,
                                        TextRange part, EncodeTruncation truncate,
                                        const ModelFacts& model);
// Tokenizes one text of a pair, without special tokens. `field` names that text.
absl::StatusOr<TokenIds> TokenizePart(std::string_view field, const std::string& text,
                                      Truncation truncation, const ModelFacts& model);
// Tokenizes the prompt of a request, a text in this language (empty: the tokenizer's default). An
// empty text becomes the model's BOS token.
absl::StatusOr<TokenIds> TokenizeInput(const Prompt& prompt, std::string_view language,
                                       const ModelFacts& model);

}  // namespace beamline

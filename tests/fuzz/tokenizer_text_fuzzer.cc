// A text of any bytes, by a tokenizer of each kind. The first byte chooses the tokenizer, 'A' for
// the first one of kFolders.
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "base/check.h"
#include "base/text.h"
#include "base/utf8.h"
#include "engine/text/tokenizer.h"
#include "tests/fuzz/checks.h"

namespace beamline {
namespace {

struct Folder {
  const char* name;
  // Decoding brings back every text: nothing is normalised, and there is a token for each byte.
  bool is_exact = false;
};

// New ones go to the end: the corpus counts on the order.
constexpr Folder kFolders[] = {
    {"models/write-en", true},
    {"models/translate-en-de"},
    {"models/embed-en"},
    {"tests/engine/text/fixtures/llama2"},
    {"tests/engine/text/fixtures/llama3"},
    {"tests/engine/text/fixtures/o200k"},
    {"tests/engine/text/fixtures/clip"},
    {"tests/engine/text/fixtures/t5"},
    {"tests/engine/text/fixtures/unigram_bytes"},
    {"tests/engine/text/fixtures/wordpiece"},
    {"tests/engine/text/fixtures/roberta"},
    {"tests/engine/text/fixtures/char_bpe"},
    {"tests/engine/text/fixtures/added_spaces"},
    {"tests/engine/text/fixtures/marks_nfkc"},
    {"tests/engine/text/fixtures/metaspace_first_stripped"},
    {"tests/engine/text/fixtures/byte_normalized"},
    {"tests/engine/text/fixtures/split_merged_with_previous_inverted"},
    {"tests/engine/text/fixtures/special_normalized"},
};

const Tokenizer& TokenizerOf(size_t index) {
  static std::vector<std::unique_ptr<Tokenizer>> tokenizers(std::size(kFolders));
  if (tokenizers[index] == nullptr) {
    auto loaded = LoadTokenizer(std::string(BEAMLINE_SOURCE_DIR) + "/" + kFolders[index].name);
    if (!loaded.ok()) std::fprintf(stderr, "%s\n", loaded.status().ToString().c_str());
    BEAMLINE_CHECK(loaded.ok());
    tokenizers[index] = *std::move(loaded);
  }
  return *tokenizers[index];
}

void CheckRoundTrip(const Tokenizer& tokenizer, std::string_view text) {
  const auto tokens = tokenizer.Encode(text, {.add_special_tokens = false});
  BEAMLINE_CHECK(tokens.ok());
  std::vector<int32_t> ids;
  for (const Token& token : *tokens) ids.push_back(token.id);
  const auto decoded = tokenizer.Decode(ids, /*skip_special_tokens=*/false);
  BEAMLINE_CHECK(decoded.ok() && *decoded == text);
}

}  // namespace
}  // namespace beamline

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace beamline;
  if (size == 0) return 0;
  const size_t index = static_cast<uint8_t>(data[0] - 'A') % std::size(kFolders);
  const std::string_view text = AsText(data + 1, size - 1);
  CheckTokenizer(TokenizerOf(index), text);
  if (kFolders[index].is_exact && IsValidUtf8(text)) CheckRoundTrip(TokenizerOf(index), text);
  return 0;
}

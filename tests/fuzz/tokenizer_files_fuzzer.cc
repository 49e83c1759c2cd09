// A tokenizer's files: one of them of any bytes among the others as they should be. The first byte
// chooses the file, 'A' for the first one of kFiles.
#include <array>
#include <cstdint>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "engine/text/tokenizer.h"
#include "tests/engine/checkpoint/checkpoint_folder.h"
#include "tests/fuzz/checks.h"

namespace beamline {
namespace {

using nlohmann::json;

enum class Family { kBpe, kWords, kBytes, kMarian, kLlama };

struct TokenizerFile {
  Family family;
  const char* name;
};

// New ones go to the end: the corpus counts on the order.
constexpr TokenizerFile kFiles[] = {
    {Family::kBpe, "tokenizer.json"},
    {Family::kBpe, "tokenizer_config.json"},
    {Family::kBpe, "special_tokens_map.json"},
    {Family::kWords, "vocab.txt"},
    {Family::kWords, "tokenizer_config.json"},
    {Family::kBytes, "vocab.json"},
    {Family::kBytes, "merges.txt"},
    {Family::kBytes, "tokenizer_config.json"},
    {Family::kMarian, "vocab.json"},
    {Family::kMarian, "tokenizer_config.json"},
    {Family::kLlama, "tokenizer.model"},
    {Family::kLlama, "tokenizer_config.json"},
};

constexpr std::array<std::string_view, 4> kTexts = {
    "ab <s> Hello, w\u00f6rld! \u4e2d\u6587 \u0e33 a\u0301 \U0001F600 123  x", "", " ",
    "aaab\n<mask>"};

// "a" to "z" and two special tokens.
json Letters(const char* end) {
  json vocabulary = {{end, 0}, {"<unk>", 1}, {"ab", 2}};
  for (char c = 'a'; c <= 'z'; ++c) vocabulary[std::string(1, c)] = 3 + c - 'a';
  return vocabulary;
}

// A SentencePiece model of letters, field by field of its protocol buffer.
std::string SentencePieces() {
  std::string model;
  const auto add = [&model](std::string_view text, char type) {
    std::string piece = "\x0A" + std::string(1, static_cast<char>(text.size())) + std::string(text);
    piece += std::string("\x15\x00\x00\x80\xBF\x18", 6) + type;  // score -1
    model += "\x0A" + std::string(1, static_cast<char>(piece.size())) + piece;
  };
  add("<unk>", 2);
  add("</s>", 3);
  add("\u2581", 1);
  add("ab", 1);
  for (char c = 'a'; c <= 'z'; ++c) add(std::string(1, c), 1);
  return model;
}

void WriteFiles(Family family, const TemporaryFolder& folder) {
  switch (family) {
    case Family::kBpe:
      folder.WriteJson("tokenizer.json",
                       {{"added_tokens", {{{"id", 29}, {"content", "<s>"}, {"special", true}}}},
                        {"normalizer", {{"type", "Lowercase"}}},
                        {"pre_tokenizer", {{"type", "Whitespace"}}},
                        {"decoder", {{"type", "Fuse"}}},
                        {"model",
                         {{"type", "BPE"},
                          {"unk_token", "<unk>"},
                          {"vocab", Letters("</s>")},
                          {"merges", {{"a", "b"}}}}}});
      break;
    case Family::kWords:
      folder.Write("vocab.txt",
                   "[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\nab\n##c\nhello\n,\n!\n1\n##2\n");
      folder.WriteJson("tokenizer_config.json", {{"do_lower_case", true}});
      break;
    case Family::kBytes:
      folder.WriteJson("vocab.json", Letters("<|endoftext|>"));
      folder.Write("merges.txt", "#version: 0.2\na b\n");
      break;
    case Family::kMarian:
      folder.WriteJson("vocab.json", Letters("</s>"));
      folder.Write("source.spm", SentencePieces());
      folder.Write("target.spm", SentencePieces());
      break;
    case Family::kLlama:
      folder.Write("tokenizer.model", SentencePieces() + "\x12\x02\x18\x02");  // of type BPE
      folder.WriteJson("tokenizer_config.json", {{"tokenizer_class", "LlamaTokenizer"}});
      break;
  }
}

// A folder for each file, made once.
const TemporaryFolder& FolderOf(size_t index) {
  static std::vector<std::unique_ptr<TemporaryFolder>> folders(std::size(kFiles));
  if (folders[index] == nullptr) {
    folders[index] = std::make_unique<TemporaryFolder>();
    WriteFiles(kFiles[index].family, *folders[index]);
  }
  return *folders[index];
}

}  // namespace
}  // namespace beamline

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace beamline;
  if (size == 0) return 0;
  const size_t index = static_cast<uint8_t>(data[0] - 'A') % std::size(kFiles);
  const TemporaryFolder& folder = FolderOf(index);
  folder.Write(kFiles[index].name, AsText(data + 1, size - 1));
  const auto tokenizer = LoadTokenizer(folder.path());
  if (!tokenizer.ok()) {
    CheckRefusal(tokenizer.status(), folder.path());
    return 0;
  }
  for (const std::string_view text : kTexts) CheckTokenizer(**tokenizer, text);
  return 0;
}

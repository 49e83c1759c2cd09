#include "engine/text/bpe_model.h"

#include <algorithm>
#include <limits>
#include <queue>

#include "base/status.h"
#include "base/utf8.h"
#include "engine/text/byte_alphabet.h"
#include "engine/text/word_cache.h"
#include "fmt/format.h"

namespace beamline::text {
namespace {

constexpr int32_t kNoSymbol = -1;
// Up to this many symbols, rescanning the word is faster than a queue.
constexpr size_t kMaxScannedSymbols = 48;

uint64_t PairKey(int32_t left, int32_t right) {
  return static_cast<uint64_t>(static_cast<uint32_t>(left)) << 32 | static_cast<uint32_t>(right);
}

}  // namespace

BpeModel::BpeModel(Vocabulary vocabulary, BpeConfig config)
    : vocabulary_(std::move(vocabulary)),
      config_(std::move(config)),
      cache_owner_(WordCache::NewOwner()) {
  byte_ids_.fill(kNoSymbol);
  if (!config_.unk_token.empty()) unk_id_ = vocabulary_.Find(config_.unk_token);
  if (!config_.raw_bytes) {
    for (size_t byte = 0; byte < byte_ids_.size(); ++byte) {
      byte_ids_[byte] = vocabulary_.Find(fmt::format("<0x{:02X}>", byte)).value_or(kNoSymbol);
    }
    return;
  }
  raw_tokens_.resize(static_cast<size_t>(vocabulary_.size()));
  for (const auto& [spelling, id] : vocabulary_.ids()) {
    std::optional<std::string> bytes = BytesOfSpelling(spelling);
    if (!bytes.has_value()) continue;  // no text can produce this token
    std::string& raw = raw_tokens_[static_cast<size_t>(id)];
    raw = *std::move(bytes);
    raw_ids_.emplace(raw, id);
    if (raw.size() == 1) byte_ids_[static_cast<uint8_t>(raw[0])] = id;
  }
}

absl::StatusOr<std::unique_ptr<BpeModel>> BpeModel::Make(Vocabulary vocabulary,
                                                         const BpeMerges& merges,
                                                         BpeConfig config) {
  if (!config.unk_token.empty() && !vocabulary.Find(config.unk_token).has_value()) {
    return absl::InvalidArgumentError(
        fmt::format("unk_token \"{}\" is not in the vocabulary", config.unk_token));
  }
  std::unique_ptr<BpeModel> model(new BpeModel(std::move(vocabulary), std::move(config)));
  BEAMLINE_RETURN_IF_ERROR(model->AddMerges(merges));
  return model;
}

absl::Status BpeModel::AddMerges(const BpeMerges& merges) {
  merges_.reserve(merges.size());
  for (size_t rank = 0; rank < merges.size(); ++rank) {
    const std::string& left = merges[rank].first;
    const std::string& right = merges[rank].second;
    const auto missing = [&](std::string_view token) {
      return absl::InvalidArgumentError(fmt::format(
          "merge {} (\"{}\" \"{}\"): \"{}\" is not in the vocabulary", rank, left, right, token));
    };
    const auto left_id = vocabulary_.Find(left);
    if (!left_id.has_value()) return missing(left);
    const auto right_id = vocabulary_.Find(right);
    if (!right_id.has_value()) return missing(right);
    const size_t prefix = std::min(config_.continuing_subword_prefix.size(), right.size());
    const std::string joined = left + right.substr(prefix);
    const auto id = vocabulary_.Find(joined);
    if (!id.has_value()) return missing(joined);
    merges_.insert_or_assign(PairKey(*left_id, *right_id), Merge{static_cast<int32_t>(rank), *id});
  }
  return absl::OkStatus();
}

std::optional<int32_t> BpeModel::FindWord(std::string_view word) const {
  if (!config_.raw_bytes) return vocabulary_.Find(word);
  const auto it = raw_ids_.find(word);
  if (it == raw_ids_.end()) return std::nullopt;
  return it->second;
}

const BpeModel::Merge* BpeModel::FindMerge(int32_t left, int32_t right) const {
  const auto it = merges_.find(PairKey(left, right));
  return it == merges_.end() ? nullptr : &it->second;
}

bool BpeModel::AppendFallbackBytes(std::string_view text, Symbols* symbols) const {
  const auto id_of = [&](char c) { return byte_ids_[static_cast<uint8_t>(c)]; };
  if (std::any_of(text.begin(), text.end(), [&](char c) { return id_of(c) == kNoSymbol; })) {
    return false;
  }
  for (const char c : text) symbols->push_back({id_of(c), 1, kNoSymbol, kNoSymbol});
  return true;
}

void BpeModel::MakeSymbols(std::string_view word, Symbols* symbols) const {
  int32_t unknown_bytes = 0;
  const auto flush_unknown = [&] {
    if (unknown_bytes > 0) symbols->push_back({*unk_id_, unknown_bytes, kNoSymbol, kNoSymbol});
    unknown_bytes = 0;
  };
  std::string affixed;
  for (size_t begin = 0; begin < word.size();) {
    const size_t length = config_.raw_bytes ? 1 : CharLength(word[begin]);
    std::string_view symbol = word.substr(begin, length);
    const bool first = begin == 0;
    const bool last = begin + length == word.size();
    begin += length;
    if ((!first && !config_.continuing_subword_prefix.empty()) ||
        (last && !config_.end_of_word_suffix.empty())) {
      affixed.clear();
      if (!first) affixed = config_.continuing_subword_prefix;
      affixed += symbol;
      if (last) affixed += config_.end_of_word_suffix;
      symbol = affixed;
    }
    int32_t id;
    if (config_.raw_bytes) {
      id = byte_ids_[static_cast<uint8_t>(symbol[0])];
    } else {
      id = vocabulary_.Find(symbol).value_or(kNoSymbol);
    }
    if (id != kNoSymbol) {
      flush_unknown();
      symbols->push_back({id, static_cast<int32_t>(length), kNoSymbol, kNoSymbol});
    } else if (config_.byte_fallback && AppendFallbackBytes(symbol, symbols)) {
      continue;
    } else if (unk_id_.has_value()) {
      if (!config_.fuse_unk) flush_unknown();
      unknown_bytes += static_cast<int32_t>(length);
    }
  }
  flush_unknown();
  for (size_t i = 0; i < symbols->size(); ++i) {
    (*symbols)[i].previous = static_cast<int32_t>(i) - 1;
    (*symbols)[i].next = i + 1 < symbols->size() ? static_cast<int32_t>(i) + 1 : kNoSymbol;
  }
}

void BpeModel::Join(Symbols* symbols, int32_t position, int32_t id) const {
  Symbol& left = (*symbols)[static_cast<size_t>(position)];
  Symbol& right = (*symbols)[static_cast<size_t>(left.next)];
  left.id = id;
  left.length += right.length;
  left.next = right.next;
  right.length = 0;
  if (left.next != kNoSymbol) (*symbols)[static_cast<size_t>(left.next)].previous = position;
}

// Applies the merge of lowest rank, leftmost first, until none applies.
void BpeModel::MergeShort(Symbols* symbols) const {
  constexpr Merge kNoMerge{std::numeric_limits<int32_t>::max(), kNoSymbol};
  std::array<Merge, kMaxScannedSymbols> merges;  // of each symbol with its right neighbour
  const auto merge_at = [&](int32_t position) {
    const Symbol& left = (*symbols)[static_cast<size_t>(position)];
    if (left.next == kNoSymbol) return kNoMerge;
    const Merge* merge = FindMerge(left.id, (*symbols)[static_cast<size_t>(left.next)].id);
    return merge == nullptr ? kNoMerge : *merge;
  };
  const size_t count = symbols->size();
  for (size_t i = 0; i < count; ++i) merges[i] = merge_at(static_cast<int32_t>(i));
  while (true) {
    size_t best = 0;
    for (size_t i = 1; i < count; ++i) {
      if (merges[i].rank < merges[best].rank) best = i;
    }
    if (merges[best].id == kNoSymbol) return;
    const Symbol& left = (*symbols)[best];
    merges[static_cast<size_t>(left.next)] = kNoMerge;
    Join(symbols, static_cast<int32_t>(best), merges[best].id);
    merges[best] = merge_at(static_cast<int32_t>(best));
    if (left.previous != kNoSymbol)
      merges[static_cast<size_t>(left.previous)] = merge_at(left.previous);
  }
}

// The same with a queue: O(n log n) for words of any length.
void BpeModel::MergeLong(Symbols* symbols) const {
  struct Candidate {
    int32_t rank;
    int32_t position;
    int32_t left;  // ids when queued; the entry is stale if they have changed
    int32_t right;
    int32_t id;
    bool operator<(const Candidate& other) const {
      return rank != other.rank ? rank > other.rank : position > other.position;
    }
  };
  std::priority_queue<Candidate> queue;
  const auto push = [&](int32_t position) {
    if (position == kNoSymbol) return;
    const Symbol& left = (*symbols)[static_cast<size_t>(position)];
    if (left.next == kNoSymbol) return;
    const int32_t right = (*symbols)[static_cast<size_t>(left.next)].id;
    if (const Merge* merge = FindMerge(left.id, right)) {
      queue.push({merge->rank, position, left.id, right, merge->id});
    }
  };
  for (size_t i = 0; i < symbols->size(); ++i) push(static_cast<int32_t>(i));
  while (!queue.empty()) {
    const Candidate top = queue.top();
    queue.pop();
    const Symbol& left = (*symbols)[static_cast<size_t>(top.position)];
    if (left.length == 0 || left.next == kNoSymbol || left.id != top.left ||
        (*symbols)[static_cast<size_t>(left.next)].id != top.right) {
      continue;
    }
    Join(symbols, top.position, top.id);
    push(left.previous);
    push(top.position);
  }
}

absl::Status BpeModel::Tokenize(std::string_view word, TextWork&,
                                std::vector<WordToken>* tokens) const {
  WordCache& cache = WordCache::OfThread();
  if (cache.Find(cache_owner_, word, tokens)) return absl::OkStatus();
  const size_t first = tokens->size();
  const std::optional<int32_t> whole = config_.ignore_merges ? FindWord(word) : std::nullopt;
  if (whole.has_value()) {
    tokens->push_back({*whole, 0, static_cast<int32_t>(word.size())});
  } else {
    thread_local Symbols symbols;
    symbols.clear();
    MakeSymbols(word, &symbols);
    if (!symbols.empty() && symbols.size() <= kMaxScannedSymbols) {
      MergeShort(&symbols);
    } else {
      MergeLong(&symbols);
    }
    int32_t position = 0;
    for (const Symbol& symbol : symbols) {
      if (symbol.length == 0) continue;
      // Fallback bytes of an affix correspond to no byte of the word.
      const int32_t end = std::min(position + symbol.length, static_cast<int32_t>(word.size()));
      tokens->push_back({symbol.id, std::min(position, end), end});
      position = end;
    }
  }
  cache.Store(cache_owner_, word, tokens->data() + first, tokens->size() - first);
  return absl::OkStatus();
}

}  // namespace beamline::text

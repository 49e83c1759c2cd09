#include "engine/text/regex.h"

#include <oniguruma.h>

#include <algorithm>
#include <utility>

#include "base/check.h"
#include "base/status.h"
#include "base/utf8.h"
#include "engine/text/counted_pattern.h"
#include "fmt/format.h"

namespace beamline::text {
namespace {

// Oniguruma's compile time is quadratic in the length of a case-insensitive literal, and
// exponential in the number of groups that call others twice.
constexpr size_t kMaxPatternBytes = 16 << 10;
constexpr size_t kMaxCalls = 32;
// Oniguruma's default limit per position in the text; Hugging Face's library uses it, too.
constexpr unsigned long kMostRetries = 10'000'000;
// Per search; retries beyond this count as work.
constexpr unsigned long kRetriesForFree = 128;
// Entries of about 32 bytes.
constexpr size_t kStackForAll = size_t{1} << 20;
constexpr size_t kStackPerByte = 4;

const OnigUChar* Bytes(std::string_view text) {
  return reinterpret_cast<const OnigUChar*>(text.data());
}

// Initialises Oniguruma once; its initialisation is not thread safe.
void Initialize() {
  static const bool initialized = [] {
    OnigEncoding encoding = ONIG_ENCODING_UTF8;
    return onig_initialize(&encoding, 1) == ONIG_NORMAL;
  }();
  BEAMLINE_CHECK(initialized);
}

std::string ErrorMessage(int code, OnigErrorInfo* info) {
  OnigUChar message[ONIG_MAX_ERROR_MESSAGE_LEN];
  const int size = onig_error_code_to_str(message, code, info);
  return std::string(reinterpret_cast<char*>(message), static_cast<size_t>(size));
}

// Compiles the pattern unchanged; the caller frees *regex.
absl::Status CompileAsIs(std::string_view pattern, OnigRegex* regex) {
  OnigErrorInfo info = {};
  const OnigUChar* const begin = Bytes(pattern);
  const int result = onig_new(regex, begin, begin + pattern.size(), ONIG_OPTION_NONE,
                              ONIG_ENCODING_UTF8, ONIG_SYNTAX_ONIGURUMA, &info);
  if (result == ONIG_NORMAL) return absl::OkStatus();
  return absl::InvalidArgumentError(ErrorMessage(result, &info));
}

// Scratch objects that one thread needs to match.
class MatchScratch {
 public:
  MatchScratch() : param_(onig_new_match_param()), region_(onig_region_new()) {
    onig_initialize_match_param(param_);
  }
  ~MatchScratch() {
    onig_region_free(region_, 1);
    onig_free_match_param(param_);
  }
  MatchScratch(const MatchScratch&) = delete;
  MatchScratch& operator=(const MatchScratch&) = delete;

  OnigMatchParam* param() { return param_; }
  OnigRegion* region() { return region_; }

 private:
  OnigMatchParam* param_;
  OnigRegion* region_;
};

// State of one search, updated by its callouts (counted_pattern.h).
struct Search {
  TextWork* work;
  size_t units_per_callout;
  const OnigUChar* position = nullptr;  // position of the previous callout
};

int CountWork(OnigCalloutArgs* args, void* data) {
  Search& search = *static_cast<Search*>(data);
  const OnigUChar* const position = onig_get_current_by_callout_args(args);
  const auto bytes = static_cast<size_t>(std::max(position, search.position) -
                                         std::min(position, search.position));
  search.position = position;
  return search.work->Spend(search.units_per_callout + bytes) ? ONIG_CALLOUT_SUCCESS : ONIG_ABORT;
}

bool HasTooManyRetries(int result) {
  return result == ONIGERR_RETRY_LIMIT_IN_MATCH_OVER ||
         result == ONIGERR_RETRY_LIMIT_IN_SEARCH_OVER;
}

// onig_search from `start` on. If the retries do not suffice, it is repeated with twice as many,
// because Oniguruma does not report how many it used.
int FindNext(OnigRegex regex, std::string_view text, size_t start, Search* search,
             MatchScratch* scratch) {
  const OnigUChar* const begin = Bytes(text);
  const OnigUChar* const end = begin + text.size();
  for (unsigned long retries = kRetriesForFree;; retries *= 2) {
    onig_set_retry_limit_in_match_of_match_param(scratch->param(), std::min(retries, kMostRetries));
    onig_set_retry_limit_in_search_of_match_param(scratch->param(), retries);
    search->position = begin + start;
    const int result =
        onig_search_with_param(regex, begin, end, begin + start, end, scratch->region(),
                               ONIG_OPTION_NONE, scratch->param());
    if (!HasTooManyRetries(result)) return result;
    if (!search->work->Spend(retries)) return ONIG_ABORT;
    if (result == ONIGERR_RETRY_LIMIT_IN_MATCH_OVER && retries > kMostRetries) return result;
  }
}

}  // namespace

struct Regex::Impl {
  OnigRegex compiled = nullptr;
  // Extra cost of a callout: the text's bytes divided by this. 0: none.
  size_t text_bytes_per_unit = 0;
  size_t units_per_callout = 1;
  size_t units_per_match = 1;  // cost of examining the pattern
  ~Impl() { onig_free(compiled); }
};

Regex::Regex(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Regex::Regex(Regex&&) noexcept = default;
Regex& Regex::operator=(Regex&&) noexcept = default;
Regex::~Regex() = default;

absl::StatusOr<Regex> Regex::Compile(std::string_view pattern) {
  if (pattern.size() > kMaxPatternBytes) {
    return absl::InvalidArgumentError(fmt::format("pattern of {} bytes; at most {} are accepted",
                                                  pattern.size(), kMaxPatternBytes));
  }
  Initialize();
  auto impl = std::make_unique<Impl>();
  const CountedPattern counted = AddCallouts(pattern);
  if (counted.calls > kMaxCalls) {
    return absl::InvalidArgumentError(
        fmt::format("pattern {}: {} calls of groups (\\g); at most {} are accepted", pattern,
                    counted.calls, kMaxCalls));
  }
  // Compiles the original first, so that errors refer to the file's pattern.
  absl::Status status = CompileAsIs(pattern, &impl->compiled);
  if (status.ok()) {
    onig_free(std::exchange(impl->compiled, nullptr));
    status = CompileAsIs(counted.pattern, &impl->compiled);
  }
  if (!status.ok()) {
    return absl::InvalidArgumentError(
        fmt::format("pattern {}: {}", pattern, std::string(status.message())));
  }
  constexpr size_t kPatternBytesPerUnit = 64;
  constexpr size_t kCalloutsPerUnit = 2;
  constexpr size_t kLiteralBytesPerUnit = 16;
  constexpr size_t kClusterBytesPerUnit = 64;
  impl->text_bytes_per_unit = counted.reads_far        ? 1
                              : counted.reads_clusters ? kClusterBytesPerUnit
                                                       : 0;
  impl->units_per_callout = 1 + counted.longest_literal / kLiteralBytesPerUnit;
  impl->units_per_match =
      1 + pattern.size() / kPatternBytesPerUnit + counted.callouts / kCalloutsPerUnit;
  return Regex(std::move(impl));
}

absl::StatusOr<Regex> Regex::CompileLiteral(std::string_view literal) {
  constexpr std::string_view kSpecial = "\\.+*?()|[]{}^$";
  std::string pattern;
  for (const char c : literal) {
    if (kSpecial.find(c) != std::string_view::npos) pattern.push_back('\\');
    pattern.push_back(c);
  }
  return Compile(pattern);
}

absl::Status Regex::FindAll(std::string_view text, std::vector<RegexMatch>* matches,
                            TextWork* work) const {
  thread_local MatchScratch scratch;
  TextWork own(text.size());
  if (work == nullptr) work = &own;
  Search search = {work, impl_->units_per_callout};
  if (impl_->text_bytes_per_unit > 0) {
    search.units_per_callout += text.size() / impl_->text_bytes_per_unit;
  }
  onig_set_progress_callout_of_match_param(scratch.param(), CountWork);
  onig_set_callout_user_data_of_match_param(scratch.param(), &search);
  onig_set_match_stack_limit_size_of_match_param(
      scratch.param(), static_cast<unsigned int>(kStackForAll + kStackPerByte * text.size()));
  size_t start = 0;
  // As in the reference: an empty match directly after the previous match is dropped, and the
  // search continues one character later.
  size_t last_end = std::string_view::npos;
  while (start <= text.size()) {
    if (!work->Spend(impl_->units_per_match)) return work->status();
    const int result = FindNext(impl_->compiled, text, start, &search, &scratch);
    if (result == ONIG_MISMATCH) break;
    if (!work->status().ok()) return work->status();
    if (result < 0) {
      OnigErrorInfo info = {};
      return absl::InvalidArgumentError(
          fmt::format("the tokenizer's regular expression gave up on this text at byte {}: {}",
                      start, ErrorMessage(result, &info)));
    }
    const auto begin = static_cast<size_t>(scratch.region()->beg[0]);
    const auto end = static_cast<size_t>(scratch.region()->end[0]);
    if (begin == end && end == last_end) {
      start += start < text.size() ? CharLength(text[start]) : 1;
      continue;
    }
    // Possible with \K in a look-ahead or look-behind.
    if (begin > end || begin < start) {
      return absl::InvalidArgumentError(
          fmt::format("a match of the tokenizer's regular expression begins before byte {}, where "
                      "the last ended",
                      start));
    }
    start = last_end = end;
    matches->push_back({begin, end});
  }
  return absl::OkStatus();
}

}  // namespace beamline::text

#include "engine/text/regex.h"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

#include <algorithm>
#include <utility>

#include "base/status.h"
#include "base/utf8.h"
#include "engine/text/counted_pattern.h"
#include "engine/text/oniguruma.h"
#include "fmt/format.h"

namespace beamline::text {
namespace {

constexpr size_t kJitStackStart = 64 << 10;
constexpr size_t kJitStackMax = 16 << 20;
constexpr size_t kMaxPatternBytes = 64 << 10;

// What one thread needs to match: the JIT's stack and room for the bounds of a match.
class MatchScratch {
 public:
  MatchScratch()
      : data_(pcre2_match_data_create(1, nullptr)),
        context_(pcre2_match_context_create(nullptr)),
        stack_(pcre2_jit_stack_create(kJitStackStart, kJitStackMax, nullptr)) {
    pcre2_jit_stack_assign(context_, nullptr, stack_);
  }
  ~MatchScratch() {
    pcre2_match_context_free(context_);
    pcre2_jit_stack_free(stack_);
    pcre2_match_data_free(data_);
  }
  MatchScratch(const MatchScratch&) = delete;
  MatchScratch& operator=(const MatchScratch&) = delete;

  pcre2_match_data* data() { return data_; }
  pcre2_match_context* context() { return context_; }

 private:
  pcre2_match_data* data_;
  pcre2_match_context* context_;
  pcre2_jit_stack* stack_;
};

// What the callouts of one search tell it (counted_pattern.h).
struct Search {
  TextWork* work;
  size_t units_per_callout;
  size_t position = 0;  // of the one before
};

int CountWork(pcre2_callout_block* block, void* data) {
  Search& search = *static_cast<Search*>(data);
  const size_t position = block->current_position;
  const size_t bytes = std::max(position, search.position) - std::min(position, search.position);
  search.position = position;
  return search.work->Spend(search.units_per_callout + block->callout_number + bytes)
             ? 0
             : PCRE2_ERROR_CALLOUT;
}

pcre2_code* CompileWith(std::string_view pattern, uint32_t options, int* error,
                        PCRE2_SIZE* error_offset) {
  pcre2_compile_context* context = pcre2_compile_context_create(nullptr);
  pcre2_set_newline(context, PCRE2_NEWLINE_LF);
  constexpr uint32_t kOptions = PCRE2_UTF | PCRE2_UCP | PCRE2_MULTILINE | PCRE2_NEVER_BACKSLASH_C;
  pcre2_code* const code =
      pcre2_compile(reinterpret_cast<PCRE2_SPTR>(pattern.data()), pattern.size(),
                    kOptions | options, error, error_offset, context);
  pcre2_compile_context_free(context);
  return code;
}

std::string ErrorMessage(int code) {
  PCRE2_UCHAR buffer[256];
  pcre2_get_error_message(code, buffer, sizeof(buffer));
  return reinterpret_cast<const char*>(buffer);
}

}  // namespace

struct Regex::Impl {
  pcre2_code* code = nullptr;
  bool jit = false;
  bool has_back_references = false;
  size_t units_per_match = 1;  // of looking at the pattern
  ~Impl() { pcre2_code_free(code); }
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
  BEAMLINE_ASSIGN_OR_RETURN(const std::string translated, TranslatePattern(pattern));
  int error = 0;
  PCRE2_SIZE error_offset = 0;
  auto impl = std::make_unique<Impl>();
  // By itself first: its faults are the file's.
  pcre2_code* const plain = CompileWith(translated, 0, &error, &error_offset);
  if (plain == nullptr) {
    return absl::InvalidArgumentError(
        fmt::format("pattern {}: {} at byte {}", pattern, ErrorMessage(error), error_offset));
  }
  pcre2_code_free(plain);
  const CountedPattern counted = AddCallouts(translated);
  impl->has_back_references = counted.has_back_references;
  impl->code = CompileWith(counted.pattern, 0, &error, &error_offset);
  if (impl->code == nullptr) {
    // A way of writing that AddCallouts does not know: PCRE2's own callouts, slower ones.
    impl->code = CompileWith(translated, PCRE2_AUTO_CALLOUT, &error, &error_offset);
  }
  if (impl->code == nullptr) {
    return absl::InvalidArgumentError(
        fmt::format("pattern {}: {} at byte {}", pattern, ErrorMessage(error), error_offset));
  }
  constexpr size_t kPatternBytesPerUnit = 64;
  impl->units_per_match = 1 + pattern.size() / kPatternBytesPerUnit;
  impl->jit = pcre2_jit_compile(impl->code, PCRE2_JIT_COMPLETE) == 0;
  return Regex(std::move(impl));
}

absl::StatusOr<Regex> Regex::CompileLiteral(std::string_view literal) {
  std::string pattern;
  for (const char c : literal) {
    const auto byte = static_cast<uint8_t>(c);
    const bool plain = byte >= 0x80 || byte <= ' ' || (c >= '0' && c <= '9') ||
                       (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z');
    if (!plain) pattern.push_back('\\');
    pattern.push_back(c);
  }
  return Compile(pattern);
}

absl::Status Regex::FindAll(std::string_view text, std::vector<RegexMatch>* matches,
                            TextWork* work) const {
  thread_local MatchScratch scratch;
  TextWork own(text.size());
  if (work == nullptr) work = &own;
  // A back reference may compare all of the text before it fails.
  Search search = {work, impl_->has_back_references ? 1 + text.size() : 1};
  pcre2_set_callout(scratch.context(), CountWork, &search);
  const auto* subject = reinterpret_cast<PCRE2_SPTR>(text.data());
  const auto match = impl_->jit ? pcre2_jit_match : pcre2_match;
  const PCRE2_SIZE* bounds = pcre2_get_ovector_pointer(scratch.data());
  size_t start = 0;
  // Like Oniguruma's find_iter: after an empty match the search goes on one character further, and
  // an empty match right behind the one before is dropped.
  size_t last_end = std::string_view::npos;
  while (start <= text.size()) {
    search.position = start;
    if (!work->Spend(impl_->units_per_match)) return work->status();
    const int result = match(impl_->code, subject, text.size(), start, PCRE2_NO_UTF_CHECK,
                             scratch.data(), scratch.context());
    if (result == PCRE2_ERROR_NOMATCH) break;
    if (result == PCRE2_ERROR_CALLOUT) return work->status();
    if (result < 0) {
      return absl::InvalidArgumentError(
          fmt::format("the tokenizer's regular expression gave up on this text at byte {}: {}",
                      start, ErrorMessage(result)));
    }
    const size_t begin = bounds[0], end = bounds[1];
    if (begin == end) {
      start = end < text.size() ? end + CharLength(text[end]) : end + 1;
      if (end == last_end) continue;
    } else {
      start = end;
    }
    last_end = end;
    matches->push_back({begin, end});
  }
  return absl::OkStatus();
}

}  // namespace beamline::text

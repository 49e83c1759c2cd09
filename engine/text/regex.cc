#include "engine/text/regex.h"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

#include <utility>

#include "base/status.h"
#include "base/utf8.h"
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

std::string ErrorMessage(int code) {
  PCRE2_UCHAR buffer[256];
  pcre2_get_error_message(code, buffer, sizeof(buffer));
  return reinterpret_cast<const char*>(buffer);
}

}  // namespace

struct Regex::Impl {
  pcre2_code* code = nullptr;
  bool jit = false;
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
  pcre2_compile_context* context = pcre2_compile_context_create(nullptr);
  pcre2_set_newline(context, PCRE2_NEWLINE_LF);
  int error = 0;
  PCRE2_SIZE error_offset = 0;
  auto impl = std::make_unique<Impl>();
  impl->code = pcre2_compile(reinterpret_cast<PCRE2_SPTR>(translated.data()), translated.size(),
                             PCRE2_UTF | PCRE2_UCP | PCRE2_MULTILINE | PCRE2_NEVER_BACKSLASH_C,
                             &error, &error_offset, context);
  pcre2_compile_context_free(context);
  if (impl->code == nullptr) {
    return absl::InvalidArgumentError(
        fmt::format("pattern {}: {} at byte {}", pattern, ErrorMessage(error), error_offset));
  }
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

absl::Status Regex::FindAll(std::string_view text, std::vector<RegexMatch>* matches) const {
  thread_local MatchScratch scratch;
  const auto* subject = reinterpret_cast<PCRE2_SPTR>(text.data());
  const auto match = impl_->jit ? pcre2_jit_match : pcre2_match;
  const PCRE2_SIZE* bounds = pcre2_get_ovector_pointer(scratch.data());
  size_t start = 0;
  // Like Oniguruma's find_iter: after an empty match the search goes on one character further, and
  // an empty match right behind the one before is dropped.
  size_t last_end = std::string_view::npos;
  while (start <= text.size()) {
    const int result = match(impl_->code, subject, text.size(), start, PCRE2_NO_UTF_CHECK,
                             scratch.data(), scratch.context());
    if (result == PCRE2_ERROR_NOMATCH) break;
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

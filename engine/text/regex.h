// Regular expressions of tokenizer files, executed by Oniguruma, for which they are written.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "engine/text/text_work.h"

namespace beamline::text {

struct RegexMatch {
  size_t begin;
  size_t end;
};

// Immutable, thread safe. Uses Oniguruma's syntax, as Hugging Face's tokenizers do.
class Regex {
 public:
  // INVALID_ARGUMENT with the pattern and Oniguruma's message. REQUIRES: valid UTF-8.
  static absl::StatusOr<Regex> Compile(std::string_view pattern);
  static absl::StatusOr<Regex> CompileLiteral(std::string_view literal);

  Regex(Regex&&) noexcept;
  Regex& operator=(Regex&&) noexcept;
  ~Regex();

  // Finds all matches, from left to right, not overlapping. What the pattern reads is spent from
  // `work`; if it is exhausted, its status is returned. Null: a separate budget for this text.
  // INVALID_ARGUMENT if the pattern backtracks too often or too deeply. REQUIRES: text is valid
  // UTF-8.
  absl::Status FindAll(std::string_view text, std::vector<RegexMatch>* matches,
                       TextWork* work = nullptr) const;

 private:
  struct Impl;
  explicit Regex(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace beamline::text

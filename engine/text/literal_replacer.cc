#include "engine/text/literal_replacer.h"

#include <utility>

namespace beamline::text {

LiteralReplacer::LiteralReplacer(std::string pattern, std::string content)
    : pattern_(std::move(pattern)), content_(std::move(content)), fallback_(pattern_.size(), 0) {
  for (size_t i = 1, border = 0; i < pattern_.size(); ++i) {
    while (border > 0 && pattern_[i] != pattern_[border]) border = fallback_[border - 1];
    if (pattern_[i] == pattern_[border]) ++border;
    fallback_[i] = border;
  }
}

void LiteralReplacer::Push(std::string_view text, std::string* out) {
  for (const char c : text) {
    while (matched_ > 0 && c != pattern_[matched_]) {
      const size_t border = fallback_[matched_ - 1];
      out->append(pattern_, 0, matched_ - border);
      matched_ = border;
    }
    if (c != pattern_[matched_]) {
      out->push_back(c);
    } else if (++matched_ == pattern_.size()) {
      *out += content_;
      matched_ = 0;
    }
  }
}

void LiteralReplacer::Finish(std::string* out) {
  out->append(pattern_, 0, matched_);
  matched_ = 0;
}

ReplaceAllStage::ReplaceAllStage(std::vector<LiteralReplacer> replacers)
    : replacers_(std::move(replacers)) {}

void ReplaceAllStage::PushThrough(std::string_view text, bool end_token, std::string* out) {
  front_ = text;
  for (LiteralReplacer& replacer : replacers_) {
    back_.clear();
    replacer.Push(front_, &back_);
    if (end_token) replacer.Finish(&back_);
    front_.swap(back_);
  }
  *out += front_;
}

void ReplaceAllStage::Transform(const Fragment& in, bool at_end, Fragment* out) {
  size_t begin = 0;
  for (const size_t end : in.ends) {
    PushThrough(std::string_view(in.text).substr(begin, end - begin), /*end_token=*/true,
                &out->text);
    out->EndToken();
    begin = end;
  }
  PushThrough(std::string_view(in.text).substr(begin), at_end, &out->text);
}

std::unique_ptr<DecodeStage> ReplaceAllStage::Clone() const {
  return std::make_unique<ReplaceAllStage>(*this);
}

std::unique_ptr<DecodeStage> MakeCleanUpStage() {
  std::vector<LiteralReplacer> replacers;
  for (const char* pattern : {" .", " ?", " !", " ,"}) {
    replacers.emplace_back(pattern, pattern + 1);
  }
  replacers.emplace_back(" ' ", "'");
  for (const char* pattern : {" n't", " 'm", " 's", " 've", " 're"}) {
    replacers.emplace_back(pattern, pattern + 1);
  }
  return std::make_unique<ReplaceAllStage>(std::move(replacers));
}

}  // namespace beamline::text

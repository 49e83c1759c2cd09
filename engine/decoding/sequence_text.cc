#include "engine/decoding/sequence_text.h"

#include <utility>

namespace beamline {

SequenceText::SequenceText(const Tokenizer& tokenizer, const StopStrings& stop_strings,
                           const TextOptions& options)
    : detokenizer_(tokenizer.StartDecoding(options.skip_special_tokens)),
      matcher_(stop_strings),
      include_stop_(options.include_stop),
      watches_stops_(!stop_strings.empty()) {}

SequenceText::SequenceText(const SequenceText& other)
    : detokenizer_(other.detokenizer_->Clone()),
      matcher_(other.matcher_),
      include_stop_(other.include_stop_),
      watches_stops_(other.watches_stops_),
      stopped_(other.stopped_),
      text_(other.text_),
      certain_(other.certain_) {}

SequenceText SequenceText::Clone() const { return SequenceText(*this); }

bool SequenceText::Append(int32_t id) {
  const std::string piece = detokenizer_->Append(id);
  if (!watches_stops_) {
    text_ += piece;
    certain_ = text_.size();
    return false;
  }
  for (const char byte : piece) {
    text_.push_back(byte);
    const size_t found = matcher_.Feed(byte);
    if (found > 0) {
      if (!include_stop_) text_.resize(text_.size() - found);
      certain_ = text_.size();
      stopped_ = true;
      return true;
    }
  }
  certain_ = text_.size() - matcher_.held_bytes();
  return false;
}

void SequenceText::Finish() {
  if (!stopped_) text_ += detokenizer_->Finish();
  certain_ = text_.size();
}

std::string SequenceText::TakeCertain() {
  std::string certain;
  if (certain_ == text_.size()) {
    certain.swap(text_);
  } else {
    certain = text_.substr(0, certain_);
    text_.erase(0, certain_);
  }
  certain_ = 0;
  return certain;
}

}  // namespace beamline

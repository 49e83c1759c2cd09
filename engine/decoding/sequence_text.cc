#include "engine/decoding/sequence_text.h"

#include <utility>

#include "engine/api/request_limits.h"

namespace beamline {
namespace {

constexpr size_t kLongestStop = LimitOf("limits.stop").entry_size->max;

}  // namespace

SequenceText::Watch::Watch(const StopStrings& strings)
    : matcher(strings), alignment(kLongestStop) {}

SequenceText::Watch::Watch(const Watch& other)
    : matcher(other.matcher),
      detokenizer(other.detokenizer == nullptr ? nullptr : other.detokenizer->Clone()),
      alignment(other.alignment) {}

SequenceText::SequenceText(const Tokenizer& tokenizer, const StopStrings& stop_strings,
                           const TextOptions& options)
    : detokenizer_(tokenizer.StartDecoding(options.skip_special_tokens)),
      include_stop_(options.include_stop) {
  if (stop_strings.empty()) return;
  watch_ = std::make_unique<Watch>(stop_strings);
  if (options.skip_special_tokens) {
    watch_->detokenizer = tokenizer.StartDecoding(/*skip_special_tokens=*/false);
  }
}

SequenceText::SequenceText(const SequenceText& other)
    : detokenizer_(other.detokenizer_->Clone()),
      watch_(other.watch_ == nullptr ? nullptr : std::make_unique<Watch>(*other.watch_)),
      include_stop_(other.include_stop_),
      stopped_(other.stopped_),
      text_(other.text_),
      certain_(other.certain_),
      taken_(other.taken_) {}

SequenceText SequenceText::Clone() const { return SequenceText(*this); }

bool SequenceText::Append(int32_t id, bool may_stop) {
  std::string shown = detokenizer_->Append(id);
  if (watch_ == nullptr) {
    text_ += shown;
    certain_ = text_.size();
    return false;
  }
  Watch& watch = *watch_;
  const std::string full = watch.detokenizer == nullptr ? shown : watch.detokenizer->Append(id);
  const size_t full_begin = watch.alignment.full_size();
  for (size_t i = 0; i < full.size(); ++i) {
    const size_t found = watch.matcher.Feed(full[i]);
    if (found == 0 || !may_stop) continue;
    // Text that the visible decoder still holds back belongs to tokens before the end of the stop
    // string.
    if (watch.detokenizer != nullptr) shown += detokenizer_->Finish();
    text_ += shown;
    watch.alignment.Append(full, shown);
    CutAtStop(full_begin + i + 1, found);
    return true;
  }
  text_ += shown;
  watch.alignment.Append(full, shown);
  const size_t settled = watch.alignment.full_size() - watch.matcher.held_bytes();
  certain_ = watch.alignment.VisibleAt(settled) - taken_;
  return false;
}

void SequenceText::CutAtStop(size_t end, size_t size) {
  text_.resize(watch_->alignment.VisibleAt(include_stop_ ? end : end - size) - taken_);
  certain_ = text_.size();
  stopped_ = true;
}

void SequenceText::Finish() {
  if (!stopped_) text_ += detokenizer_->Finish();
  certain_ = text_.size();
}

std::string SequenceText::TakeCertain() {
  std::string certain;
  taken_ += certain_;
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

// The text of one sequence as its tokens arrive: detokenized, cut at the first stop string, and
// split into what is certain and what a stop string may still take back.
//
// As in transformers (StopStringCriteria), stop strings are looked for in the text with all special
// tokens: one may name a special token that the answer does not show, and a hidden token between
// two texts keeps them from being a stop together. Then every token is decoded twice.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "engine/decoding/stop_matcher.h"
#include "engine/decoding/text_alignment.h"
#include "engine/text/tokenizer.h"

namespace beamline {

struct TextOptions {
  bool skip_special_tokens = true;
  bool include_stop = false;  // keep the stop string that was found, as far as it is shown
};

class SequenceText {
 public:
  // tokenizer and stop_strings outlive the text.
  SequenceText(const Tokenizer& tokenizer, const StopStrings& stop_strings,
               const TextOptions& options);
  SequenceText(SequenceText&&) = default;
  SequenceText& operator=(SequenceText&&) = default;
  // In the same state, for a sequence that forks.
  SequenceText Clone() const;

  // True: a stop string is complete, the text ends before it (or with it), nothing may follow.
  // Of several the one that ends first counts, of those the longest. Stop strings that end with a
  // token that may not stop do not count.
  bool Append(int32_t id, bool may_stop = true);
  // No token follows: all of the text is certain. REQUIRES: called once, last; also after a stop.
  void Finish();
  // What became certain since the last call.
  std::string TakeCertain();

 private:
  // What looks for stop strings.
  struct Watch {
    explicit Watch(const StopStrings& strings);
    Watch(const Watch& other);

    StopMatcher matcher;
    // Of the text with special tokens; null: the sequence's text is that.
    std::unique_ptr<IncrementalDetokenizer> detokenizer;
    TextAlignment alignment;
  };

  SequenceText(const SequenceText& other);
  // The end of the text where the matcher found `size` bytes that end at byte `end` of the full
  // text.
  void CutAtStop(size_t end, size_t size);

  std::unique_ptr<IncrementalDetokenizer> detokenizer_;
  std::unique_ptr<Watch> watch_;  // null: without stop strings
  bool include_stop_;
  bool stopped_ = false;
  std::string text_;    // not taken yet
  size_t certain_ = 0;  // bytes of text_
  size_t taken_ = 0;    // bytes that were before text_
};

}  // namespace beamline

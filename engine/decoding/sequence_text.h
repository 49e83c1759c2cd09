// The text of one sequence as its tokens arrive: detokenized, cut at the first stop string, and
// split into a certain part and a part that a stop string may still remove.
//
// As in transformers (StopStringCriteria), stop strings are searched in the text with all special
// tokens. So a stop string may contain a special token that the answer hides, and a hidden token
// between two texts prevents a match across it. If special tokens are hidden, every token is
// decoded twice.
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
  bool include_stop = false;  // keep the visible part of the matched stop string
};

class SequenceText {
 public:
  // tokenizer and stop_strings must outlive the text.
  SequenceText(const Tokenizer& tokenizer, const StopStrings& stop_strings,
               const TextOptions& options);
  SequenceText(SequenceText&&) = default;
  SequenceText& operator=(SequenceText&&) = default;
  // A copy with the same state, for a sequence that forks.
  SequenceText Clone() const;

  // True: a stop string is complete, the text ends before it (or after it with include_stop), and
  // no token may follow. Of several matches the one that ends first wins, then the longest. A stop
  // string that ends in a token with may_stop false does not count.
  bool Append(int32_t id, bool may_stop = true);
  // No token follows: all of the text is certain. REQUIRES: called once, last; also after a stop.
  void Finish();
  // Text that became certain since the last call.
  std::string TakeCertain();

 private:
  // The search for stop strings.
  struct Watch {
    explicit Watch(const StopStrings& strings);
    Watch(const Watch& other);

    StopMatcher matcher;
    // Decodes the text with special tokens; null: the sequence's text already has them.
    std::unique_ptr<IncrementalDetokenizer> detokenizer;
    TextAlignment alignment;
  };

  SequenceText(const SequenceText& other);
  // Cuts the text at a match of `size` bytes that ends at byte `end` of the full text.
  void CutAtStop(size_t end, size_t size);

  std::unique_ptr<IncrementalDetokenizer> detokenizer_;
  std::unique_ptr<Watch> watch_;  // null: no stop strings
  bool include_stop_;
  bool stopped_ = false;
  std::string text_;    // not yet taken
  size_t certain_ = 0;  // bytes of text_ that are certain
  size_t taken_ = 0;    // bytes before text_
};

}  // namespace beamline

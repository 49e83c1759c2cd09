// The text of one sequence as its tokens arrive: detokenized, cut at the first stop string, and
// split into what is certain and what a stop string may still take back.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "engine/decoding/stop_matcher.h"
#include "engine/text/tokenizer.h"

namespace beamline {

struct TextOptions {
  bool skip_special_tokens = true;
  bool include_stop = false;  // keep the stop string that was found
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
  // Of several the one that ends first counts, of those the longest.
  bool Append(int32_t id);
  // No token follows: all of the text is certain. REQUIRES: called once, last; also after a stop.
  void Finish();
  // What became certain since the last call.
  std::string TakeCertain();

 private:
  SequenceText(const SequenceText& other);

  std::unique_ptr<IncrementalDetokenizer> detokenizer_;
  StopMatcher matcher_;
  bool include_stop_;
  bool watches_stops_;
  bool stopped_ = false;
  std::string text_;    // not taken yet
  size_t certain_ = 0;  // bytes of text_
};

}  // namespace beamline

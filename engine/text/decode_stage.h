// Decoding as a chain of stages through which text flows, so that decoding a whole list and
// decoding token by token are the same computation.
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace beamline::text {

// Text between two stages: the texts of consecutive tokens. A token whose end is not marked yet may
// continue in the next fragment.
struct Fragment {
  std::string text;
  std::vector<size_t> ends;  // ends of tokens in `text`, ascending; equal ends: empty tokens

  void Clear() {
    text.clear();
    ends.clear();
  }
  void EndToken() { ends.push_back(text.size()); }
};

class DecodeStage {
 public:
  virtual ~DecodeStage() = default;
  // Appends to *out the text that the input makes certain. `at_end`: no input follows, so text held
  // back must be appended, too.
  virtual void Transform(const Fragment& in, bool at_end, Fragment* out) = 0;
  virtual std::unique_ptr<DecodeStage> Clone() const = 0;
};

// A stage that maps each token on its own. Derived provides void MapToken(std::string*).
template <typename Derived>
class TokenwiseStage : public DecodeStage {
 public:
  void Transform(const Fragment& in, bool at_end, Fragment* out) override {
    size_t begin = 0;
    for (const size_t end : in.ends) {
      token_.append(in.text, begin, end - begin);
      begin = end;
      EndToken(out);
    }
    token_.append(in.text, begin);
    if (at_end && !token_.empty()) EndToken(out);
  }
  std::unique_ptr<DecodeStage> Clone() const override {
    return std::make_unique<Derived>(static_cast<const Derived&>(*this));
  }

 private:
  void EndToken(Fragment* out) {
    static_cast<Derived*>(this)->MapToken(&token_);
    out->text += token_;
    out->EndToken();
    token_.clear();
  }

  std::string token_;  // the unfinished token so far
};

// A list of stages with their state.
class DecodeChain {
 public:
  DecodeChain() = default;
  DecodeChain(const DecodeChain& other) {
    stages_.reserve(other.stages_.size());
    for (const auto& stage : other.stages_) stages_.push_back(stage->Clone());
  }
  DecodeChain& operator=(const DecodeChain&) = delete;
  DecodeChain(DecodeChain&&) = default;
  DecodeChain& operator=(DecodeChain&&) = default;

  void Add(std::unique_ptr<DecodeStage> stage) { stages_.push_back(std::move(stage)); }

  // Appends to *out the text that becomes certain with one more token.
  void Push(std::string_view token, std::string* out) {
    in_.Clear();
    in_.text = token;
    in_.EndToken();
    Run(/*at_end=*/false, out);
  }
  void Finish(std::string* out) {
    in_.Clear();
    Run(/*at_end=*/true, out);
  }

 private:
  void Run(bool at_end, std::string* out) {
    for (const auto& stage : stages_) {
      if (in_.text.empty() && in_.ends.empty() && !at_end) return;
      out_.Clear();
      stage->Transform(in_, at_end, &out_);
      std::swap(in_, out_);
    }
    *out += in_.text;
  }

  std::vector<std::unique_ptr<DecodeStage>> stages_;
  Fragment in_;
  Fragment out_;
};

}  // namespace beamline::text

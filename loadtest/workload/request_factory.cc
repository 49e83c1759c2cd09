#include "loadtest/workload/request_factory.h"

#include <algorithm>
#include <string>
#include <utility>

namespace beamline::loadtest {
namespace {

// Select the random streams of different parts.
constexpr uint64_t kCallPart = 2;
constexpr uint64_t kBodyPart = 3;
constexpr uint64_t kSharedPart = 4;

// `prompt` and `max_new_tokens` are the class's own, or replace them.
v1::GenerateRequest MakeGenerate(const RequestClass& of, const PromptSource& prompt,
                                 const std::optional<Distribution>& max_new_tokens, Random& random,
                                 const Random& shared) {
  v1::GenerateRequest request = of.generate;
  request.set_model(of.model);
  *request.mutable_prompt() = DrawPrompt(prompt, of.vocab_size, random, shared);
  if (max_new_tokens) {
    request.mutable_limits()->set_max_new_tokens(
        static_cast<int32_t>(max_new_tokens->Draw(random)));
  }
  if (of.beam_width) {
    request.mutable_beam()->set_width(static_cast<int32_t>(of.beam_width->Draw(random)));
  }
  // Without a seed the server would draw one, and answers could not be compared.
  if (request.has_sampling() && !request.sampling().has_seed()) {
    request.mutable_sampling()->set_seed(random.Next());
  }
  return request;
}

v1::GenerateRequest MakeGenerate(const RequestClass& of, Random& random, const Random& shared) {
  return MakeGenerate(of, of.prompt, of.max_new_tokens, random, shared);
}

// Uses a trace's lengths, which include the prefix shared by the class's prompts.
v1::GenerateRequest MakeTraced(const RequestClass& of, const TraceEntry& lengths, Random& random,
                               const Random& shared) {
  const int64_t num_shared = std::min<int64_t>(of.prompt.num_shared, lengths.prompt_tokens - 1);
  const PromptSource prompt{.texts = {},
                            .tokens = Distribution(lengths.prompt_tokens - num_shared),
                            .num_shared = num_shared};
  auto request = MakeGenerate(of, prompt, Distribution(lengths.output_tokens), random, shared);
  request.mutable_limits()->set_ignore_eos(true);
  return request;
}

v1::EncodeRequest MakeEncode(const RequestClass& of, int num_inputs, Random& random,
                             const Random& shared) {
  v1::EncodeRequest request = of.encode;
  request.set_model(of.model);
  for (int i = 0; i < num_inputs; ++i) {
    *request.add_inputs() = DrawPrompt(of.prompt, of.vocab_size, random, shared);
  }
  return request;
}

v1::ScoreRequest MakeScore(const RequestClass& of, Random& random, const Random& shared) {
  v1::ScoreRequest request = of.score;
  request.set_model(of.model);
  *request.mutable_prompt() = DrawPrompt(of.prompt, of.vocab_size, random, shared);
  for (int i = 0; i < of.batch; ++i) {
    *request.add_continuations() = DrawPrompt(of.prompt, of.vocab_size, random, shared);
  }
  return request;
}

v1::ClassifyRequest MakeClassify(const RequestClass& of, Random& random, const Random& shared) {
  v1::ClassifyRequest request = of.classify;
  request.set_model(of.model);
  for (int i = 0; i < of.batch; ++i) {
    v1::Prompt prompt = DrawPrompt(of.prompt, of.vocab_size, random, shared);
    v1::ClassifyInput& input = *request.add_inputs();
    if (prompt.has_ids()) {
      input.mutable_ids()->Swap(prompt.mutable_ids());
    } else {
      input.set_text(std::move(*prompt.mutable_text()));
    }
  }
  return request;
}

v1::ClassifyTokensRequest MakeClassifyTokens(const RequestClass& of, Random& random,
                                             const Random& shared) {
  v1::ClassifyTokensRequest request = of.classify_tokens;
  request.set_model(of.model);
  for (int i = 0; i < of.batch; ++i) {
    request.add_inputs(DrawPrompt(of.prompt, of.vocab_size, random, shared).text());
  }
  return request;
}

// Appends a mask to texts without one.
v1::FillMaskRequest MakeFillMask(const RequestClass& of, Random& random, const Random& shared) {
  v1::FillMaskRequest request = of.fill_mask;
  request.set_model(of.model);
  const std::string mask = of.mask_token.empty() ? "[MASK]" : of.mask_token;
  for (int i = 0; i < of.batch; ++i) {
    std::string text = DrawPrompt(of.prompt, of.vocab_size, random, shared).text();
    if (text.find(mask) == std::string::npos) text += " " + mask;
    request.add_inputs(std::move(text));
  }
  return request;
}

v1::RerankRequest MakeRerank(const RequestClass& of, Random& random, const Random& shared) {
  v1::RerankRequest request = of.rerank;
  request.set_model(of.model);
  request.set_query(DrawPrompt(of.prompt, of.vocab_size, random, shared).text());
  for (int i = 0; i < of.batch; ++i) {
    request.add_documents(DrawPrompt(of.prompt, of.vocab_size, random, shared).text());
  }
  return request;
}

v1::TokenizeRequest MakeTokenize(const RequestClass& of, Random& random, const Random& shared) {
  v1::TokenizeRequest request;
  request.set_model(of.model);
  request.set_text(DrawPrompt(of.prompt, of.vocab_size, random, shared).text());
  return request;
}

// `count` requests of one stream; the request_id is the index.
template <typename Make>
auto MakeMany(int count, Make make) {
  std::vector<decltype(make())> requests;
  for (int i = 0; i < count; ++i) {
    requests.push_back(make());
    requests.back().set_request_id(std::to_string(i));
  }
  return requests;
}

}  // namespace

RequestFactory::RequestFactory(const Workload& workload, uint64_t seed, const Trace* trace)
    : workload_(workload), seed_(seed), trace_(trace) {
  for (const RequestClass& of : workload.classes) total_weight_ += of.weight;
}

size_t RequestFactory::DrawClass(Random& random) const {
  size_t index = 0;
  double weight = random.Uniform() * total_weight_;
  while (index + 1 < workload_.classes.size()) {
    weight -= workload_.classes[index].weight;
    if (weight < 0) break;
    ++index;
  }
  return index;
}

size_t RequestFactory::ClassOf(uint64_t index) const {
  Random random(Random(seed_, kCallPart).Next(), index);
  return DrawClass(random);
}

Request RequestFactory::Make(uint64_t index) const {
  Random random(Random(seed_, kCallPart).Next(), index);
  Request request;
  request.index = index;
  request.class_index = DrawClass(random);
  const RequestClass& of = workload_.classes[request.class_index];
  request.kind = of.kind;
  if (random.Uniform() < of.cancel_share) {
    request.cancel_after = std::chrono::milliseconds(of.cancel_after_ms.Draw(random));
  }
  if (random.Uniform() < of.deadline_share) {
    request.deadline = std::chrono::milliseconds(of.deadline_ms.Draw(random));
  }
  request.variant = workload_.num_distinct == 0
                        ? index
                        : static_cast<uint64_t>(random.UniformInt(
                              0, static_cast<int64_t>(workload_.num_distinct) - 1));
  request.body = MakeBody(request.class_index, request.variant);
  return request;
}

RequestBody RequestFactory::MakeBody(size_t class_index, uint64_t variant) const {
  const RequestClass& of = workload_.classes[class_index];
  Random random(Random(seed_, kBodyPart + (class_index << 8)).Next(), variant);
  const Random shared(seed_, kSharedPart + (class_index << 8));
  switch (of.kind) {
    case Kind::kGenerate:
    case Kind::kGenerateStream:
      if (trace_ != nullptr && variant < trace_->size()) {
        return MakeTraced(of, (*trace_)[variant], random, shared);
      }
      return MakeGenerate(of, random, shared);
    case Kind::kGenerateMany:
      return MakeMany(of.batch, [&] { return MakeGenerate(of, random, shared); });
    case Kind::kEncode:
      return MakeEncode(of, of.batch, random, shared);
    case Kind::kEncodeMany:
      return MakeMany(of.batch, [&] { return MakeEncode(of, 1, random, shared); });
    case Kind::kScore:
      return MakeScore(of, random, shared);
    case Kind::kClassify:
      return MakeClassify(of, random, shared);
    case Kind::kClassifyTokens:
      return MakeClassifyTokens(of, random, shared);
    case Kind::kFillMask:
      return MakeFillMask(of, random, shared);
    case Kind::kRerank:
      return MakeRerank(of, random, shared);
    case Kind::kTokenize:
      break;
  }
  return MakeTokenize(of, random, shared);
}

}  // namespace beamline::loadtest

// Long because the answers of all RPCs are made of the same few parts.
#include "server/wire/response.h"

#include <algorithm>
#include <chrono>
#include <numeric>
#include <set>
#include <span>
#include <string_view>
#include <utility>

#include "base/text.h"
#include "server/wire/entities.h"

namespace beamline {
namespace {

constexpr size_t kMostErrorBytes = 1000;  // of one line of UTF-8, whatever a folder's names contain

v1::FinishReason ToFinishReason(FinishReason reason) {
  switch (reason) {
    case FinishReason::kNone:
      return v1::FINISH_REASON_UNSPECIFIED;
    case FinishReason::kEos:
      return v1::FINISH_REASON_EOS;
    case FinishReason::kStop:
      return v1::FINISH_REASON_STOP;
    case FinishReason::kLength:
      return v1::FINISH_REASON_LENGTH;
    case FinishReason::kDeadline:
      return v1::FINISH_REASON_DEADLINE;
    case FinishReason::kCancelled:
      return v1::FINISH_REASON_CANCELLED;
  }
  return v1::FINISH_REASON_UNSPECIFIED;
}

void SetDuration(std::chrono::nanoseconds value, google::protobuf::Duration& duration) {
  const auto seconds = std::chrono::duration_cast<std::chrono::seconds>(value);
  duration.set_seconds(seconds.count());
  duration.set_nanos(static_cast<int32_t>((value - seconds).count()));
}

void SetTiming(const Timing& timing, v1::Timing& message) {
  SetDuration(timing.queue, *message.mutable_queue());
  if (timing.first_token.count() > 0) {
    SetDuration(timing.first_token, *message.mutable_first_token());
  }
  SetDuration(timing.total, *message.mutable_total());
}

void SetUsage(const Usage& usage, v1::Usage& message) {
  message.set_prompt_tokens(usage.prompt_tokens);
  message.set_cached_tokens(usage.cached_tokens);
  message.set_generated_tokens(usage.generated_tokens);
}

void SetLogprob(const TokenLogprob& logprob, v1::TokenLogprob& message) {
  message.set_id(logprob.id);
  message.set_logprob(logprob.logprob);
}

void SetLogprobs(const std::vector<PositionLogprobs>& logprobs,
                 google::protobuf::RepeatedPtrField<v1::PositionLogprobs>& messages) {
  for (const PositionLogprobs& position : logprobs) {
    v1::PositionLogprobs& out = *messages.Add();
    SetLogprob(position.chosen, *out.mutable_chosen());
    for (const TokenLogprob& token : position.top) SetLogprob(token, *out.add_top());
  }
}

// The fields that GenerateResponse and StreamEnd share.
template <typename Message>
void SetEnd(const GenerateResult& result, const AnswerOptions& options, Message& message) {
  SetUsage(result.usage, *message.mutable_usage());
  SetTiming(result.timing, *message.mutable_timing());
  if (options.sampling) message.set_seed(result.seed);
  message.set_model(options.model);
  message.set_request_id(options.request_id);
  SetLogprobs(result.prompt_logprobs, *message.mutable_prompt_logprobs());
}

// The fields that the answers to all other requests share.
template <typename Result, typename Message>
void SetWhole(const Result& result, const AnswerOptions& options, Message& message) {
  SetUsage(result.usage, *message.mutable_usage());
  SetTiming(result.timing, *message.mutable_timing());
  message.set_model(options.model);
  message.set_request_id(options.request_id);
}

// Indices of the scores to return: all in order, or the best `top` first.
std::vector<size_t> Places(std::span<const float> scores, std::optional<int32_t> top) {
  std::vector<size_t> places(scores.size());
  std::iota(places.begin(), places.end(), size_t{0});
  if (!top.has_value()) return places;
  const auto count = std::min(places.size(), static_cast<size_t>(*top));
  const auto is_before = [&](size_t a, size_t b) {
    return scores[a] != scores[b] ? scores[a] > scores[b] : a < b;
  };
  std::partial_sort(places.begin(), places.begin() + static_cast<std::ptrdiff_t>(count),
                    places.end(), is_before);
  places.resize(count);
  return places;
}

void AddTokens(const TokenScores& input, int32_t top, const std::set<std::string_view>& ignored,
               const Tokenizer& tokenizer, v1::TokenClassification& out) {
  const size_t num_labels = input.labels.size();
  for (size_t i = 0; i < input.tokens.size(); ++i) {
    const InputToken& token = input.tokens[i];
    if (token.of_template) continue;
    const auto scores = input.scores.subspan(i * num_labels, num_labels);
    const std::vector<size_t> places = Places(scores, top);
    if (ignored.contains(input.labels[places.front()])) continue;
    v1::ClassifiedToken& one = *out.add_tokens();
    one.set_id(token.id);
    one.set_piece(PieceOf(token, input.text, tokenizer));
    one.set_index(static_cast<int32_t>(i));
    one.set_begin(token.begin);
    one.set_end(token.end);
    for (const size_t place : places) {
      v1::ClassScore& score = *one.add_classes();
      score.set_label(input.labels[place]);
      score.set_score(scores[place]);
    }
  }
}

// The text with one token replaced, like transformers' fill-mask pipeline: without padding, and
// with special tokens only if other masks are shown.
std::string Filled(const std::vector<InputToken>& tokens, size_t position, int32_t id,
                   bool skip_special_tokens, const Tokenizer& tokenizer) {
  TokenIds ids;
  for (size_t i = 0; i < tokens.size(); ++i) {
    const int32_t one = i == position ? id : tokens[i].id;
    if (one != tokenizer.pad_id() && one < tokenizer.vocab_size()) ids.push_back(one);
  }
  return tokenizer.Decode(ids, skip_special_tokens).value_or("");
}

v1::Task ToTask(ModelTask task) {
  switch (task) {
    case ModelTask::kGenerate:
      return v1::TASK_GENERATE;
    case ModelTask::kTranslate:
      return v1::TASK_TRANSLATE;
    case ModelTask::kEncode:
      return v1::TASK_ENCODE;
    case ModelTask::kClassify:
      return v1::TASK_CLASSIFY;
    case ModelTask::kClassifyTokens:
      return v1::TASK_CLASSIFY_TOKENS;
  }
  return v1::TASK_UNSPECIFIED;
}

v1::ReplicaState ToReplicaState(ReplicaPhase phase) {
  switch (phase) {
    case ReplicaPhase::kUp:
      return v1::REPLICA_STATE_UP;
    case ReplicaPhase::kDraining:
      return v1::REPLICA_STATE_DRAINING;
    case ReplicaPhase::kRestarting:
      return v1::REPLICA_STATE_RESTARTING;
    case ReplicaPhase::kFailed:
      return v1::REPLICA_STATE_FAILED;
  }
  return v1::REPLICA_STATE_UNSPECIFIED;
}

v1::ModelState ToModelState(ModelState state) {
  switch (state) {
    case ModelState::kReady:
      return v1::MODEL_STATE_READY;
    case ModelState::kLoading:
      return v1::MODEL_STATE_LOADING;
    case ModelState::kDraining:
      return v1::MODEL_STATE_DRAINING;
    case ModelState::kFailed:
      return v1::MODEL_STATE_FAILED;
    case ModelState::kUnloaded:
      break;
  }
  return v1::MODEL_STATE_UNSPECIFIED;
}

v1::DataType ToDataType(DType dtype) {
  switch (dtype) {
    case DType::kFloat32:
      return v1::DATA_TYPE_FLOAT32;
    case DType::kFloat16:
      return v1::DATA_TYPE_FLOAT16;
    case DType::kBFloat16:
      return v1::DATA_TYPE_BFLOAT16;
    case DType::kFloat8E4M3:
      return v1::DATA_TYPE_FLOAT8_E4M3;
    case DType::kInt8:
      return v1::DATA_TYPE_INT8;
    default:
      return v1::DATA_TYPE_UNSPECIFIED;
  }
}

}  // namespace

v1::GenerateResponse ToMessage(const GenerateResult& result, const AnswerOptions& options) {
  v1::GenerateResponse message;
  for (const GeneratedSequence& sequence : result.sequences) {
    v1::Sequence& out = *message.add_sequences();
    if (options.return_token_ids) {
      out.mutable_ids()->Add(sequence.ids.begin(), sequence.ids.end());
    }
    out.set_text(sequence.text);
    out.set_cumulative_logprob(sequence.cumulative_logprob);
    out.set_score(sequence.score);
    SetLogprobs(sequence.logprobs, *out.mutable_logprobs());
    out.set_finish_reason(ToFinishReason(sequence.finish_reason));
  }
  SetEnd(result, options, message);
  return message;
}

v1::StreamEnd ToStreamEnd(const GenerateResult& result, const AnswerOptions& options) {
  v1::StreamEnd message;
  for (size_t i = 0; i < result.sequences.size(); ++i) {
    const GeneratedSequence& sequence = result.sequences[i];
    v1::SequenceEnd& out = *message.add_sequences();
    out.set_sequence(static_cast<int32_t>(i));
    out.set_finish_reason(ToFinishReason(sequence.finish_reason));
    out.set_cumulative_logprob(sequence.cumulative_logprob);
    out.set_score(sequence.score);
  }
  SetEnd(result, options, message);
  return message;
}

v1::SequenceDelta ToMessage(GenerateDelta delta, const AnswerOptions& options) {
  v1::SequenceDelta message;
  message.set_sequence(delta.sequence);
  if (options.return_token_ids) {
    message.mutable_ids()->Add(delta.ids.begin(), delta.ids.end());
  }
  message.set_text(std::move(delta.text));
  SetLogprobs(delta.logprobs, *message.mutable_logprobs());
  return message;
}

v1::ScoreResponse ToMessage(const ScoreResult& result, const AnswerOptions& options) {
  v1::ScoreResponse message;
  for (const ContinuationScore& score : result.scores) {
    v1::ContinuationScore& out = *message.add_scores();
    out.set_logprob(score.logprob);
    out.set_num_tokens(score.num_tokens);
    for (const TokenLogprob& token : score.tokens) SetLogprob(token, *out.add_tokens());
  }
  SetWhole(result, options, message);
  return message;
}

void FillMessage(const EncodeResult& result, const AnswerOptions& options,
                 v1::EncodeResponse& message) {
  for (const Embedding& embedding : result.embeddings) {
    v1::Embedding& out = *message.add_embeddings();
    out.mutable_values()->Add(embedding.values.begin(), embedding.values.end());
    out.set_num_vectors(embedding.num_vectors);
    out.set_dimensions(embedding.dimensions);
    out.set_num_tokens(embedding.num_tokens);
  }
  SetWhole(result, options, message);
}

v1::EncodeResponse ToMessage(const EncodeResult& result, const AnswerOptions& options) {
  v1::EncodeResponse message;
  FillMessage(result, options, message);
  return message;
}

v1::ClassifyResponse ToClassifyMessage(const EncodeResult& result,
                                       const std::vector<std::string>& labels,
                                       std::optional<int32_t> top, const AnswerOptions& options) {
  v1::ClassifyResponse message;
  for (const Embedding& scores : result.embeddings) {
    v1::Classification& out = *message.add_classifications();
    for (const size_t place : Places(scores.values, top)) {
      v1::ClassScore& one = *out.add_classes();
      one.set_label(labels[place]);
      one.set_score(scores.values[place]);
    }
    out.set_num_tokens(scores.num_tokens);
  }
  SetWhole(result, options, message);
  return message;
}

v1::RerankResponse ToRerankMessage(const EncodeResult& result, std::optional<int32_t> top,
                                   const AnswerOptions& options) {
  v1::RerankResponse message;
  std::vector<float> scores;
  for (const Embedding& of : result.embeddings) scores.push_back(of.values.front());
  for (const size_t place : Places(scores, top)) {
    v1::RankedDocument& document = *message.add_documents();
    document.set_index(static_cast<int32_t>(place));
    document.set_score(scores[place]);
    document.set_num_tokens(result.embeddings[place].num_tokens);
  }
  SetWhole(result, options, message);
  return message;
}

TokenAnswerOptions ToTokenAnswerOptions(const v1::ClassifyTokensRequest& message) {
  TokenAnswerOptions options;
  options.inputs.assign(message.inputs().begin(), message.inputs().end());
  options.aggregation = message.aggregation();
  if (message.has_ignore_labels()) {
    const auto& labels = message.ignore_labels().labels();
    options.ignored_labels.assign(labels.begin(), labels.end());
  } else {
    options.ignored_labels = {"O"};
  }
  if (message.has_top()) options.top = message.top();
  return options;
}

v1::ClassifyTokensResponse ToClassifyTokensMessage(const EncodeResult& result,
                                                   const std::vector<std::string>& labels,
                                                   const Tokenizer& tokenizer,
                                                   const TokenAnswerOptions& asked,
                                                   const AnswerOptions& options) {
  v1::ClassifyTokensResponse message;
  const std::set<std::string_view> ignored(asked.ignored_labels.begin(),
                                           asked.ignored_labels.end());
  for (size_t i = 0; i < result.embeddings.size(); ++i) {
    const TokenScores input = {asked.inputs[i], result.tokens[i], result.embeddings[i].values,
                               labels};
    v1::TokenClassification& out = *message.add_classifications();
    out.set_num_tokens(result.embeddings[i].num_tokens);
    if (asked.aggregation == v1::AGGREGATION_NONE) {
      AddTokens(input, asked.top, ignored, tokenizer, out);
      continue;
    }
    for (v1::Entity& entity : FindEntities(input, asked.aggregation, tokenizer)) {
      if (!ignored.contains(entity.label())) *out.add_entities() = std::move(entity);
    }
  }
  SetWhole(result, options, message);
  return message;
}

v1::FillMaskResponse ToFillMaskMessage(const EncodeResult& result, const Tokenizer& tokenizer,
                                       const AnswerOptions& options) {
  v1::FillMaskResponse message;
  for (size_t i = 0; i < result.masks.size(); ++i) {
    v1::FilledText& text = *message.add_texts();
    text.set_num_tokens(result.embeddings[i].num_tokens);
    for (const FilledMask& mask : result.masks[i]) {
      const auto position = static_cast<size_t>(mask.position);
      v1::FilledMask& out = *text.add_masks();
      out.set_index(mask.position);
      out.set_begin(result.tokens[i][position].begin);
      out.set_end(result.tokens[i][position].end);
      for (const auto& [id, score] : mask.tokens) {
        v1::MaskFill& fill = *out.add_fills();
        fill.set_id(id);
        fill.set_score(score);
        // A model may have more ids than its tokenizer. These have no text.
        fill.set_text(tokenizer.Decode({&id, 1}, /*skip_special_tokens=*/false).value_or(""));
        fill.set_sequence(
            Filled(result.tokens[i], position, id, result.masks[i].size() == 1, tokenizer));
      }
    }
  }
  SetWhole(result, options, message);
  return message;
}

v1::Model ToMessage(const ModelInfo& model, int32_t num_template_tokens) {
  v1::Model message;
  message.set_name(model.name);
  message.set_version(model.version);
  message.set_state(ToModelState(model.state));
  if (!model.error.empty()) message.set_error(Shorten(model.error, kMostErrorBytes));
  if (model.dtype.has_value()) message.set_data_type(ToDataType(*model.dtype));
  // The other fields are known once it is loaded.
  if (model.state == ModelState::kLoading || model.state == ModelState::kFailed) return message;
  message.set_architecture(model.architecture);
  message.set_task(ToTask(model.task));
  message.set_num_parameters(model.num_parameters);
  message.set_vocab_size(model.vocab_size);
  message.set_input_vocab_size(model.input_vocab_size);
  message.set_hidden_size(model.hidden_size);
  message.set_mask_token(model.mask_token);
  message.set_reranks(model.reranks);
  message.set_num_encoder_layers(model.num_encoder_layers);
  message.set_num_decoder_layers(model.num_decoder_layers);
  message.set_max_input_tokens(model.max_input_tokens);
  message.set_max_total_tokens(model.max_total_tokens);
  message.set_max_batch_tokens(model.max_batch_tokens);
  message.set_max_sequences(model.max_sequences);
  message.set_embedding_dimensions(model.embedding_dimensions);
  for (const std::string& name : model.prompt_names) message.add_prompt_names(name);
  for (const std::string& name : model.languages) message.add_languages(name);
  for (const std::string& name : model.labels) message.add_labels(name);
  for (const std::string& name : model.chat_templates) message.add_chat_templates(name);
  message.set_eos_token_id(model.eos_token_id);
  message.mutable_tokenizer()->set_kind(model.tokenizer);
  message.mutable_tokenizer()->set_vocab_size(model.tokenizer_vocab_size);
  message.mutable_tokenizer()->set_num_template_tokens(num_template_tokens);
  message.mutable_memory()->set_weights(model.weight_bytes);
  message.mutable_memory()->set_cache(model.cache_bytes);
  message.mutable_memory()->set_cache_blocks(model.cache_blocks);
  message.mutable_memory()->set_block_size(model.block_size);
  for (const ReplicaInfo& of : model.replicas) {
    v1::Replica& replica = *message.add_replicas();
    replica.set_device(of.device);
    replica.set_description(of.description);
    replica.set_state(ToReplicaState(of.phase));
    replica.set_restarts(of.restarts);
  }
  return message;
}

}  // namespace beamline

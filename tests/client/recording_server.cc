// Long because every call has an answer.
#include "tests/client/recording_server.h"

#include <grpcpp/security/server_credentials.h>
#include <grpcpp/server_builder.h>

#include <algorithm>
#include <thread>
#include <utility>

namespace beamline {
namespace {

constexpr int kDimensions = 8;

// The text that a prompt stands for.
std::string Written(const v1::Prompt& prompt) {
  if (!prompt.has_ids()) return prompt.text();
  std::string text = "ids";
  for (const int32_t id : prompt.ids().ids()) text += " " + std::to_string(id);
  return text;
}

int NumSequences(const v1::GenerateRequest& request) {
  const int asked =
      request.has_beam() ? request.beam().num_sequences() : request.sampling().num_sequences();
  return std::max(1, asked);
}

// The id 7, and `num_top` others that are less likely.
v1::PositionLogprobs MakeLogprobs(int num_top) {
  v1::PositionLogprobs position;
  position.mutable_chosen()->set_id(7);
  position.mutable_chosen()->set_logprob(-0.5F);
  for (int i = 0; i < num_top; ++i) {
    position.add_top()->set_id(7 + i);
    position.mutable_top(i)->set_logprob(-0.5F - static_cast<float>(i));
  }
  return position;
}

void SetFigures(v1::Usage& usage, v1::Timing& timing) {
  usage.set_prompt_tokens(5);
  usage.set_cached_tokens(2);
  usage.set_generated_tokens(3);
  timing.mutable_first_token()->set_nanos(2'000'000);
  timing.mutable_total()->set_nanos(10'000'000);
}

v1::GenerateResponse Answer(const v1::GenerateRequest& request) {
  v1::GenerateResponse response;
  for (int i = 0; i < NumSequences(request); ++i) {
    v1::Sequence& sequence = *response.add_sequences();
    sequence.set_text("<" + Written(request.prompt()) + ">");
    sequence.set_score(-1.0F - static_cast<float>(i));
    sequence.set_finish_reason(v1::FINISH_REASON_EOS);
    if (request.output().has_logprobs()) {
      *sequence.add_logprobs() = MakeLogprobs(request.output().logprobs());
    }
  }
  if (request.output().has_prompt_logprobs()) {
    *response.add_prompt_logprobs() = MakeLogprobs(request.output().prompt_logprobs());
  }
  SetFigures(*response.mutable_usage(), *response.mutable_timing());
  response.set_model(request.model());
  response.set_request_id(request.request_id());
  return response;
}

// A vector of the text's length, then ones.
v1::EncodeResponse Answer(const v1::EncodeRequest& request) {
  v1::EncodeResponse response;
  const int dimensions = request.has_dimensions() ? request.dimensions() : kDimensions;
  for (const v1::Prompt& input : request.inputs()) {
    v1::Embedding& embedding = *response.add_embeddings();
    const auto length = static_cast<int>(Written(input).size());
    embedding.set_num_tokens(length);
    embedding.set_num_vectors(1);
    embedding.set_dimensions(dimensions);
    for (int i = 0; i < dimensions; ++i) {
      embedding.add_values(i == 0 ? static_cast<float>(length) : 1.0F);
    }
  }
  response.mutable_usage()->set_prompt_tokens(4);
  response.mutable_timing()->mutable_total()->set_nanos(3'000'000);
  response.set_model(request.model());
  response.set_request_id(request.request_id());
  return response;
}

std::string FirstText(const v1::GenerateRequest& request) { return Written(request.prompt()); }
std::string FirstText(const v1::EncodeRequest& request) { return Written(request.inputs(0)); }

v1::Model MakeModel(const std::string& name, v1::Task task) {
  v1::Model model;
  model.set_name(name);
  model.set_task(task);
  model.set_version(1);
  model.set_state(v1::MODEL_STATE_READY);
  model.set_architecture("Model");
  model.set_data_type(v1::DATA_TYPE_BFLOAT16);
  model.set_num_parameters(1234567);
  model.set_num_encoder_layers(2);
  model.set_num_decoder_layers(3);
  model.set_hidden_size(64);
  model.set_max_input_tokens(2048);
  model.set_max_total_tokens(4096);
  model.set_max_batch_tokens(1024);
  model.set_max_sequences(128);
  model.set_embedding_dimensions(task == v1::TASK_ENCODE ? 64 : 0);
  model.add_prompt_names("query");
  model.mutable_tokenizer()->set_kind("pieces");
  model.mutable_tokenizer()->set_vocab_size(6000);
  model.mutable_memory()->set_weights(3 << 20);
  model.mutable_memory()->set_cache(5 << 20);
  model.mutable_memory()->set_cache_blocks(1000);
  model.mutable_memory()->set_block_size(16);
  v1::Replica& replica = *model.add_replicas();
  replica.set_device("cpu");
  replica.set_description("a processor");
  return model;
}

v1::ListModelsResponse MakeModels() {
  v1::ListModelsResponse models;
  *models.add_models() = MakeModel("writer", v1::TASK_GENERATE);
  *models.add_models() = MakeModel("translator", v1::TASK_TRANSLATE);
  *models.add_models() = MakeModel("embedder", v1::TASK_ENCODE);
  *models.add_models() = MakeModel("broken", v1::TASK_ENCODE);
  v1::Model& failed = *models.add_models();
  failed.set_name("torn");
  failed.set_version(12);
  failed.set_state(v1::MODEL_STATE_FAILED);
  failed.set_error("config.json: torn");
  return models;
}

}  // namespace

RecordingServer::RecordingServer() {
  grpc::ServerBuilder builder;
  int port = 0;
  builder.AddListeningPort("127.0.0.1:0", grpc::InsecureServerCredentials(), &port);
  builder.RegisterService(static_cast<v1::Inference::Service*>(this));
  builder.RegisterService(static_cast<v1::Models::Service*>(this));
  builder.RegisterService(static_cast<grpc::health::v1::Health::Service*>(this));
  server_ = builder.BuildAndStart();
  address_ = "127.0.0.1:" + std::to_string(port);
}

RecordingServer::~RecordingServer() {
  server_->Shutdown(std::chrono::system_clock::now() + std::chrono::seconds(1));
}

void RecordingServer::Add(v1::Model model) {
  const std::lock_guard lock(mutex_);
  *added_.add_models() = std::move(model);
}

void RecordingServer::Fail(const grpc::Status& status) {
  const std::lock_guard lock(mutex_);
  failure_ = status;
}

grpc::Status RecordingServer::Begin(const char* rpc, const Context& context) {
  {
    const std::lock_guard lock(mutex_);
    calls_.push_back({rpc, context.deadline()});
    if (!failure_.ok()) return failure_;
  }
  while (hangs_ && !context.IsCancelled()) {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  if (!hangs_) return grpc::Status::OK;
  ++num_cancelled_;
  return grpc::Status::CANCELLED;
}

grpc::Status RecordingServer::Generate(Context* context, const v1::GenerateRequest* request,
                                       v1::GenerateResponse* response) {
  {
    const std::lock_guard lock(mutex_);
    generates_.push_back(*request);
  }
  *response = Answer(*request);
  return Begin("Generate", *context);
}

// The text comes in two parts.
grpc::Status RecordingServer::GenerateStream(
    Context* context, const v1::GenerateRequest* request,
    grpc::ServerWriter<v1::GenerateStreamResponse>* writer) {
  {
    const std::lock_guard lock(mutex_);
    generates_.push_back(*request);
  }
  const v1::GenerateResponse whole = Answer(*request);
  const std::string& text = whole.sequences(0).text();
  for (const std::string& part : {text.substr(0, 1), text.substr(1)}) {
    v1::GenerateStreamResponse message;
    message.add_deltas()->set_text(part);
    writer->Write(message);
    if (part.size() == 1) {
      if (grpc::Status status = Begin("GenerateStream", *context); !status.ok()) return status;
    }
  }
  if (loses_ends_) return grpc::Status::OK;
  v1::GenerateStreamResponse last;
  last.mutable_end()->add_sequences()->set_finish_reason(v1::FINISH_REASON_LENGTH);
  SetFigures(*last.mutable_end()->mutable_usage(), *last.mutable_end()->mutable_timing());
  writer->Write(last);
  return grpc::Status::OK;
}

// A request of the text "bad" has an error for its answer.
template <typename Request, typename Envelope>
grpc::Status RecordingServer::Many(Stream<Request, Envelope>& stream, std::vector<Request>& notes) {
  std::vector<Envelope> answers;
  Request request;
  while (stream.Read(&request)) {
    {
      const std::lock_guard lock(mutex_);
      notes.push_back(request);
    }
    Envelope answer;
    answer.set_request_id(request.request_id());
    if (FirstText(request) == "bad") {
      answer.mutable_error()->set_code(grpc::StatusCode::INVALID_ARGUMENT);
      answer.mutable_error()->set_message("prompt is bad");
    } else {
      *answer.mutable_response() = Answer(request);
    }
    answers.push_back(answer);
    if (!backwards_) stream.Write(answer);
  }
  std::reverse(answers.begin(), answers.end());
  for (const Envelope& answer : answers) {
    if (backwards_) stream.Write(answer);
  }
  return grpc::Status::OK;
}

grpc::Status RecordingServer::GenerateMany(
    Context* context, Stream<v1::GenerateRequest, v1::GenerateManyResponse>* stream) {
  if (grpc::Status status = Begin("GenerateMany", *context); !status.ok()) return status;
  return Many(*stream, generates_);
}

grpc::Status RecordingServer::Encode(Context* context, const v1::EncodeRequest* request,
                                     v1::EncodeResponse* response) {
  {
    const std::lock_guard lock(mutex_);
    encodes_.push_back(*request);
  }
  *response = Answer(*request);
  return Begin("Encode", *context);
}

grpc::Status RecordingServer::EncodeMany(
    Context* context, Stream<v1::EncodeRequest, v1::EncodeManyResponse>* stream) {
  if (grpc::Status status = Begin("EncodeMany", *context); !status.ok()) return status;
  return Many(*stream, encodes_);
}

grpc::Status RecordingServer::Score(Context* context, const v1::ScoreRequest* request,
                                    v1::ScoreResponse* response) {
  {
    const std::lock_guard lock(mutex_);
    scores_.push_back(*request);
  }
  for (int i = 0; i < request->continuations_size(); ++i) {
    v1::ContinuationScore& score = *response->add_scores();
    score.set_logprob(-3.0 * (i + 1));
    score.set_num_tokens(2);
    for (int token = 0; request->per_token() && token < 2; ++token) {
      score.add_tokens()->set_id(40 + token);
      score.mutable_tokens(token)->set_logprob(-1.5F * static_cast<float>(i + 1));
    }
  }
  response->mutable_usage()->set_prompt_tokens(6);
  response->mutable_timing()->mutable_total()->set_nanos(4'000'000);
  response->set_model(request->model());
  return Begin("Score", *context);
}

// Two classes, whose scores tell the input's place.
grpc::Status RecordingServer::Classify(Context* context, const v1::ClassifyRequest* request,
                                       v1::ClassifyResponse* response) {
  {
    const std::lock_guard lock(mutex_);
    classifies_.push_back(*request);
  }
  for (int i = 0; i < request->inputs_size(); ++i) {
    v1::Classification& one = *response->add_classifications();
    one.set_num_tokens(3);
    for (const char* label : {"up", "down"}) {
      v1::ClassScore& score = *one.add_classes();
      score.set_label(label);
      score.set_score(one.classes_size() == 1 ? 0.25F : -1.5F * static_cast<float>(i + 1));
    }
  }
  response->mutable_usage()->set_prompt_tokens(6);
  response->mutable_timing()->mutable_total()->set_nanos(2'000'000);
  return Begin("Classify", *context);
}

// The last document is the best.
grpc::Status RecordingServer::Rerank(Context* context, const v1::RerankRequest* request,
                                     v1::RerankResponse* response) {
  {
    const std::lock_guard lock(mutex_);
    reranks_.push_back(*request);
  }
  for (int i = request->documents_size() - 1; i >= 0; --i) {
    v1::RankedDocument& document = *response->add_documents();
    document.set_index(i);
    document.set_score(0.5F * static_cast<float>(i));
    document.set_num_tokens(4);
  }
  response->mutable_usage()->set_prompt_tokens(8);
  response->mutable_timing()->mutable_total()->set_nanos(2'000'000);
  return Begin("Rerank", *context);
}

// A token of one character, or an entity of two, in each text.
grpc::Status RecordingServer::ClassifyTokens(Context* context,
                                             const v1::ClassifyTokensRequest* request,
                                             v1::ClassifyTokensResponse* response) {
  {
    const std::lock_guard lock(mutex_);
    token_classifies_.push_back(*request);
  }
  for (const std::string& text : request->inputs()) {
    v1::TokenClassification& one = *response->add_classifications();
    one.set_num_tokens(3);
    if (request->aggregation() == v1::AGGREGATION_NONE) {
      v1::ClassifiedToken& token = *one.add_tokens();
      token.set_id(7);
      token.set_piece(text.substr(0, 1));
      token.set_index(1);
      token.set_end(1);
      token.add_classes()->set_label("B-PER");
      token.mutable_classes(0)->set_score(0.75F);
    } else {
      v1::Entity& entity = *one.add_entities();
      entity.set_label("PER");
      entity.set_score(0.5F);
      entity.set_text(text.substr(0, 2));
      entity.set_end(2);
    }
  }
  response->mutable_usage()->set_prompt_tokens(6);
  response->mutable_timing()->mutable_total()->set_nanos(2'000'000);
  return Begin("ClassifyTokens", *context);
}

// One mask in each text, and one token for it.
grpc::Status RecordingServer::FillMask(Context* context, const v1::FillMaskRequest* request,
                                       v1::FillMaskResponse* response) {
  {
    const std::lock_guard lock(mutex_);
    fill_masks_.push_back(*request);
  }
  for (const std::string& text : request->inputs()) {
    v1::FilledMask& mask = *response->add_texts()->add_masks();
    mask.set_index(1);
    v1::MaskFill& fill = *mask.add_fills();
    fill.set_id(9);
    fill.set_text("fox");
    fill.set_score(0.5F);
    fill.set_sequence(text + " fox");
  }
  response->mutable_usage()->set_prompt_tokens(6);
  response->mutable_timing()->mutable_total()->set_nanos(2'000'000);
  return Begin("FillMask", *context);
}

// A token a byte; the first one is special and of no byte, where it was asked for.
grpc::Status RecordingServer::Tokenize(Context* context, const v1::TokenizeRequest* request,
                                       v1::TokenizeResponse* response) {
  {
    const std::lock_guard lock(mutex_);
    tokenizes_.push_back(*request);
  }
  if (!request->has_add_special_tokens() || request->add_special_tokens()) {
    v1::Token& first = *response->add_tokens();
    first.set_piece("[CLS]");
    first.set_special(true);
  }
  int32_t place = 0;
  for (const char c : request->text()) {
    v1::Token& token = *response->add_tokens();
    token.set_id(c);
    token.set_piece(std::string(1, c));
    token.set_begin(place);
    token.set_end(++place);
  }
  response->set_model(request->model());
  return Begin("Tokenize", *context);
}

grpc::Status RecordingServer::Detokenize(Context* context, const v1::DetokenizeRequest* request,
                                         v1::DetokenizeResponse* response) {
  {
    const std::lock_guard lock(mutex_);
    detokenizes_.push_back(*request);
  }
  for (const int32_t id : request->ids()) {
    response->mutable_text()->append("(" + std::to_string(id) + ")");
  }
  return Begin("Detokenize", *context);
}

grpc::Status RecordingServer::ListModels(Context* context, const v1::ListModelsRequest*,
                                         v1::ListModelsResponse* response) {
  *response = MakeModels();
  const std::lock_guard lock(mutex_);
  response->MergeFrom(added_);
  calls_.push_back({"ListModels", context->deadline()});
  return failure_;
}

grpc::Status RecordingServer::GetModel(Context* context, const v1::GetModelRequest* request,
                                       v1::Model* response) {
  const std::lock_guard lock(mutex_);
  calls_.push_back({"GetModel", context->deadline()});
  const v1::ListModelsResponse models = MakeModels();
  for (const v1::Model& model : models.models()) {
    if (model.name() != request->name()) continue;
    *response = model;
    return failure_;
  }
  return {grpc::StatusCode::NOT_FOUND, "there is no model '" + request->name() + "'"};
}

// The model "broken" is not serving.
grpc::Status RecordingServer::Check(Context* context,
                                    const grpc::health::v1::HealthCheckRequest* request,
                                    grpc::health::v1::HealthCheckResponse* response) {
  const bool serves = request->service() != "broken";
  response->set_status(serves ? grpc::health::v1::HealthCheckResponse::SERVING
                              : grpc::health::v1::HealthCheckResponse::NOT_SERVING);
  const std::lock_guard lock(mutex_);
  calls_.push_back({"Check", context->deadline()});
  return failure_;
}

std::vector<RecordingServer::Call> RecordingServer::calls() const { return Copy(calls_); }
std::vector<v1::GenerateRequest> RecordingServer::generates() const { return Copy(generates_); }
std::vector<v1::EncodeRequest> RecordingServer::encodes() const { return Copy(encodes_); }
std::vector<v1::ScoreRequest> RecordingServer::scores() const { return Copy(scores_); }
std::vector<v1::ClassifyRequest> RecordingServer::classifies() const { return Copy(classifies_); }
std::vector<v1::RerankRequest> RecordingServer::reranks() const { return Copy(reranks_); }
std::vector<v1::ClassifyTokensRequest> RecordingServer::token_classifies() const {
  return Copy(token_classifies_);
}
std::vector<v1::FillMaskRequest> RecordingServer::fill_masks() const { return Copy(fill_masks_); }
std::vector<v1::TokenizeRequest> RecordingServer::tokenizes() const { return Copy(tokenizes_); }
std::vector<v1::DetokenizeRequest> RecordingServer::detokenizes() const {
  return Copy(detokenizes_);
}

grpc::Status RecordingServer::LoadModel(Context* context, const v1::LoadModelRequest* request,
                                        v1::Model* response) {
  {
    const std::lock_guard lock(mutex_);
    loads_.push_back(*request);
  }
  *response = MakeModel(request->name(), v1::TASK_ENCODE);
  return Begin("LoadModel", *context);
}

grpc::Status RecordingServer::UnloadModel(Context* context, const v1::UnloadModelRequest* request,
                                          v1::UnloadModelResponse* response) {
  {
    const std::lock_guard lock(mutex_);
    unloads_.push_back(*request);
  }
  *response->mutable_model() = MakeModel(request->name(), v1::TASK_ENCODE);
  return Begin("UnloadModel", *context);
}

grpc::Status RecordingServer::RestartReplica(Context* context,
                                             const v1::RestartReplicaRequest* request,
                                             v1::Model* response) {
  {
    const std::lock_guard lock(mutex_);
    restarts_.push_back(*request);
  }
  *response = MakeModel(request->name(), v1::TASK_ENCODE);
  return Begin("RestartReplica", *context);
}

std::vector<v1::LoadModelRequest> RecordingServer::loads() const { return Copy(loads_); }
std::vector<v1::UnloadModelRequest> RecordingServer::unloads() const { return Copy(unloads_); }
std::vector<v1::RestartReplicaRequest> RecordingServer::restarts() const { return Copy(restarts_); }

}  // namespace beamline

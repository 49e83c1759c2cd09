#include "tests/loadtest/scripted_server.h"

#include <grpcpp/security/server_credentials.h>
#include <grpcpp/server_builder.h>

#include <algorithm>
#include <thread>
#include <vector>

namespace beamline::loadtest {
namespace {

constexpr int kDefaultTokens = 8;
constexpr int kVocabSize = 32000;

int PromptLength(const v1::Prompt& prompt) {
  return prompt.has_ids() ? prompt.ids().ids_size() : static_cast<int>(prompt.text().size());
}

v1::Embedding MakeEmbedding(const v1::Prompt& prompt) {
  v1::Embedding embedding;
  for (int i = 0; i < 4; ++i) {
    embedding.add_values(1.0F / static_cast<float>(PromptLength(prompt) + i));
  }
  embedding.set_num_vectors(1);
  embedding.set_dimensions(4);
  return embedding;
}

}  // namespace

ScriptedServer::ScriptedServer(const Script& script) : script_(script) {
  grpc::ServerBuilder builder;
  int port = 0;
  builder.AddListeningPort("127.0.0.1:0", grpc::InsecureServerCredentials(), &port);
  builder.RegisterService(static_cast<v1::Inference::Service*>(this));
  builder.RegisterService(static_cast<v1::Models::Service*>(this));
  server_ = builder.BuildAndStart();
  target_ = "127.0.0.1:" + std::to_string(port);
}

ScriptedServer::~ScriptedServer() {
  server_->Shutdown(std::chrono::system_clock::now() + std::chrono::seconds(5));
}

std::vector<Waits> ScriptedServer::waits() const {
  const std::lock_guard lock(mutex_);
  return waits_;
}

std::vector<std::string> ScriptedServer::received() const {
  const std::lock_guard lock(mutex_);
  return received_;
}

std::vector<std::string> ScriptedServer::clients() const {
  const std::lock_guard lock(mutex_);
  return clients_;
}

void ScriptedServer::Keep(const google::protobuf::Message& request) {
  const std::lock_guard lock(mutex_);
  received_.push_back(request.SerializeAsString());
}

// By a schedule, so that a thread which wakes up late makes the server no slower.
void ScriptedServer::Serve() {
  std::chrono::steady_clock::time_point end;
  {
    const std::lock_guard lock(mutex_);
    free_at_ = std::max(free_at_, std::chrono::steady_clock::now()) + script_.service;
    end = free_at_;
  }
  ++num_open_;
  std::this_thread::sleep_until(end);
  --num_open_;
}

grpc::Status ScriptedServer::Begin(std::chrono::microseconds* between) {
  const int number = num_requests_++;
  {
    const std::lock_guard lock(stall_mutex_);  // everybody waits while one is stalled
    if (number == script_.stall_at) std::this_thread::sleep_for(script_.stall);
  }
  if (script_.fail_every > 0 && number % script_.fail_every == script_.fail_every - 1) {
    return {grpc::StatusCode::RESOURCE_EXHAUSTED, "the script says so"};
  }
  if (script_.max_open > 0 && num_open_ >= script_.max_open) {
    return {grpc::StatusCode::RESOURCE_EXHAUSTED, "too many at a time"};
  }
  if (script_.service.count() > 0) Serve();
  Delays delays{.first = script_.delay, .between = script_.token_delay};
  if (!script_.delays.empty()) {
    delays = script_.delays[static_cast<size_t>(number) % script_.delays.size()];
  }
  if (between != nullptr) *between = delays.between;
  if (delays.first.count() > 0) std::this_thread::sleep_for(delays.first);
  return grpc::Status::OK;
}

v1::Sequence ScriptedServer::MakeSequence(const v1::GenerateRequest& request) const {
  v1::Sequence sequence;
  const bool limited = request.limits().has_max_new_tokens();
  const int num_tokens = limited ? request.limits().max_new_tokens() : kDefaultTokens;
  for (int i = 0; i < num_tokens; ++i) sequence.add_ids(PromptLength(request.prompt()) + i);
  if (num_requests_ > script_.wrong_from) sequence.set_ids(num_tokens - 1, 0);
  for (const int32_t id : sequence.ids()) sequence.mutable_text()->append(std::to_string(id) + " ");
  sequence.set_finish_reason(v1::FINISH_REASON_LENGTH);
  return sequence;
}

grpc::Status ScriptedServer::Generate(Context* context, const v1::GenerateRequest* request,
                                      v1::GenerateResponse* response) {
  Keep(*request);
  if (const auto client = context->client_metadata().find("x-client-id");
      client != context->client_metadata().end()) {
    const std::lock_guard lock(mutex_);
    clients_.emplace_back(client->second.data(), client->second.size());
  }
  if (auto status = Begin(); !status.ok()) return status;
  *response->add_sequences() = MakeSequence(*request);
  response->mutable_usage()->set_prompt_tokens(PromptLength(request->prompt()));
  response->mutable_usage()->set_generated_tokens(response->sequences(0).ids_size());
  response->set_request_id(request->request_id());
  return grpc::Status::OK;
}

grpc::Status ScriptedServer::GenerateStream(
    Context* context, const v1::GenerateRequest* request,
    grpc::ServerWriter<v1::GenerateStreamResponse>* writer) {
  using Clock = std::chrono::steady_clock;
  const auto begin = Clock::now();
  std::chrono::microseconds between{0};
  Keep(*request);
  if (auto status = Begin(&between); !status.ok()) return status;
  const v1::Sequence sequence = MakeSequence(*request);
  Clock::time_point first, last;
  for (int i = 0; i < sequence.ids_size(); ++i) {
    if (i > 0) std::this_thread::sleep_for(between);
    last = Clock::now();
    if (i == 0) first = last;
    if (context->IsCancelled()) return grpc::Status::CANCELLED;
    v1::GenerateStreamResponse message;
    v1::SequenceDelta& delta = *message.add_deltas();
    delta.add_ids(sequence.ids(i));
    delta.set_text(std::to_string(sequence.ids(i)) + " ");
    if (!writer->Write(message)) return grpc::Status::CANCELLED;
  }
  v1::GenerateStreamResponse message;
  message.mutable_end()->add_sequences()->set_finish_reason(sequence.finish_reason());
  message.mutable_end()->mutable_usage()->set_prompt_tokens(PromptLength(request->prompt()));
  message.mutable_end()->mutable_usage()->set_generated_tokens(sequence.ids_size());
  const auto end = Clock::now();
  writer->Write(message);
  const std::lock_guard lock(mutex_);
  waits_.push_back({.first = first - begin,
                    .between = (last - first) / std::max(1, sequence.ids_size() - 1),
                    .whole = end - begin});
  return grpc::Status::OK;
}

grpc::Status ScriptedServer::GenerateMany(
    Context* context,
    grpc::ServerReaderWriter<v1::GenerateManyResponse, v1::GenerateRequest>* stream) {
  std::vector<v1::GenerateManyResponse> answers;
  v1::GenerateRequest request;
  while (stream->Read(&request)) {
    v1::GenerateManyResponse& answer = answers.emplace_back();
    answer.set_request_id(request.request_id());
    const auto status = Generate(context, &request, answer.mutable_response());
    if (!status.ok()) answer.mutable_error()->set_code(status.error_code());
  }
  // As they finish is any order.
  std::reverse(answers.begin(), answers.end());
  for (const auto& answer : answers) stream->Write(answer);
  return grpc::Status::OK;
}

grpc::Status ScriptedServer::Encode(Context*, const v1::EncodeRequest* request,
                                    v1::EncodeResponse* response) {
  Keep(*request);
  if (auto status = Begin(); !status.ok()) return status;
  for (const v1::Prompt& input : request->inputs()) {
    *response->add_embeddings() = MakeEmbedding(input);
  }
  return grpc::Status::OK;
}

grpc::Status ScriptedServer::EncodeMany(
    Context* context, grpc::ServerReaderWriter<v1::EncodeManyResponse, v1::EncodeRequest>* stream) {
  v1::EncodeRequest request;
  while (stream->Read(&request)) {
    v1::EncodeManyResponse answer;
    answer.set_request_id(request.request_id());
    const auto status = Encode(context, &request, answer.mutable_response());
    if (!status.ok()) answer.mutable_error()->set_code(status.error_code());
    stream->Write(answer);
  }
  return grpc::Status::OK;
}

grpc::Status ScriptedServer::Score(Context*, const v1::ScoreRequest* request,
                                   v1::ScoreResponse* response) {
  Keep(*request);
  if (auto status = Begin(); !status.ok()) return status;
  for (const v1::Prompt& continuation : request->continuations()) {
    response->add_scores()->set_logprob(-PromptLength(continuation));
  }
  return grpc::Status::OK;
}

grpc::Status ScriptedServer::Classify(Context*, const v1::ClassifyRequest* request,
                                      v1::ClassifyResponse* response) {
  Keep(*request);
  if (auto status = Begin(); !status.ok()) return status;
  for (const v1::ClassifyInput& input : request->inputs()) {
    v1::Classification& classification = *response->add_classifications();
    const int length =
        input.has_ids() ? input.ids().ids_size() : static_cast<int>(input.text().size());
    classification.add_classes()->set_score(1.0F / static_cast<float>(length));
    classification.set_num_tokens(length);
  }
  return grpc::Status::OK;
}

grpc::Status ScriptedServer::ClassifyTokens(Context*, const v1::ClassifyTokensRequest* request,
                                            v1::ClassifyTokensResponse* response) {
  Keep(*request);
  if (auto status = Begin(); !status.ok()) return status;
  for (const std::string& input : request->inputs()) {
    v1::Entity& entity = *response->add_classifications()->add_entities();
    entity.set_text(input);
    entity.set_score(1.0F / static_cast<float>(input.size()));
  }
  return grpc::Status::OK;
}

grpc::Status ScriptedServer::FillMask(Context*, const v1::FillMaskRequest* request,
                                      v1::FillMaskResponse* response) {
  Keep(*request);
  if (auto status = Begin(); !status.ok()) return status;
  for (const std::string& input : request->inputs()) {
    if (input.find("<mask>") == std::string::npos) {
      return {grpc::StatusCode::INVALID_ARGUMENT, "an input has no mask"};
    }
    response->add_texts()->add_masks()->add_fills()->set_sequence(input);
  }
  return grpc::Status::OK;
}

grpc::Status ScriptedServer::Rerank(Context*, const v1::RerankRequest* request,
                                    v1::RerankResponse* response) {
  Keep(*request);
  if (auto status = Begin(); !status.ok()) return status;
  const int most = request->has_top() ? request->top() : request->documents_size();
  for (int i = 0; i < std::min(most, request->documents_size()); ++i) {
    const size_t length = request->query().size() + request->documents(i).size();
    response->add_documents()->set_score(1.0F / static_cast<float>(length));
  }
  return grpc::Status::OK;
}

grpc::Status ScriptedServer::Tokenize(Context*, const v1::TokenizeRequest* request,
                                      v1::TokenizeResponse* response) {
  Keep(*request);
  if (auto status = Begin(); !status.ok()) return status;
  for (const char c : request->text()) response->add_tokens()->set_id(c);
  return grpc::Status::OK;
}

grpc::Status ScriptedServer::ListModels(Context*, const v1::ListModelsRequest*,
                                        v1::ListModelsResponse* response) {
  response->set_server_version("1.2.3 (scripted)");
  for (const auto& [name, task] :
       {std::pair("write", v1::TASK_GENERATE), std::pair("embed", v1::TASK_ENCODE),
        std::pair("rank", v1::TASK_CLASSIFY), std::pair("tags", v1::TASK_CLASSIFY_TOKENS)}) {
    v1::Model& model = *response->add_models();
    model.set_name(name);
    model.set_task(task);
    if (task == v1::TASK_CLASSIFY) model.add_labels("relevant");
    if (task == v1::TASK_ENCODE) model.set_mask_token("<mask>");
    model.set_vocab_size(kVocabSize);
    model.set_max_input_tokens(kMaxInput);
    model.set_max_total_tokens(kMaxTotal);
  }
  return grpc::Status::OK;
}

}  // namespace beamline::loadtest

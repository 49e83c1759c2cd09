// Every RPC of every service with messages at random, whole and torn, by reflection: calls that are
// half-closed early, cancelled, out of time or left with more messages than they take. After each
// batch nothing of it is left, and reference requests have the answers that they had before.
// Long because requests of several protocols are made.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <filesystem>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "beamline/v1/inference.grpc.pb.h"
#include "beamline/v1/models.pb.h"
#include "google/protobuf/dynamic_message.h"
#include "google/protobuf/stubs/logging.h"
#include "google/rpc/error_details.pb.h"
#include "grpc/health/v1/health.pb.h"
#include "grpcpp/generic/generic_stub.h"
#include "grpcpp/grpcpp.h"
#include "inference/grpc_service.pb.h"
#include "prometheus/metric_family.h"
#include "server/process/server.h"
#include "spdlog/spdlog.h"
#include "tei/v1/tei.pb.h"
#include "tests/engine/random_model.h"
#include "tests/fuzz/message_mutator.h"
#include "tests/sanitized.h"
#include "tests/scratch_path.h"
#include "tests/server/protocols/infer_request.h"

namespace beamline::rpc_fuzz_test {
namespace {

using google::protobuf::Message;
using google::protobuf::MethodDescriptor;
using grpc::StatusCode;

constexpr uint64_t kSeed = 20261122;
constexpr int kBatches = kSanitized ? 6 : 300;
constexpr int kThreads = 4;
constexpr int kCallsAThread = 12;
// Of a call that should end by itself.
constexpr std::chrono::seconds kLongTime{60};

std::vector<const MethodDescriptor*> AllMethods() {
  std::vector<const MethodDescriptor*> methods;
  for (const auto* file :
       {v1::GenerateRequest::descriptor()->file(), v1::GetModelRequest::descriptor()->file(),
        grpc::health::v1::HealthCheckRequest::descriptor()->file(),
        inference::ModelInferRequest::descriptor()->file(),
        tei::v1::EmbedRequest::descriptor()->file()}) {
    for (int s = 0; s < file->service_count(); ++s) {
      for (int m = 0; m < file->service(s)->method_count(); ++m) {
        methods.push_back(file->service(s)->method(m));
      }
    }
  }
  return methods;
}

// Answered at the admin address alone.
bool IsOfAdministration(const MethodDescriptor& method) {
  const std::string& name = method.name();
  return name == "LoadModel" || name == "UnloadModel" || name == "RestartReplica";
}

std::unique_ptr<Message> NewMessage(const google::protobuf::Descriptor& type) {
  const auto* prototype =
      google::protobuf::MessageFactory::generated_factory()->GetPrototype(&type);
  return std::unique_ptr<Message>(prototype->New());
}

grpc::ByteBuffer ToBuffer(const std::string& bytes) {
  const grpc::Slice slice(bytes);
  return grpc::ByteBuffer(&slice, 1);
}

// Mostly tensors that a model takes, in front of what there is.
void AddTensors(MessageMutator& mutator, InferRequest& request) {
  if (mutator.Chance(0.2)) return;
  request.clear_inputs();
  request.clear_raw_input_contents();
  request.clear_outputs();
  if (mutator.Chance(0.8)) request.clear_parameters();
  request.clear_model_version();
  const auto number = static_cast<int32_t>(mutator.Below(12));
  if (mutator.Chance(0.5)) {
    AddRaw(request, "text_input", "BYTES", {1}, RawTexts({"abc"}));
  } else {
    AddRaw(request, "input_ids", "INT32", {1, 2}, RawNumbers<int32_t>({5, number}));
  }
  if (mutator.Chance(0.6))
    AddRaw(request, "max_tokens", "INT32", {1}, RawNumbers<int32_t>({number}));
  if (mutator.Chance(0.3)) AddRaw(request, "stream", "BOOL", {1}, std::string(1, '\1'));
  if (mutator.Chance(0.2)) AddRaw(request, "top_p", "FP32", {1}, RawNumbers<float>({0.5f}));
  if (mutator.Chance(0.1)) request.mutable_raw_input_contents(0)->push_back('x');
}

std::string ToString(const grpc::ByteBuffer& buffer) {
  std::vector<grpc::Slice> slices;
  std::string bytes;
  EXPECT_TRUE(buffer.Dump(&slices).ok());
  for (const grpc::Slice& slice : slices) {
    bytes.append(reinterpret_cast<const char*>(slice.begin()), slice.size());
  }
  return bytes;
}

// An error of a request names a field that the request has, unless its bytes are none.
void ExpectFieldOf(const google::protobuf::Descriptor& request, const std::string& message,
                   const google::rpc::Status& details) {
  if (message.find("the request is not a ") != std::string::npos) return;
  google::rpc::BadRequest bad_request;
  ASSERT_EQ(details.details_size(), 1) << message;
  ASSERT_TRUE(details.details(0).UnpackTo(&bad_request)) << message;
  ASSERT_EQ(bad_request.field_violations_size(), 1) << message;
  const std::string& field = bad_request.field_violations(0).field();
  EXPECT_TRUE(IsFieldPath(request, field)) << "'" << field << "' of " << message;
}

// How a call is made, and what may come of it.
struct CallPlan {
  const MethodDescriptor* method = nullptr;
  std::vector<std::string> messages;
  bool half_closes = true;
  bool cancels = false;    // after `reads` answers
  int reads = 1 << 20;     // at most
  bool hurries = false;    // has milliseconds
  bool is_misuse = false;  // another number of messages than the RPC takes
  std::chrono::milliseconds time{kLongTime};
};

CallPlan MakePlan(MessageMutator& mutator, const std::vector<const MethodDescriptor*>& methods) {
  CallPlan plan;
  plan.method = methods[mutator.Below(methods.size())];
  const bool streams = plan.method->client_streaming();
  plan.is_misuse = !streams && mutator.Chance(0.03);
  const size_t count = streams ? mutator.Below(7) : plan.is_misuse ? 2 * mutator.Below(2) : 1;
  const double oddity = mutator.Chance(0.6) ? 0.01 : mutator.Chance(0.7) ? 0.1 : 0.5;
  for (size_t i = 0; i < count; ++i) {
    const auto message = NewMessage(*plan.method->input_type());
    mutator.Fill(*message, oddity);
    if (auto* infer = dynamic_cast<InferRequest*>(message.get())) AddTensors(mutator, *infer);
    const auto* id = message->GetDescriptor()->FindFieldByName("request_id");
    if (streams && id != nullptr && mutator.Chance(0.9)) {
      message->GetReflection()->SetString(message.get(), id, std::to_string(i % 5));
    }
    plan.messages.push_back(message->SerializePartialAsString());
    if (mutator.Chance(0.06)) mutator.Tear(plan.messages.back());
  }
  plan.cancels = plan.method->name() == "Watch" || mutator.Chance(0.1);
  plan.half_closes = !plan.cancels || mutator.Chance(0.5);
  plan.hurries = mutator.Chance(0.08);
  if (plan.hurries) plan.time = std::chrono::milliseconds(1 + mutator.Below(20));
  if (plan.cancels) {
    plan.reads = static_cast<int>(mutator.Below(3));
    plan.hurries = true;  // it may wait for more answers than there are
    plan.time = std::chrono::milliseconds(1 + mutator.Below(100));
  }
  return plan;
}

// One call at a time.
class Caller {
 public:
  explicit Caller(const std::string& address)
      : stub_(grpc::CreateChannel(address, grpc::InsecureChannelCredentials())) {}
  ~Caller() {
    queue_.Shutdown();
    void* tag = nullptr;
    bool ok = false;
    while (queue_.Next(&tag, &ok)) {
    }
  }

  void Make(const CallPlan& plan) {
    grpc::ClientContext context;
    context.set_deadline(std::chrono::system_clock::now() + plan.time);
    const std::string path = "/" + plan.method->service()->full_name() + "/" + plan.method->name();
    const auto call = stub_.PrepareCall(&context, path, &queue_);
    call->StartCall(this);
    bool open = Done();
    for (const std::string& message : plan.messages) {
      if (!open) break;
      call->Write(ToBuffer(message), this);
      open = Done();
    }
    if (open && plan.half_closes) {
      call->WritesDone(this);
      Done();
    }
    std::vector<std::string> answers;
    for (int i = 0; i < plan.reads; ++i) {
      grpc::ByteBuffer answer;
      call->Read(&answer, this);
      if (!Done()) break;
      answers.push_back(ToString(answer));
    }
    if (plan.cancels) context.TryCancel();
    grpc::Status status;
    call->Finish(&status, this);
    Done();
    Check(plan, status, answers);
  }

 private:
  bool Done() {
    void* tag = nullptr;
    bool ok = false;
    return queue_.Next(&tag, &ok) && ok;
  }

  static void Check(const CallPlan& plan, const grpc::Status& status,
                    const std::vector<std::string>& answers) {
    SCOPED_TRACE(plan.method->full_name() + ": " + status.error_message());
    for (const std::string& bytes : answers) {
      const auto answer = NewMessage(*plan.method->output_type());
      EXPECT_TRUE(answer->ParseFromString(bytes));
      if (const auto* one = dynamic_cast<const v1::GenerateManyResponse*>(answer.get())) {
        if (one->has_error()) CheckError(plan, one->error());
      }
      if (const auto* one = dynamic_cast<const v1::EncodeManyResponse*>(answer.get())) {
        if (one->has_error()) CheckError(plan, one->error());
      }
    }
    if (plan.is_misuse || status.ok()) return;
    google::rpc::Status details;
    details.ParseFromString(status.error_details());
    details.set_code(status.error_code());
    details.set_message(status.error_message());
    CheckError(plan, details);
  }

  static void CheckError(const CallPlan& plan, const google::rpc::Status& error) {
    switch (static_cast<StatusCode>(error.code())) {
      case StatusCode::INVALID_ARGUMENT:
        if (plan.method->file()->package() != "beamline.v1") return;  // gRPC's own service
        return ExpectFieldOf(*plan.method->input_type(), error.message(), error);
      // of health, GetModel and questions of other protocols
      case StatusCode::NOT_FOUND:
      case StatusCode::OUT_OF_RANGE:  // an answer that would be too large
        return;
      case StatusCode::PERMISSION_DENIED:  // at the address that is not the admin's
      case StatusCode::ALREADY_EXISTS:
      case StatusCode::FAILED_PRECONDITION:
      case StatusCode::RESOURCE_EXHAUSTED:
        // gRPC's own word of a request beyond max_receive_bytes.
        if (error.message().starts_with("Received message larger than max")) return;
        EXPECT_TRUE(IsOfAdministration(*plan.method));
        return;
      case StatusCode::UNIMPLEMENTED:  // what no model can do
        EXPECT_NE(plan.method->file()->package(), "beamline.v1");
        return;
      case StatusCode::CANCELLED:
        EXPECT_TRUE(plan.cancels);
        return;
      case StatusCode::DEADLINE_EXCEEDED:
        EXPECT_TRUE(plan.hurries);
        return;
      default:
        ADD_FAILURE() << "code " << error.code() << ": " << error.message();
    }
  }

  grpc::CompletionQueue queue_;
  grpc::GenericStub stub_;
};

class RpcFuzzTest : public ::testing::Test {
 protected:
  void SetUp() override {
    google::protobuf::SetLogHandler(nullptr);  // and one for each text that is not UTF-8
    spdlog::set_level(spdlog::level::off);     // a line for each request that is refused
    EngineOptions options = TestEngineOptions();
    for (const auto& [name, model] : models_) options.models.push_back(model->Options(name));
    ModelOptions reranker = models_.at("bert")->Options("reranker");
    reranker.folder = BEAMLINE_SOURCE_DIR "/tests/golden/classifiers/bert-2x10-rank";
    options.models.push_back(reranker);
    ModelOptions tokens = models_.at("bert")->Options("tokens");
    tokens.folder = BEAMLINE_SOURCE_DIR "/tests/golden/classifiers/bert-3x8-tokens";
    options.models.push_back(tokens);
    ModelOptions masks = models_.at("bert")->Options("masks");
    masks.folder = BEAMLINE_SOURCE_DIR "/tests/golden/classifiers/bert-3x8-masks";
    options.models.push_back(masks);
    metrics_ = std::make_shared<Metrics>(options.models);
    auto engine = Engine::Create(options, metrics_.get());
    ASSERT_TRUE(engine.ok()) << engine.status();
    engine_ = engine->get();
    ServerConfig config;
    config.listen = "127.0.0.1:0";
    config.metrics_listen = config.http_listen = "off";
    config.min_ping_interval_ms = 0;
    config.admin_listen = "127.0.0.1:0";
    config.device = "cpu";
    std::filesystem::remove_all(root_);
    std::filesystem::create_directories(root_);
    std::filesystem::copy(models_.at("bert")->Options("").folder, root_ / "tiny",
                          std::filesystem::copy_options::recursive);
    config.model_root = root_.string();
    auto server = Server::Start(config, metrics_, *std::move(engine), [] { FAIL(); });
    ASSERT_TRUE(server.ok()) << server.status();
    server_ = *std::move(server);
    stub_ = v1::Inference::NewStub(
        grpc::CreateChannel(server_->address(), grpc::InsecureChannelCredentials()));
  }

  // Answers that do not depend on what was asked before.
  std::string ReferenceAnswers() {
    std::string answers;
    for (const std::string model : {"gpt2", "marian"}) {
      v1::GenerateRequest request;
      request.set_model(model);
      for (const int32_t id : {5, 7, 11}) request.mutable_prompt()->mutable_ids()->add_ids(id);
      request.mutable_beam()->set_width(3);
      request.mutable_limits()->set_max_new_tokens(8);
      grpc::ClientContext context;
      v1::GenerateResponse response;
      const grpc::Status status = stub_->Generate(&context, request, &response);
      EXPECT_TRUE(status.ok()) << status.error_message();
      for (const auto& sequence : response.sequences()) answers += sequence.SerializeAsString();
    }
    v1::EncodeRequest request;
    request.set_model("bert");
    request.add_inputs()->set_text("abc");
    grpc::ClientContext context;
    v1::EncodeResponse response;
    EXPECT_TRUE(stub_->Encode(&context, request, &response).ok());
    for (const auto& embedding : response.embeddings()) answers += embedding.SerializeAsString();
    v1::RerankRequest rerank;
    rerank.set_query("who reads mail");
    for (const char* text : {"the fox", "a dog reads mail"}) rerank.add_documents(text);
    grpc::ClientContext rerank_context;
    v1::RerankResponse ranked;
    EXPECT_TRUE(stub_->Rerank(&rerank_context, rerank, &ranked).ok());
    for (const auto& document : ranked.documents()) answers += document.SerializeAsString();
    return answers;
  }

  // Cancelled requests end a moment after their calls.
  void ExpectNothingLeft() const {
    for (const auto& [name, model] : models_) {
      ModelStats stats;
      for (int i = 0; i < 1000; ++i) {
        stats = *engine_->Stats(name);
        if (stats.used_blocks + stats.waiting_requests + stats.running_sequences == 0) break;
        std::this_thread::sleep_for(std::chrono::milliseconds(10));
      }
      EXPECT_EQ(stats.used_blocks, 0) << name;
      EXPECT_EQ(stats.waiting_requests, 0) << name;
      EXPECT_EQ(stats.running_sequences, 0) << name;
      EXPECT_TRUE(stats.can_answer) << name;
    }
  }

  std::map<std::string, std::unique_ptr<LinkedModel>> MakeModels() {
    std::map<std::string, std::unique_ptr<LinkedModel>> models;
    models["bert"] = std::make_unique<RandomStack>("bert-3x40", 100, /*with_template=*/true);
    models["gpt2"] = std::make_unique<RandomStack>("gpt2-3x40", 100, /*with_template=*/false);
    models["marian"] = std::make_unique<RandomTranslator>("marian-2x16-target", 61, 97, 80);
    return models;
  }

  ~RpcFuzzTest() override { std::filesystem::remove_all(root_); }

  const std::map<std::string, std::unique_ptr<LinkedModel>> models_ = MakeModels();
  const std::filesystem::path root_ = ScratchPath("rpc_fuzz");
  std::shared_ptr<Metrics> metrics_;
  std::unique_ptr<Server> server_;
  Engine* engine_ = nullptr;
  std::unique_ptr<v1::Inference::Stub> stub_;
};

TEST_F(RpcFuzzTest, TheServerOutlivesEveryCall) {
  const std::vector<const MethodDescriptor*> methods = AllMethods();
  ASSERT_GE(methods.size(), 14u);
  const std::string reference = ReferenceAnswers();
  for (int batch = 0; batch < kBatches && !HasFailure(); ++batch) {
    SCOPED_TRACE(testing::Message() << "batch " << batch << " of seed " << kSeed);
    std::vector<std::thread> threads;
    for (int t = 0; t < kThreads; ++t) {
      threads.emplace_back([&, seed = kSeed + static_cast<uint64_t>(batch * kThreads + t)] {
        MessageMutator mutator(seed, {"gpt2", "marian", "bert"});
        Caller caller(server_->address());
        for (int i = 0; i < kCallsAThread; ++i) caller.Make(MakePlan(mutator, methods));
      });
    }
    for (std::thread& thread : threads) thread.join();
    ExpectNothingLeft();
    EXPECT_EQ(ReferenceAnswers(), reference);
  }
  // Both kinds of calls, in numbers.
  std::map<std::string, double> counts;
  for (const auto& family : metrics_->Collect()) {
    if (family.name != "beamline_requests_total") continue;
    for (const auto& metric : family.metric) {
      for (const auto& label : metric.label) {
        if (label.name == "code") counts[label.value] += metric.counter.value;
      }
    }
  }
  EXPECT_GE(counts["OK"], kBatches * 10);
  EXPECT_GE(counts["INVALID_ARGUMENT"], kBatches * 5);
}

// LoadModel, UnloadModel and RestartReplica where they are answered: of a name that nobody else
// uses.
TEST_F(RpcFuzzTest, TheAdminAddressOutlivesEveryCall) {
  constexpr int kAdminBatches = kSanitized ? 2 : 20;
  std::vector<const MethodDescriptor*> methods;
  for (const MethodDescriptor* method : AllMethods()) {
    if (IsOfAdministration(*method)) methods.push_back(method);
  }
  ASSERT_EQ(methods.size(), 3u);
  const std::string reference = ReferenceAnswers();
  for (int batch = 0; batch < kAdminBatches && !HasFailure(); ++batch) {
    SCOPED_TRACE(testing::Message() << "batch " << batch << " of seed " << kSeed);
    std::vector<std::thread> threads;
    for (int t = 0; t < kThreads; ++t) {
      threads.emplace_back([&, seed = kSeed + static_cast<uint64_t>(batch * kThreads + t)] {
        MessageMutator mutator(seed, {"tiny"});
        Caller caller(server_->admin_address());
        for (int i = 0; i < kCallsAThread; ++i) caller.Make(MakePlan(mutator, methods));
      });
    }
    for (std::thread& thread : threads) thread.join();
    EXPECT_EQ(ReferenceAnswers(), reference);
  }
  // Calls that were cancelled go on.
  int num_loaded = 0;
  for (int i = 0; i < 1000 && engine_->Models().size() > models_.size(); ++i) {
    for (const ModelInfo& model : engine_->Models()) {
      if (models_.contains(model.name)) continue;
      num_loaded +=
          engine_->Unload(model.name, model.version, std::chrono::seconds(0)).ok() ? 1 : 0;
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  EXPECT_EQ(engine_->Models().size(), models_.size());
  EXPECT_GT(num_loaded, 0);
  ExpectNothingLeft();
}

}  // namespace
}  // namespace beamline::rpc_fuzz_test

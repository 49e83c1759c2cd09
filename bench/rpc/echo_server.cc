// rpc_echo_server: a minimal gRPC callback server for Beamline's API, as a baseline for Beamline's
// server. Encode answers with a given number of values, GenerateStream with a given number of
// one-token messages; Generate is refused. Request contents are ignored. It also accepts trace
// spans, like a collector.
#include <grpcpp/grpcpp.h>

#include <CLI/CLI.hpp>
#include <csignal>
#include <cstdio>
#include <memory>
#include <string>
#include <utility>

#include "absl/status/statusor.h"
#include "base/command_line.h"
#include "base/file.h"
#include "base/standard_streams.h"
#include "base/status.h"
#include "base/text.h"
#include "beamline/v1/inference.grpc.pb.h"
#include "beamline/v1/models.grpc.pb.h"
#include "opentelemetry/trace_service.grpc.pb.h"

namespace beamline {
namespace {

namespace otlp = opentelemetry::proto::collector::trace::v1;

// Writes the tokens one by one, each after the previous write has completed.
class TokenStream final : public grpc::ServerWriteReactor<v1::GenerateStreamResponse> {
 public:
  explicit TokenStream(int num_tokens) : num_tokens_(num_tokens) { Next(); }
  void OnWriteDone(bool ok) override {
    if (!ok) return Finish(grpc::Status::CANCELLED);
    Next();
  }
  void OnDone() override { delete this; }

 private:
  void Next() {
    if (written_ == num_tokens_) {
      message_.clear_deltas();
      message_.mutable_end()->add_sequences()->set_finish_reason(v1::FINISH_REASON_LENGTH);
      ++written_;
      return StartWriteAndFinish(&message_, grpc::WriteOptions(), grpc::Status::OK);
    }
    message_.clear_deltas();
    v1::SequenceDelta* const delta = message_.add_deltas();
    delta->add_ids(written_);
    delta->set_text(" word");
    ++written_;
    StartWrite(&message_);
  }

  const int num_tokens_;
  int written_ = 0;
  v1::GenerateStreamResponse message_;
};

class EchoService final : public v1::Inference::CallbackService {
 public:
  EchoService(int dimensions, int num_tokens) : dimensions_(dimensions), num_tokens_(num_tokens) {}

  grpc::ServerUnaryReactor* Encode(grpc::CallbackServerContext* context,
                                   const v1::EncodeRequest* request,
                                   v1::EncodeResponse* response) override {
    for (int i = 0; i < request->inputs_size(); ++i) {
      v1::Embedding* const embedding = response->add_embeddings();
      embedding->set_num_vectors(1);
      embedding->set_dimensions(dimensions_);
      for (int d = 0; d < dimensions_; ++d) embedding->add_values(0.25f * static_cast<float>(d));
    }
    grpc::ServerUnaryReactor* const reactor = context->DefaultReactor();
    reactor->Finish(grpc::Status::OK);
    return reactor;
  }

  grpc::ServerUnaryReactor* Generate(grpc::CallbackServerContext* context,
                                     const v1::GenerateRequest* /*request*/,
                                     v1::GenerateResponse* /*response*/) override {
    grpc::ServerUnaryReactor* const reactor = context->DefaultReactor();
    reactor->Finish(grpc::Status(grpc::StatusCode::RESOURCE_EXHAUSTED, "refused"));
    return reactor;
  }

  grpc::ServerWriteReactor<v1::GenerateStreamResponse>* GenerateStream(
      grpc::CallbackServerContext* /*context*/, const v1::GenerateRequest* /*request*/) override {
    return new TokenStream(num_tokens_);
  }

 private:
  const int dimensions_, num_tokens_;
};

// What the load tester needs: one model of each task.
class EchoModels final : public v1::Models::CallbackService {
 public:
  grpc::ServerUnaryReactor* ListModels(grpc::CallbackServerContext* context,
                                       const v1::ListModelsRequest* /*request*/,
                                       v1::ListModelsResponse* response) override {
    const auto add = [response](const char* name, v1::Task task) {
      v1::Model* const model = response->add_models();
      model->set_name(name);
      model->set_version(1);
      model->set_task(task);
      model->set_state(v1::MODEL_STATE_READY);
    };
    add("bert", v1::TASK_ENCODE);
    add("gpt2", v1::TASK_GENERATE);
    grpc::ServerUnaryReactor* const reactor = context->DefaultReactor();
    reactor->Finish(grpc::Status::OK);
    return reactor;
  }
};

// A span collector that accepts and ignores everything.
class EchoCollector final
    : public otlp::TraceService::WithRawCallbackMethod_Export<otlp::TraceService::Service> {
 public:
  grpc::ServerUnaryReactor* Export(grpc::CallbackServerContext* context,
                                   const grpc::ByteBuffer* /*request*/,
                                   grpc::ByteBuffer* response) override {
    const grpc::Slice all_taken;
    *response = grpc::ByteBuffer(&all_taken, 1);
    grpc::ServerUnaryReactor* const reactor = context->DefaultReactor();
    reactor->Finish(grpc::Status::OK);
    return reactor;
  }
};

// Insecure credentials if there is no certificate.
absl::StatusOr<std::shared_ptr<grpc::ServerCredentials>> CredentialsOf(
    const std::string& certificate_file, const std::string& key_file) {
  if (certificate_file.empty()) return grpc::InsecureServerCredentials();
  constexpr size_t kMostBytes = 1 << 20;
  grpc::SslServerCredentialsOptions::PemKeyCertPair pair;
  BEAMLINE_ASSIGN_OR_RETURN(pair.cert_chain,
                            ReadFile("--tls-certificate-file", certificate_file, kMostBytes));
  BEAMLINE_ASSIGN_OR_RETURN(pair.private_key, ReadFile("--tls-key-file", key_file, kMostBytes));
  grpc::SslServerCredentialsOptions options;
  options.pem_key_cert_pairs.push_back(std::move(pair));
  return grpc::SslServerCredentials(options);
}

int Main(int argc, char** argv) {
  PrepareStandardStreams();
  CLI::App app("Answers at once with messages of a given size", "rpc_echo_server");
  int dimensions = 8, num_tokens = 64;
  AddNumber(app, "--dimensions", dimensions, "Numbers of an embedding", 1, 1 << 20);
  AddNumber(app, "--tokens", num_tokens, "Messages of a stream", 1, 1 << 20);
  std::string certificate_file, key_file;
  AddPath(app, "--tls-certificate-file", certificate_file, "Speaks TLS with it, PEM");
  AddPath(app, "--tls-key-file", key_file, "The certificate's private key, PEM");
  const auto text = ParseArguments(app, argc, argv);
  if (!text.ok()) {
    std::fputs(ErrorLine("rpc_echo_server", text.status()).c_str(), stderr);
    return 2;
  }
  if (!text->empty()) return std::fputs(text->c_str(), stdout) < 0 ? 1 : 0;

  const auto credentials = CredentialsOf(certificate_file, key_file);
  if (!credentials.ok()) {
    std::fputs(ErrorLine("rpc_echo_server", credentials.status()).c_str(), stderr);
    return 1;
  }

  sigset_t signals;  // blocked before gRPC's threads start, so that only sigwait receives them
  sigemptyset(&signals);
  sigaddset(&signals, SIGTERM);
  sigaddset(&signals, SIGINT);
  pthread_sigmask(SIG_BLOCK, &signals, nullptr);

  EchoService service(dimensions, num_tokens);
  EchoModels models;
  EchoCollector collector;
  grpc::ServerBuilder builder;
  int port = 0;
  builder.AddListeningPort("127.0.0.1:0", *credentials, &port);
  builder.RegisterService(&service);
  builder.RegisterService(&models);
  builder.RegisterService(&collector);
  const std::unique_ptr<grpc::Server> server = builder.BuildAndStart();
  if (server == nullptr || port == 0) {
    std::fputs("rpc_echo_server: no port of 127.0.0.1 can be listened at\n", stderr);
    return 1;
  }
  std::printf("serving on 127.0.0.1:%d\n", port);
  std::fflush(stdout);
  int signal = 0;
  sigwait(&signals, &signal);
  server->Shutdown();
  return 0;
}

}  // namespace
}  // namespace beamline

int main(int argc, char** argv) { return beamline::Main(argc, argv); }

// What a client is told of each fault of a request, byte for byte, through a server with the demo
// models, three classifiers and a model that fills masks: error_texts.txt and
// error_texts_classify.txt hold requests and answers. LoadModel and UnloadModel go to the admin
// address, whose model folders SetUp makes; MODEL_ROOT in an answer is the path of these. With the
// environment variable BEAMLINE_WRITE_ERROR_TEXTS this test writes the answers that it got to files
// of these names in the folder of that name.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include "beamline/v1/inference.grpc.pb.h"
#include "beamline/v1/models.grpc.pb.h"
#include "fmt/format.h"
#include "google/protobuf/text_format.h"
#include "google/rpc/error_details.pb.h"
#include "grpcpp/grpcpp.h"
#include "server/process/server.h"
#include "spdlog/spdlog.h"
#include "tests/engine/demo_engine.h"
#include "tests/fuzz/message_mutator.h"
#include "tests/scratch_path.h"

namespace beamline::error_texts_test {
namespace {

namespace fs = std::filesystem;

constexpr char kFolder[] = BEAMLINE_SOURCE_DIR "/tests/server/";
constexpr const char* kFiles[] = {"error_texts.txt", "error_texts_classify.txt"};
constexpr char kAnswerIndent[] = "  ";

// "x *300" in quotes is 300 times what stands before the star.
std::string WithLongTexts(const std::string& part) {
  std::string text;
  bool is_quoted = false;
  for (const std::string& piece : std::vector<std::string>(absl::StrSplit(part, '"'))) {
    const size_t star = is_quoted ? piece.find('*') : std::string::npos;
    if (is_quoted) text += '"';
    if (star == std::string::npos) {
      text += piece;
    } else {
      const auto times = std::stoul(piece.substr(star + 1));
      for (size_t i = 0; i < times; ++i) text += piece.substr(0, star);
    }
    if (is_quoted) text += '"';
    is_quoted = !is_quoted;
  }
  return text;
}

// "RPC | PART | 17 * PART": the parts in the text format, "#" for which time it is.
template <typename Message>
Message ParseRequest(const std::vector<std::string>& parts) {
  Message message;
  for (size_t i = 1; i < parts.size(); ++i) {
    std::string part = parts[i];
    size_t times = 1;
    if (const size_t star = part.find(" * "); star != std::string::npos) {
      times = std::stoul(part);
      part.erase(0, star + 3);
    }
    part = WithLongTexts(part);
    for (size_t n = 0; n < times; ++n) {
      Message piece;
      EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(
          absl::StrReplaceAll(part, {{"#", std::to_string(n)}}), &piece))
          << part;
      message.MergeFrom(piece);
    }
  }
  return message;
}

// "CODE [FIELD] TEXT".
std::string Describe(const google::rpc::Status& error,
                     const google::protobuf::Descriptor& request) {
  if (error.code() == 0) return "OK";
  google::rpc::BadRequest bad_request;
  std::string field;
  for (const auto& detail : error.details()) {
    if (!detail.UnpackTo(&bad_request)) continue;
    EXPECT_EQ(bad_request.field_violations_size(), 1);
    EXPECT_EQ(bad_request.field_violations(0).description(), error.message());
    field = bad_request.field_violations(0).field();
    EXPECT_TRUE(IsFieldPath(request, field)) << field << " of " << error.message();
  }
  return fmt::format("{} [{}] {}",
                     absl::StatusCodeToString(static_cast<absl::StatusCode>(error.code())), field,
                     error.message());
}

class ErrorTextsTest : public testing::Test {
 protected:
  void SetUp() override {
    spdlog::set_level(spdlog::level::off);  // a line for each request that is refused
    EngineOptions options = TestEngineOptions();
    options.models = {Demo("translate-en-de"), Demo("embed-en"), Demo("write-en")};
    for (const char* name :
         {"bert-5x6-labels", "bert-2x10-rank", "bert-3x8-tokens", "bert-3x8-masks"}) {
      ModelOptions classifier = Demo(name);
      classifier.folder = std::string(BEAMLINE_SOURCE_DIR "/tests/golden/classifiers/") + name;
      options.models.push_back(classifier);
    }
    options.models[2].max_sequences = 8;
    options.models[2].cache_bytes = 1;  // as little as there may be
    auto engine = Engine::Create(options);
    ASSERT_TRUE(engine.ok()) << engine.status();
    ServerConfig config;
    config.listen = "127.0.0.1:0";
    config.metrics_listen = config.http_listen = "off";
    config.admin_listen = "127.0.0.1:0";
    MakeModelRoot();
    config.model_root = root_.string();
    auto server = Server::Start(config, std::make_shared<Metrics>(options.models),
                                *std::move(engine), [] { FAIL(); });
    ASSERT_TRUE(server.ok()) << server.status();
    server_ = *std::move(server);
    const auto channel =
        grpc::CreateChannel(server_->address(), grpc::InsecureChannelCredentials());
    inference_ = v1::Inference::NewStub(channel);
    models_ = v1::Models::NewStub(channel);
    admin_ = v1::Models::NewStub(
        grpc::CreateChannel(server_->admin_address(), grpc::InsecureChannelCredentials()));
  }
  ~ErrorTextsTest() override { fs::remove_all(scratch_); }

  std::string Ask(const std::string& line) {
    const std::vector<std::string> parts = absl::StrSplit(line, " | ");
    using Stub = v1::Inference::Stub;
    using Models = v1::Models::Stub;
    if (parts[0] == "Generate") return AskOne(*inference_, &Stub::Generate, parts);
    if (parts[0] == "Encode") return AskOne(*inference_, &Stub::Encode, parts);
    if (parts[0] == "Score") return AskOne(*inference_, &Stub::Score, parts);
    if (parts[0] == "Classify") return AskOne(*inference_, &Stub::Classify, parts);
    if (parts[0] == "Rerank") return AskOne(*inference_, &Stub::Rerank, parts);
    if (parts[0] == "ClassifyTokens") return AskOne(*inference_, &Stub::ClassifyTokens, parts);
    if (parts[0] == "FillMask") return AskOne(*inference_, &Stub::FillMask, parts);
    if (parts[0] == "Tokenize") return AskOne(*inference_, &Stub::Tokenize, parts);
    if (parts[0] == "Detokenize") return AskOne(*inference_, &Stub::Detokenize, parts);
    if (parts[0] == "GenerateMany") return AskMany(&Stub::GenerateMany, parts);
    if (parts[0] == "EncodeMany") return AskMany(&Stub::EncodeMany, parts);
    if (parts[0] == "GetModel") return AskOne(*models_, &Models::GetModel, parts);
    if (parts[0] == "LoadModel") return AskOne(*admin_, &Models::LoadModel, parts);
    if (parts[0] == "UnloadModel") return AskOne(*admin_, &Models::UnloadModel, parts);
    if (parts[0] == "RestartReplica") return AskOne(*admin_, &Models::RestartReplica, parts);
    ADD_FAILURE() << "no such RPC: " << line;
    return "";
  }

 private:
  // Folders that hold no model: an empty one, one with a torn config.json, and one that a link
  // leads to from below the root.
  void MakeModelRoot() {
    for (const char* name : {"root/empty", "root/torn", "outside"}) {
      fs::create_directories(scratch_ / name);
    }
    std::ofstream(root_ / "torn" / "config.json") << "{\"model_type\": ";
    std::ofstream(root_ / "file") << "no folder";
    fs::create_directory_symlink("../outside", root_ / "link");
  }

  template <typename Stub, typename Request, typename Response>
  std::string AskOne(Stub& stub,
                     grpc::Status (Stub::*rpc)(grpc::ClientContext*, const Request&, Response*),
                     const std::vector<std::string>& parts) {
    grpc::ClientContext context;
    Response response;
    const grpc::Status status = (stub.*rpc)(&context, ParseRequest<Request>(parts), &response);
    google::rpc::Status error;
    EXPECT_TRUE(error.ParseFromString(status.error_details()));
    EXPECT_EQ(error.code(), static_cast<int>(status.error_code())) << status.error_message();
    return absl::StrReplaceAll(Describe(error, *Request::descriptor()),
                               {{fs::weakly_canonical(root_).string(), "MODEL_ROOT"}});
  }

  template <typename Request, typename Envelope>
  std::string AskMany(std::unique_ptr<grpc::ClientReaderWriter<Request, Envelope>> (
                          v1::Inference::Stub::*rpc)(grpc::ClientContext*),
                      const std::vector<std::string>& parts) {
    grpc::ClientContext context;
    const auto stream = (inference_.get()->*rpc)(&context);
    stream->Write(ParseRequest<Request>(parts));
    stream->WritesDone();
    Envelope envelope;
    EXPECT_TRUE(stream->Read(&envelope));
    EXPECT_TRUE(stream->Finish().ok());
    return Describe(envelope.error(), *Request::descriptor());
  }

  const fs::path scratch_ = ScratchPath("error_texts");
  const fs::path root_ = scratch_ / "root";
  std::unique_ptr<Server> server_;
  std::unique_ptr<v1::Inference::Stub> inference_;
  std::unique_ptr<v1::Models::Stub> models_;  // at the public address
  std::unique_ptr<v1::Models::Stub> admin_;
};

TEST_F(ErrorTextsTest, AreThoseOfTheFiles) {
  size_t num_requests = 0;
  for (const std::string name : kFiles) {
    std::ifstream file(kFolder + name);
    std::ofstream written;
    if (const char* path = std::getenv("BEAMLINE_WRITE_ERROR_TEXTS"))
      written.open(path + ("/" + name));
    std::string request, expected;
    while (std::getline(file, request)) {
      if (request.starts_with(kAnswerIndent)) continue;
      ++num_requests;
      const std::string answer = Ask(request);
      written << request << "\n" << kAnswerIndent << answer << "\n";
      if (file.peek() == kAnswerIndent[0]) std::getline(file, expected);
      EXPECT_EQ(kAnswerIndent + answer, expected) << request;
    }
  }
  EXPECT_GT(num_requests, 100u);
}

}  // namespace
}  // namespace beamline::error_texts_test

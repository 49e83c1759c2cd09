// Who may call which RPC, and what a caller's name decides.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <future>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "beamline/v1/inference.grpc.pb.h"
#include "beamline/v1/models.grpc.pb.h"
#include "fmt/format.h"
#include "grpcpp/grpcpp.h"
#include "server/security/identities.h"
#include "tests/scratch_path.h"
#include "tests/server/security/certificates.h"
#include "tests/server/security/token_hash.h"
#include "tests/server/service_fixture.h"
#include "tests/server/telemetry/log/log_capture.h"

namespace beamline::identity_test {
namespace {

using testing::HasSubstr;

using Call = std::function<absl::Status(Client&)>;

v1::EncodeRequest OneText() {
  v1::EncodeRequest request;
  request.add_inputs()->set_text("a");
  return request;
}

// Of each RPC a call that the engine answers or refuses at once.
std::map<std::string, Call> InferenceCalls() {
  v1::GenerateRequest unknown;
  unknown.set_model("nobody");
  return {
      {"Generate", [=](Client& c) { return c.Generate(unknown, kSoon).status(); }},
      {"GenerateStream",
       [=](Client& c) {
         return c
             .GenerateStream(
                 unknown, [](const auto&) { return true; }, kSoon)
             .status();
       }},
      {"GenerateMany",
       [=](Client& c) { return c.GenerateMany(std::vector{unknown}, kSoon)[0].status(); }},
      {"Encode", [](Client& c) { return c.Encode(OneText(), kSoon).status(); }},
      {"EncodeMany",
       [](Client& c) { return c.EncodeMany(std::vector{OneText()}, kSoon)[0].status(); }},
      {"Score", [](Client& c) { return c.Score({}, kSoon).status(); }},
      {"Classify", [](Client& c) { return c.Classify({}, kSoon).status(); }},
      {"FillMask", [](Client& c) { return c.FillMask({}, kSoon).status(); }},
      {"ClassifyTokens", [](Client& c) { return c.ClassifyTokens({}, kSoon).status(); }},
      {"Rerank", [](Client& c) { return c.Rerank({}, kSoon).status(); }},
      {"Tokenize", [](Client& c) { return c.Tokenize({}, kSoon).status(); }},
      {"Detokenize", [](Client& c) { return c.Detokenize({}, kSoon).status(); }},
  };
}
std::map<std::string, Call> AdminCalls() {
  return {
      {"LoadModel", [](Client& c) { return c.LoadModel({}, kSoon).status(); }},
      {"UnloadModel", [](Client& c) { return c.UnloadModel({}, kSoon).status(); }},
      {"RestartReplica", [](Client& c) { return c.RestartReplica({}, kSoon).status(); }},
  };
}
std::map<std::string, Call> Questions() {
  return {
      {"ListModels", [](Client& c) { return c.ListModels(kSoon).status(); }},
      {"GetModel", [](Client& c) { return c.GetModel("writer", kSoon).status(); }},
  };
}

std::string Text(const absl::Status& status) {
  return absl::StatusCodeToString(status.code()) + ": " + std::string(status.message());
}

bool IsRefusal(const absl::Status& status) {
  return absl::IsUnauthenticated(status) || absl::IsPermissionDenied(status);
}

class IdentityTest : public ServiceTest {
 protected:
  void ServeIdentities(const std::string& text) {
    config_.identity_file = ScratchPath("identities");
    ReplaceFile(config_.identity_file, text);
    Serve(config_);
  }
  std::unique_ptr<Client> With(const std::string& token, bool admin = false) const {
    return std::make_unique<Client>(ClientOptions{
        .address = admin ? server_->admin_address() : server_->address(), .token = token});
  }
  // What the engine gets of a Generate of the client.
  FakeRequest Generated(Client& client, const std::string& salt = "") {
    v1::GenerateRequest request = Request();
    request.set_cache_salt(salt);
    auto answer =
        std::async(std::launch::async, [&] { return client.Generate(request, kSoon).status(); });
    const FakeRequest generated = engine_->WaitForRequest(num_generated_++);
    engine_->Finish(generated, TextResult("done"));
    EXPECT_TRUE(answer.get().ok());
    return generated;
  }

  const std::string two_ = "alice inference " + HashOf("of alice") + "\nops admin " +
                           HashOf("of ops") + "\nbob inference,admin " + HashOf("of bob");
  ServerConfig config_;
  size_t num_generated_ = 0;
};

// Each RPC of the contract is called below.
TEST(Identity, CallsAreThoseOfTheContract) {
  std::set<std::string> called, contract;
  for (const auto& calls : {InferenceCalls(), AdminCalls(), Questions()}) {
    for (const auto& [name, call] : calls) called.insert(name);
  }
  for (const auto* file :
       {v1::EncodeRequest::descriptor()->file(), v1::LoadModelRequest::descriptor()->file()}) {
    for (int s = 0; s < file->service_count(); ++s) {
      for (int m = 0; m < file->service(s)->method_count(); ++m) {
        contract.insert(file->service(s)->method(m)->name());
      }
    }
  }
  EXPECT_EQ(called, contract);
}

TEST_F(IdentityTest, NobodyCallsWithoutAToken) {
  config_.admin_listen = "127.0.0.1:0";
  config_.model_root = ScratchPath("");
  ServeIdentities(two_);
  for (const bool at_admin : {false, true}) {
    const auto none = With("", at_admin), wrong = With("of nobody", at_admin);
    for (const auto& calls : {InferenceCalls(), AdminCalls(), Questions()}) {
      for (const auto& [name, call] : calls) {
        if (at_admin && InferenceCalls().contains(name)) continue;  // it is not there
        EXPECT_EQ(Text(call(*none)),
                  "UNAUTHENTICATED: there is no token: this server asks for the metadata "
                  "authorization, 'Bearer TOKEN'")
            << name;
        EXPECT_EQ(Text(call(*wrong)), "UNAUTHENTICATED: the token is none that this server knows")
            << name;
      }
    }
  }
  EXPECT_GE(Counter("beamline_rejected_total", "reason=unauthenticated"), 26);
  // Health is for everybody.
  EXPECT_TRUE(*With("")->Health("writer", kSoon));
}

// Where every request has a line, those have one too that the gate refuses; else whoever has no
// token could fill the log.
TEST_F(IdentityTest, RefusedCallsAreLoggedWhereAllAre) {
  for (const bool all : {true, false}) {
    LogCapture log(spdlog::level::info);
    config_.log_requests = all ? "all" : "errors";
    ServeIdentities(two_);
    const auto wrong = With("of nobody"), ops = With("of ops");
    for (const auto& calls : {InferenceCalls(), Questions()}) {
      for (const auto& [name, call] : calls) EXPECT_FALSE(call(*wrong).ok());
    }
    EXPECT_FALSE(InferenceCalls().at("Encode")(*ops).ok());
    server_.reset();
    const std::string text = log.text();
    for (const auto& calls : {InferenceCalls(), Questions()}) {
      for (const auto& [name, call] : calls) {
        const std::string line = fmt::format(
            "info request rpc={} model=\"\" request_id=\"\" code=UNAUTHENTICATED seconds=0.000000 "
            "client=\"ipv4:127.0.0.1\" peer=\"ipv4:127.0.0.1:",
            name);
        EXPECT_EQ(text.find(line) != std::string::npos, all) << line << text;
      }
    }
    EXPECT_EQ(text.find("rpc=Encode model=\"\" request_id=\"\" code=PERMISSION_DENIED") !=
                  std::string::npos,
              all);
    EXPECT_EQ(text.find("of nobody"), std::string::npos);
  }
}

TEST_F(IdentityTest, RightsDecideWhatIsCalled) {
  config_.admin_listen = "127.0.0.1:0";
  config_.model_root = ScratchPath("");
  ServeIdentities(two_);
  for (const auto& [name, call] : InferenceCalls()) {
    EXPECT_FALSE(IsRefusal(call(*With("of alice")))) << name;
    EXPECT_FALSE(IsRefusal(call(*With("of bob")))) << name;
    EXPECT_EQ(Text(call(*With("of ops"))),
              "PERMISSION_DENIED: 'ops' has not the right to this call, which is 'inference'")
        << name;
  }
  for (const auto& [name, call] : AdminCalls()) {
    EXPECT_EQ(Text(call(*With("of alice", true))),
              "PERMISSION_DENIED: 'alice' has not the right to this call, which is 'admin'")
        << name;
    EXPECT_FALSE(IsRefusal(call(*With("of ops", true)))) << name;
    // At the other address as without tokens.
    EXPECT_THAT(Text(call(*With("of ops"))), HasSubstr("admin address alone")) << name;
  }
  for (const auto& [name, call] : Questions()) {
    for (const char* token : {"of alice", "of ops"}) {
      EXPECT_TRUE(call(*With(token)).ok()) << name;
      EXPECT_TRUE(call(*With(token, true)).ok()) << name;
    }
  }
  EXPECT_EQ(Counter("beamline_rejected_total", "reason=permission_denied"), 15);
}

TEST_F(IdentityTest, OtherFormsAreNoToken) {
  ServeIdentities(two_);
  const auto stub = v1::Models::NewStub(
      grpc::CreateChannel(server_->address(), grpc::InsecureChannelCredentials()));
  for (const auto& [value, code] :
       {std::pair("of alice", grpc::StatusCode::UNAUTHENTICATED),
        std::pair("Basic of alice", grpc::StatusCode::UNAUTHENTICATED),
        std::pair("Bearer", grpc::StatusCode::UNAUTHENTICATED),
        std::pair("Bearer  of alice", grpc::StatusCode::UNAUTHENTICATED),
        std::pair("bearer of alice", grpc::StatusCode::OK)}) {
    grpc::ClientContext context;
    context.AddMetadata("authorization", value);
    v1::ListModelsResponse response;
    EXPECT_EQ(stub->ListModels(&context, {}, &response).error_code(), code) << value;
  }
}

TEST_F(IdentityTest, TwoTokensAreNone) {
  ServeIdentities(two_);
  const auto stub = v1::Models::NewStub(
      grpc::CreateChannel(server_->address(), grpc::InsecureChannelCredentials()));
  grpc::ClientContext context;
  context.AddMetadata("authorization", "Bearer of alice");
  context.AddMetadata("authorization", "Bearer of ops");
  v1::ListModelsResponse response;
  const grpc::Status status = stub->ListModels(&context, {}, &response);
  EXPECT_EQ(status.error_code(), grpc::StatusCode::UNAUTHENTICATED);
  EXPECT_EQ(status.error_message(), "the metadata authorization comes twice");
}

TEST_F(IdentityTest, TokensThatNoMetadataMayHoldAreUnknown) {
  ServeIdentities(two_);
  for (const std::string token : {"of alice\n", "\xC3\xA4", "\x7F"}) {
    EXPECT_TRUE(absl::IsUnauthenticated(With(token)->ListModels(kSoon).status()));
  }
}

TEST_F(IdentityTest, TheNameIsTheClientAndItsCache) {
  ServeIdentities(two_);
  const auto alice = With("of alice"), bob = With("of bob");
  const FakeRequest of_alice = Generated(*alice);
  EXPECT_EQ(of_alice.request.client, "alice");
  EXPECT_EQ(of_alice.request.cache_salt, SaltOf("alice", ""));
  EXPECT_EQ(Generated(*alice, "s").request.cache_salt, SaltOf("alice", "s"));
  EXPECT_EQ(Generated(*bob).request.cache_salt, SaltOf("bob", ""));
  // What a client says of itself does not count.
  const auto stub = v1::Inference::NewStub(
      grpc::CreateChannel(server_->address(), grpc::InsecureChannelCredentials()));
  auto answer = std::async(std::launch::async, [&] {
    grpc::ClientContext context;
    context.AddMetadata("authorization", "Bearer of alice");
    context.AddMetadata("x-client-id", "bob");
    v1::GenerateResponse response;
    return stub->Generate(&context, Request(), &response);
  });
  const FakeRequest claimed = engine_->WaitForRequest(num_generated_);
  EXPECT_EQ(claimed.request.client, "alice");
  engine_->Finish(claimed, TextResult("done"));
  EXPECT_TRUE(answer.get().ok());
}

TEST_F(IdentityTest, TheCacheMayBeShared) {
  config_.isolate_identities = false;
  ServeIdentities(two_);
  const FakeRequest generated = Generated(*With("of alice"), "s");
  EXPECT_EQ(generated.request.client, "alice");
  EXPECT_EQ(generated.request.cache_salt, "s");
}

TEST_F(IdentityTest, WithoutAFileNothingChanges) {
  Serve();
  EXPECT_EQ(Generated(*client_, "s").request.cache_salt, "s");
  EXPECT_EQ(Generated(*With("any")).request.client, "ipv4:127.0.0.1");
}

TEST_F(IdentityTest, TokensComeAndGoWhileItServes) {
  ServeIdentities(two_);
  const auto alice = With("of alice"), carol = With("of carol");
  EXPECT_TRUE(alice->ListModels(kSoon).ok());
  EXPECT_TRUE(absl::IsUnauthenticated(carol->ListModels(kSoon).status()));
  ReplaceFile(config_.identity_file, "carol inference " + HashOf("of carol"));
  const auto until = std::chrono::steady_clock::now() + std::chrono::seconds(30);
  while (!carol->ListModels(kSoon).ok() && std::chrono::steady_clock::now() < until) {
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
  EXPECT_TRUE(carol->ListModels(kSoon).ok());
  EXPECT_TRUE(absl::IsUnauthenticated(alice->ListModels(kSoon).status()));
}

// Each request of a stream is one that must be allowed, however long ago the stream began.
TEST_F(IdentityTest, ATokenThatIsTakenBackEndsItsStreams) {
  ServeIdentities(two_);
  const auto stub = v1::Inference::NewStub(
      grpc::CreateChannel(server_->address(), grpc::InsecureChannelCredentials()));
  grpc::ClientContext context;
  context.AddMetadata("authorization", "Bearer of alice");
  const auto stream = stub->EncodeMany(&context);
  const auto ask = [&](const std::string& id) {
    v1::EncodeRequest request = OneText();
    request.set_request_id(id);
    v1::EncodeManyResponse response;
    EXPECT_TRUE(stream->Write(request) && stream->Read(&response));
    EXPECT_EQ(response.request_id(), id);
    return static_cast<grpc::StatusCode>(response.error().code());
  };
  EXPECT_EQ(ask("first"), grpc::StatusCode::OK);
  const auto alice = With("of alice");
  ReplaceFile(config_.identity_file, "carol inference " + HashOf("of carol"));
  const auto until = std::chrono::steady_clock::now() + std::chrono::seconds(30);
  while (alice->ListModels(kSoon).ok() && std::chrono::steady_clock::now() < until) {
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
  EXPECT_EQ(ask("second"), grpc::StatusCode::UNAUTHENTICATED);
  stream->WritesDone();
  EXPECT_TRUE(stream->Finish().ok());
}

TEST_F(IdentityTest, ACertificateIsAName) {
  const TestAuthority authority("authority");
  const CertificateAndKey own = authority.Issue("server");
  config_.tls_certificate_file = ScratchPath("certificate");
  config_.tls_key_file = ScratchPath("key");
  config_.tls_client_ca_file = ScratchPath("ca");
  ReplaceFile(config_.tls_certificate_file, own.certificate);
  ReplaceFile(config_.tls_key_file, own.key);
  ReplaceFile(config_.tls_client_ca_file, authority.certificate());
  const auto with = [&](const std::string& name, const std::string& token = "") {
    const CertificateAndKey pair = authority.Issue(name);
    return std::make_unique<Client>(
        ClientOptions{.address = server_->address(),
                      .tls = TlsOptions{.root_certificates = authority.certificate(),
                                        .certificate_chain = pair.certificate,
                                        .private_key = pair.key},
                      .token = token});
  };
  // Without a file all of them may call.
  Serve(config_);
  const FakeRequest known = Generated(*with("dave"));
  EXPECT_EQ(known.request.client, "dave");
  EXPECT_EQ(known.request.cache_salt, SaltOf("dave", ""));
  num_generated_ = 0;
  ServeIdentities(two_ + "\ndave inference certificate");
  EXPECT_EQ(Generated(*with("dave")).request.client, "dave");
  EXPECT_EQ(Generated(*with("erin", "of bob")).request.client, "bob");  // the token counts
  EXPECT_TRUE(absl::IsUnauthenticated(with("erin")->ListModels(kSoon).status()));
  EXPECT_TRUE(absl::IsUnauthenticated(with("alice")->ListModels(kSoon).status()));
  EXPECT_TRUE(absl::IsUnauthenticated(with("dave", "wrong")->ListModels(kSoon).status()));
}

TEST_F(IdentityTest, DoesNotStartWithAFaultyFile) {
  config_.identity_file = ScratchPath("faulty");
  ReplaceFile(config_.identity_file, "alice");
  config_.listen = "127.0.0.1:0";
  config_.metrics_listen = "off";
  const auto server = Server::Start(config_, std::make_shared<Metrics>(std::vector<ModelOptions>()),
                                    std::make_unique<FakeEngine>());
  EXPECT_THAT(server.status().ToString(), HasSubstr("line 1: the rights are ''"));
}

}  // namespace
}  // namespace beamline::identity_test

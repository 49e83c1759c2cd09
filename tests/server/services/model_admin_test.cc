// LoadModel and UnloadModel at the admin address, over an engine that does what the test says.
#include <gmock/gmock.h>

#include <atomic>
#include <cstdlib>
#include <filesystem>
#include <future>
#include <thread>
#include <vector>

#include "beamline/v1/inference.grpc.pb.h"
#include "beamline/v1/models.grpc.pb.h"
#include "google/rpc/error_details.pb.h"
#include "google/rpc/status.pb.h"
#include "grpcpp/grpcpp.h"
#include "server/calls/admin_calls.h"
#include "server/net/descriptors.h"
#include "tests/scratch_path.h"
#include "tests/server/net/raw_connection.h"
#include "tests/server/service_fixture.h"

namespace beamline::model_admin_test {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;

std::string Text(const absl::Status& status) {
  return std::string(absl::StatusCodeToString(status.code())) + ": " +
         std::string(status.message());
}

class ModelAdminTest : public ServiceTest {
 protected:
  void ServeAdmin() {
    fs::create_directories(root_ / "folder");
    fs::create_directories(root_ / "m");
    ServerConfig config;
    config.admin_listen = "127.0.0.1:0";
    config.model_root = root_.string();
    config.device = "cpu";
    config.drain_timeout_ms = 4321;
    Serve(config);
    admin_ = std::make_unique<Client>(ClientOptions{.address = server_->admin_address()});
  }
  ~ModelAdminTest() override { fs::remove_all(root_); }

  absl::StatusOr<v1::Model> Load(const std::string& name, const std::string& folder = "folder",
                                 const CallOptions& options = kSoon) {
    v1::LoadModelRequest request;
    request.set_name(name);
    request.set_folder(folder);
    return admin_->LoadModel(request, options);
  }
  absl::StatusOr<v1::UnloadModelResponse> Unload(const std::string& name) {
    v1::UnloadModelRequest request;
    request.set_name(name);
    return admin_->UnloadModel(request, kSoon);
  }

  const fs::path root_ = ScratchPath("model_admin");
  std::unique_ptr<Client> admin_;
};

TEST_F(ModelAdminTest, IsOffUnlessTheOperatorSaysSo) {
  Serve();
  EXPECT_EQ(server_->admin_address(), "");
  EXPECT_EQ(Text(client_->LoadModel({}, kSoon).status()),
            "UNIMPLEMENTED: LoadModel is off on this server; its operator turns it on with "
            "admin_listen and model_root");
  EXPECT_THAT(Text(client_->UnloadModel({}, kSoon).status()),
              HasSubstr("UNIMPLEMENTED: UnloadModel is off"));
}

TEST_F(ModelAdminTest, IsAnsweredAtItsOwnAddressAlone) {
  ServeAdmin();
  EXPECT_EQ(Text(client_->LoadModel({}, kSoon).status()),
            "PERMISSION_DENIED: LoadModel is answered at the server's admin address alone "
            "(admin_listen)");
  EXPECT_THAT(Text(client_->UnloadModel({}, kSoon).status()), HasSubstr("PERMISSION_DENIED"));
  EXPECT_EQ(admin_->ListModels(kSoon)->models_size(), 2);
  EXPECT_TRUE(admin_->GetModel("writer", kSoon).ok());
  // And there is nothing else there.
  EXPECT_EQ(admin_->Generate(Request(), kSoon).status().code(), absl::StatusCode::kUnimplemented);
  EXPECT_EQ(admin_->Health("", kSoon).status().code(), absl::StatusCode::kUnimplemented);
}

TEST_F(ModelAdminTest, LoadsWithWhatTheRequestSays) {
  ServeAdmin();
  v1::LoadModelRequest request;
  request.set_name("m");
  request.set_version(3);
  request.mutable_settings()->set_max_sequences(5);
  const auto model = admin_->LoadModel(request, kSoon);
  ASSERT_TRUE(model.ok()) << model.status();
  EXPECT_EQ(model->name(), "m");
  EXPECT_EQ(model->version(), 3);
  EXPECT_EQ(model->state(), v1::MODEL_STATE_READY);
  const ModelOptions asked = engine_->WaitForLoads(1)[0];
  EXPECT_EQ(asked.folder, fs::canonical(root_ / "m").string());  // the name's
  EXPECT_EQ(asked.device, "cpu");                                // the server's
  EXPECT_EQ(asked.max_sequences, 5);
  // Everybody knows of it.
  EXPECT_EQ(client_->ListModels(kSoon)->models_size(), 3);
  EXPECT_EQ(client_->GetModel("m@3", kSoon)->version(), 3);
  EXPECT_TRUE(*client_->Health("m", kSoon));
  EXPECT_TRUE(*client_->Health("m@3", kSoon));
  EXPECT_THAT(server_->model_names(), HasSubstr("writer, embedder, m"));

  const auto gone = Unload("m");
  ASSERT_TRUE(gone.ok()) << gone.status();
  EXPECT_EQ(gone->model().version(), 3);
  EXPECT_EQ(engine_->last_grace(), std::chrono::milliseconds(4321));
  EXPECT_EQ(client_->GetModel("m", kSoon).status().code(), absl::StatusCode::kNotFound);
  EXPECT_FALSE(*client_->Health("m", kSoon));
  EXPECT_FALSE(*client_->Health("m@3", kSoon));
  EXPECT_TRUE(*client_->Health("", kSoon));
  EXPECT_THAT(Text(Unload("m").status()), HasSubstr("NOT_FOUND: "));
}

TEST_F(ModelAdminTest, AGraceIsTaken) {
  ServeAdmin();
  v1::UnloadModelRequest request;
  request.set_name("writer");
  request.mutable_grace()->set_seconds(2);
  ASSERT_TRUE(admin_->UnloadModel(request, kSoon).ok());
  EXPECT_EQ(engine_->last_grace(), std::chrono::seconds(2));
  request.mutable_grace()->set_seconds(-2);
  EXPECT_EQ(InvalidField(admin_->UnloadModel(request, kSoon).status()), "grace");
  request.clear_grace();
  request.set_version(-1);
  EXPECT_EQ(InvalidField(admin_->UnloadModel(request, kSoon).status()), "version");
}

TEST_F(ModelAdminTest, ARestartIsTaken) {
  v1::RestartReplicaRequest request;
  request.set_name("writer");
  ServeAdmin();
  EXPECT_EQ(client_->RestartReplica(request, kSoon).status().code(),
            absl::StatusCode::kPermissionDenied);
  ASSERT_TRUE(admin_->RestartReplica(request, kSoon).ok());
  request.set_version(1);
  request.set_replica(3);
  request.mutable_grace()->set_seconds(2);
  const auto model = admin_->RestartReplica(request, kSoon);
  ASSERT_TRUE(model.ok()) << model.status();
  EXPECT_EQ(model->name(), "writer");
  const std::vector<FakeEngine::Restart> expected = {
      {"writer", 0, 0, std::chrono::milliseconds(4321)}, {"writer", 1, 3, std::chrono::seconds(2)}};
  EXPECT_EQ(engine_->restarts(), expected);
  request.mutable_grace()->set_seconds(-2);
  EXPECT_EQ(InvalidField(admin_->RestartReplica(request, kSoon).status()), "grace");
  request.clear_grace();
  request.set_version(-1);
  EXPECT_EQ(InvalidField(admin_->RestartReplica(request, kSoon).status()), "version");
}

// A model whose replicas all fail is NOT_SERVING until one answers again.
TEST_F(ModelAdminTest, HealthFollowsTheReplicas) {
  ServeAdmin();
  ReplicaChange change;
  change.model = *engine_->FindModel("writer");
  change.phase = ReplicaPhase::kFailed;
  change.reason = "its device broke";
  engine_->Tell(change);
  EXPECT_TRUE(*client_->Health("writer", kSoon));  // another one can
  change.model_can_answer = false;
  engine_->Tell(change);
  EXPECT_FALSE(*client_->Health("writer", kSoon));
  EXPECT_FALSE(*client_->Health("", kSoon));
  change.phase = ReplicaPhase::kUp;
  change.model_can_answer = true;
  engine_->Tell(change);
  EXPECT_TRUE(*client_->Health("writer", kSoon));
  EXPECT_TRUE(*client_->Health("", kSoon));
}

TEST_F(ModelAdminTest, NamesAreChecked) {
  ServeAdmin();
  for (const std::string& name :
       {std::string(), std::string("../m"), std::string("a/b"), std::string("/m"),
        std::string(".."), std::string(".m"), std::string("-m"), std::string("a b"),
        std::string("m@2"), std::string("none"), std::string("m\n"), std::string("\u00e4"),
        std::string(129, 'a')}) {
    const absl::Status status = Load(name).status();
    EXPECT_EQ(InvalidField(status), "name") << status;
  }
  EXPECT_EQ(InvalidField(Load("m", "../folder").status()), "folder");
  EXPECT_THAT(Text(Load("m", "nowhere").status()), HasSubstr("NOT_FOUND: folder is 'nowhere'"));
  EXPECT_TRUE(engine_->WaitForLoads(0).empty());
  EXPECT_TRUE(Load(std::string(128, 'a')).ok());
  EXPECT_TRUE(Load("0.m_M-9").ok());
}

TEST_F(ModelAdminTest, TheEnginesErrorsNameTheRequestsFields) {
  ServeAdmin();
  engine_->FailLoads(FieldError("max_sequences", "0", "1 to 65535"));
  const absl::Status status = Load("m").status();
  EXPECT_EQ(InvalidField(status), "settings.max_sequences");
  EXPECT_THAT(Text(status), HasSubstr("settings.max_sequences is 0; accepted: 1 to 65535"));
}

// A client that waits and tries again would not find more memory.
TEST_F(ModelAdminTest, WantOfMemoryIsNotForASecondTry) {
  ServeAdmin();
  engine_->FailLoads(absl::ResourceExhaustedError("needs 7 bytes, and 3 are free"));
  const auto stub = v1::Models::NewStub(
      grpc::CreateChannel(server_->admin_address(), grpc::InsecureChannelCredentials()));
  grpc::ClientContext context;
  v1::LoadModelRequest request;
  request.set_name("m");
  v1::Model model;
  const grpc::Status status = stub->LoadModel(&context, request, &model);
  EXPECT_EQ(status.error_code(), grpc::StatusCode::RESOURCE_EXHAUSTED);
  EXPECT_EQ(status.error_message(), "needs 7 bytes, and 3 are free");
  google::rpc::Status details;
  ASSERT_TRUE(details.ParseFromString(status.error_details()));
  EXPECT_EQ(details.details_size(), 0);
}

TEST_F(ModelAdminTest, AClientThatGoesAwayEndsNoLoad) {
  ServeAdmin();
  engine_->HoldLoads(true);
  auto cut = std::async(std::launch::async, [&] {
    return Load("m", "folder", {.timeout = std::chrono::seconds(2)}).status();
  });
  EXPECT_EQ(engine_->WaitForLoads(1).size(), 1u);
  EXPECT_EQ(cut.get().code(), absl::StatusCode::kDeadlineExceeded);
  engine_->HoldLoads(false);
  for (int i = 0; i < 2000 && !client_->GetModel("m", kSoon).ok(); ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  EXPECT_TRUE(client_->GetModel("m", kSoon).ok());
}

// Whoever waits for a load keeps his connection; others' idle ones give their places.
TEST_F(ModelAdminTest, AFloodOfConnectionsEndsNoLoad) {
  ServeAdmin();
  engine_->HoldLoads(true);
  auto load = std::async(std::launch::async, [&] { return Load("m").status(); });
  engine_->WaitForLoads(1);
  const std::string address = server_->admin_address();
  std::vector<RawConnection> idle;
  for (int i = 0; i < SidePlaces() + 50; ++i) {
    idle.emplace_back(std::atoi(address.c_str() + address.rfind(':') + 1));
    ASSERT_TRUE(idle.back().Send(Http2Hello()));
  }
  EXPECT_TRUE(idle.front().IsClosed());
  EXPECT_TRUE(Client({.address = address}).ListModels(kSoon).ok());
  engine_->HoldLoads(false);
  EXPECT_TRUE(load.get().ok());
}

TEST_F(ModelAdminTest, SoManyAtOnceAndNoMore) {
  ServeAdmin();
  engine_->HoldLoads(true);
  std::vector<std::future<absl::StatusOr<v1::Model>>> loads;
  for (int i = 0; i < ModelAdmin::kMostAtOnce; ++i) {
    loads.push_back(
        std::async(std::launch::async, [&, i] { return Load("m" + std::to_string(i)); }));
  }
  engine_->WaitForLoads(ModelAdmin::kMostAtOnce);
  EXPECT_EQ(
      Text(Load("more").status()),
      "RESOURCE_EXHAUSTED: 8 models are being loaded, unloaded or restarted, the most at once");
  engine_->HoldLoads(false);
  for (auto& load : loads) EXPECT_TRUE(load.get().ok());
}

// A client has its answer, and asks for the next one at once.
TEST_F(ModelAdminTest, AnAnswerLeavesItsPlaceFree) {
  ServeAdmin();
  std::vector<std::thread> clients;
  std::atomic<int> refused = 0;
  for (int i = 0; i < ModelAdmin::kMostAtOnce; ++i) {
    clients.emplace_back([&] {
      for (int n = 0; n < 100; ++n) {
        if (absl::IsResourceExhausted(Unload("nobody").status())) ++refused;
      }
    });
  }
  for (std::thread& client : clients) client.join();
  EXPECT_EQ(refused, 0);
}

TEST_F(ModelAdminTest, TheServerEndsWhileAModelLoads) {
  ServeAdmin();
  engine_->HoldLoads(true);
  auto load = std::async(std::launch::async, [&] { return Load("m"); });
  engine_->WaitForLoads(1);
  const auto begin = std::chrono::steady_clock::now();
  EXPECT_TRUE(server_->Drain(std::chrono::seconds(20)));
  server_.reset();
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(10));
  const absl::StatusOr<v1::Model> model = load.get();  // it ended, in one way or the other
  EXPECT_TRUE(model.ok() || absl::IsUnavailable(model.status())) << model.status();
}

TEST_F(ModelAdminTest, TheRootMustBeThere) {
  ServerConfig config;
  config.listen = config.admin_listen = "127.0.0.1:0";
  config.metrics_listen = config.http_listen = "off";
  config.model_root = (root_ / "nowhere").string();
  const auto server = Server::Start(config, std::make_shared<Metrics>(std::vector<ModelOptions>()),
                                    std::make_unique<FakeEngine>());
  EXPECT_THAT(Text(server.status()), HasSubstr("INVALID_ARGUMENT: model_root is '"));
}

}  // namespace
}  // namespace beamline::model_admin_test

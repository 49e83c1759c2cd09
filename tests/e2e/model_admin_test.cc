// Models that are loaded and unloaded over gRPC, by hand and by the command line. Long because each
// way in which a load may end has its case.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <stdio.h>

#include <atomic>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <functional>
#include <future>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "client/client.h"
#include "tests/e2e/server_process.h"
#include "tests/engine/random_model.h"
#include "tests/scratch_path.h"

namespace beamline::model_admin_test {
namespace {

namespace fs = std::filesystem;
using testing::ContainsRegex;
using testing::HasSubstr;
using testing::Not;

constexpr CallOptions kSoon = {.timeout = std::chrono::seconds(60)};

std::string Text(const absl::Status& status) {
  return std::string(absl::StatusCodeToString(status.code())) + ": " +
         std::string(status.message());
}

bool Eventually(const std::function<bool()>& condition) {
  const auto until = std::chrono::steady_clock::now() + std::chrono::seconds(30);
  while (!condition() && std::chrono::steady_clock::now() < until) {
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  return condition();
}

// A server of one configured model, with a root that holds "tiny", an encoder, and "writer".
class ModelAdminE2e : public testing::Test {
 protected:
  void SetUp() override {
    fs::remove_all(root_);
    fs::create_directories(root_ / "team");
    fs::copy(tiny_.Options("x").folder, root_ / "tiny", fs::copy_options::recursive);
    fs::copy(root_ / "tiny", root_ / "team/tiny", fs::copy_options::recursive);
    fs::copy(BEAMLINE_SOURCE_DIR "/models/write-en", root_ / "writer", fs::copy_options::recursive);
    Serve("info");
  }
  void Serve(const std::string& log_level) {
    server_ = std::make_unique<ServerProcess>(
        std::vector<std::string>{"--device", "cpu", "--admin-listen", "127.0.0.1:0", "--model-root",
                                 root_.string(), "--model", "base=" + tiny_.Options("x").folder,
                                 "--drain-timeout-ms", "60000", "--log-level", log_level});
    ASSERT_NE(server_->admin_address(), "") << server_->start_line();
    client_ = std::make_unique<Client>(ClientOptions{.address = server_->address()});
    admin_ = std::make_unique<Client>(ClientOptions{.address = server_->admin_address()});
  }
  ~ModelAdminE2e() override { fs::remove_all(root_); }

  absl::StatusOr<v1::Model> Load(const std::string& name, const std::string& folder,
                                 int32_t version = 1) {
    v1::LoadModelRequest request;
    request.set_name(name);
    request.set_folder(folder);
    request.set_version(version);
    return admin_->LoadModel(request, kSoon);
  }
  absl::Status Unload(const std::string& name, int64_t grace_seconds = 20, int32_t version = 0) {
    v1::UnloadModelRequest request;
    request.set_name(name);
    if (version > 0) request.set_version(version);
    request.mutable_grace()->set_seconds(grace_seconds);
    return admin_->UnloadModel(request, kSoon).status();
  }
  absl::StatusOr<v1::EncodeResponse> Embed(const std::string& model) {
    v1::EncodeRequest request;
    request.set_model(model);
    request.add_inputs()->set_text("abc");
    return client_->Encode(request, kSoon);
  }
  // Runs for a second or more.
  static v1::GenerateRequest LongRequest(const std::string& model) {
    v1::GenerateRequest request;
    request.set_model(model);
    request.mutable_prompt()->set_text("Package: a");
    request.mutable_sampling()->set_num_sequences(32);
    request.mutable_limits()->set_max_new_tokens(300);
    request.mutable_limits()->set_ignore_eos(true);
    return request;
  }
  bool IsRunning(const std::string& model) {
    return server_->Metric("beamline_running_sequences{model=\"" + model + "\"}") > 0;
  }
  v1::ModelState StateOf(const std::string& model) {
    const auto found = client_->GetModel(model, kSoon);
    return found.ok() ? found->state() : v1::MODEL_STATE_UNSPECIFIED;
  }

  const RandomStack tiny_{"bert-3x40", 100, /*with_template=*/true};
  const fs::path root_ = ScratchPath("model_admin_e2e");
  std::unique_ptr<ServerProcess> server_;
  std::unique_ptr<Client> client_;
  std::unique_ptr<Client> admin_;
};

TEST_F(ModelAdminE2e, AClientWaitsForAModelThatIsLoadedLater) {
  EXPECT_TRUE(client_->WaitUntilServing("base", kSoon).ok());
  EXPECT_EQ(Text(client_->WaitUntilServing("tiny", {.timeout = std::chrono::milliseconds(200)})),
            "DEADLINE_EXCEEDED: waited for model 'tiny': there is none of this name");
  auto served =
      std::async(std::launch::async, [&] { return client_->WaitUntilServing("tiny", kSoon); });
  EXPECT_EQ(served.wait_for(std::chrono::milliseconds(100)), std::future_status::timeout);
  ASSERT_TRUE(Load("tiny", "").ok());
  EXPECT_EQ(Text(served.get()), "OK: ");
  EXPECT_TRUE(Embed("tiny").ok());
}

TEST_F(ModelAdminE2e, LoadsUsesAndUnloads) {
  const auto model = Load("tiny", "");
  ASSERT_TRUE(model.ok()) << model.status();
  EXPECT_EQ(model->state(), v1::MODEL_STATE_READY);
  EXPECT_EQ(model->architecture(), "BertModel");
  EXPECT_EQ(model->tokenizer().num_template_tokens(), 2);
  EXPECT_EQ(model->replicas(0).device(), "cpu");
  EXPECT_EQ(Load("tiny", "tiny")->SerializeAsString(), model->SerializeAsString());  // idempotent
  const auto answer = Embed("tiny");
  ASSERT_TRUE(answer.ok()) << answer.status();
  EXPECT_EQ(answer->model(), "tiny");
  EXPECT_EQ(answer->embeddings(0).SerializeAsString(),
            Embed("base")->embeddings(0).SerializeAsString());
  v1::TokenizeRequest tokenize;
  tokenize.set_model("tiny");
  tokenize.set_text("abc");
  EXPECT_EQ(client_->Tokenize(tokenize, kSoon)->tokens_size(), 5);
  EXPECT_TRUE(*client_->Health("tiny", kSoon));
  EXPECT_TRUE(Eventually([&] {
    return server_->Metric("beamline_requests_total{rpc=\"Encode\",model=\"tiny\",code=\"OK\"}") ==
           1;
  }));
  EXPECT_EQ(server_->Metric("beamline_encoded_tokens_total{model=\"tiny\"}"), 5);
  const auto gone = Unload("tiny");
  EXPECT_TRUE(gone.ok()) << gone;
  EXPECT_THAT(Text(Embed("tiny").status()),
              HasSubstr("INVALID_ARGUMENT: model is 'tiny'; accepted: base"));
  EXPECT_FALSE(*client_->Health("tiny", kSoon));
  EXPECT_TRUE(*client_->Health("", kSoon));
  const std::string scrape = server_->Scrape();
  EXPECT_THAT(scrape, Not(HasSubstr("beamline_encoded_tokens_total{model=\"tiny\"}")));
  EXPECT_THAT(scrape, Not(ContainsRegex("beamline_(replica_up|model_info|device_memory_bytes|"
                                        "waiting_requests)\\{[^}]*tiny")));
  EXPECT_EQ(Text(Unload("tiny")), "NOT_FOUND: model is 'tiny'; this server has: base");
  // Loaded again, its counters go on.
  ASSERT_TRUE(Load("tiny", "tiny").ok());
  ASSERT_TRUE(Embed("tiny").ok());
  EXPECT_EQ(server_->Metric("beamline_encoded_tokens_total{model=\"tiny\"}"), 10);
}

TEST_F(ModelAdminE2e, VersionsOfOneName) {
  ASSERT_TRUE(Load("m", "tiny", 1).ok());
  ASSERT_TRUE(Load("m", "team/tiny", 2).ok());
  EXPECT_EQ(client_->GetModel("m", kSoon)->version(), 2);
  EXPECT_EQ(client_->GetModel("m@1", kSoon)->version(), 1);
  EXPECT_EQ(Embed("m@1")->model(), "m@1");
  EXPECT_EQ(Embed("m")->model(), "m");
  EXPECT_THAT(Text(Embed("m@3").status()), HasSubstr("model is 'm@3'; accepted: base, m"));
  EXPECT_THAT(Text(Unload("m")),
              HasSubstr("INVALID_ARGUMENT: version is not given; accepted: 1, 2"));
  ASSERT_TRUE(Unload("m", 20, 2).ok());
  EXPECT_EQ(client_->GetModel("m", kSoon)->version(), 1);
  EXPECT_TRUE(Embed("m").ok());
  EXPECT_THAT(
      Text(Load("m", "team/tiny", 1).status()),
      HasSubstr("ALREADY_EXISTS: model 'm' version 1 is there already, with another folder"));
  const auto listed = client_->ListModels(kSoon);
  ASSERT_TRUE(listed.ok());
  EXPECT_EQ(listed->models_size(), 2);
  EXPECT_EQ(listed->models(0).name(), "base");  // the configured one
  EXPECT_EQ(listed->models(0).version(), 1);
}

TEST_F(ModelAdminE2e, EachFaultIsToldAndHarmsNobody) {
  fs::copy(root_ / "tiny", root_ / "torn", fs::copy_options::recursive);
  fs::resize_file(root_ / "torn/model.safetensors", 1000);
  fs::create_directory_symlink(BEAMLINE_SOURCE_DIR "/models/embed-en", root_ / "out");
  fs::create_directories(root_ / "empty");
  fs::copy(root_ / "tiny", root_ / "linked", fs::copy_options::recursive);
  fs::remove(root_ / "linked/config.json");
  fs::create_symlink("/etc/passwd", root_ / "linked/config.json");
  const struct {
    const char *name, *folder, *text;
  } faults[] = {
      {"m", "torn", "FAILED_PRECONDITION: model 'm': "},
      {"m", "torn", "torn/model.safetensors"},
      {"m", "empty", "NOT_FOUND: model 'm': "},
      {"m", "empty", "empty/config.json: no such file"},
      {"m", "missing", "NOT_FOUND: folder is 'missing', and model_root has no such folder"},
      {"a/b", "tiny", "INVALID_ARGUMENT: name is 'a/b'; accepted: "},
      {"..", "tiny", "INVALID_ARGUMENT: name is '..'; accepted: "},
      {"m", "../tiny", "INVALID_ARGUMENT: folder is '../tiny'; accepted: "},
      {"m", "tiny/../../x", "INVALID_ARGUMENT: folder is 'tiny/../../x'; accepted: "},
      {"m", "/etc", "INVALID_ARGUMENT: folder is '/etc'; accepted: "},
      {"m", "out", "INVALID_ARGUMENT: folder is 'out', which a link leads out of model_root"},
      {"m", "linked", "in which the link 'config.json' leads out of model_root"},
  };
  for (const auto& fault : faults) {
    const absl::Status status = Load(fault.name, fault.folder).status();
    EXPECT_THAT(Text(status), HasSubstr(fault.text));
    EXPECT_THAT(Text(status), Not(HasSubstr("root:x:")));  // nothing of a file outside
    EXPECT_TRUE(Embed("base").ok());
  }
  EXPECT_EQ(StateOf("m"), v1::MODEL_STATE_FAILED);
  EXPECT_THAT(client_->GetModel("m", kSoon)->error(), HasSubstr("empty/config.json: no such file"));
  EXPECT_THAT(Text(Embed("m").status()), HasSubstr("INVALID_ARGUMENT: model is 'm'"));
  EXPECT_FALSE(*client_->Health("m", kSoon));
  EXPECT_TRUE(*client_->Health("", kSoon));
  EXPECT_TRUE(Unload("m").ok());  // forgets it
  EXPECT_EQ(client_->ListModels(kSoon)->models_size(), 1);
}

// A file, then the folder, is exchanged with a link that leads out of model_root while models load:
// a load reads the files inside, or fails.
TEST_F(ModelAdminE2e, LinksThatAreExchangedLeadNowhere) {
  constexpr int kNumLoads = 200;
  Serve("off");  // each failed load writes a line, and this test reads none
  const RandomStack outside("bert-3x40", 100, /*with_template=*/false);  // tells itself apart
  const fs::path folder = root_ / "tiny", spare = root_ / "spare";
  const struct {
    fs::path inside, outside;
  } exchanges[] = {{folder / "tokenizer.json", outside.Options("x").folder + "/tokenizer.json"},
                   {folder, outside.Options("x").folder}};
  for (const auto& [inside, target] : exchanges) {
    fs::create_symlink(target, spare);
    std::atomic<bool> stop = false;
    std::thread hostile([&, inside = inside] {
      // Between two files of a load, and now and then seldom enough for a whole one.
      for (int i = 0; !stop; ++i) {
        renameat2(AT_FDCWD, inside.c_str(), AT_FDCWD, spare.c_str(), RENAME_EXCHANGE);
        std::this_thread::sleep_for(std::chrono::microseconds(i % 50 == 0 ? 5000 : 100));
      }
    });
    for (int i = 0; i < kNumLoads; ++i) {
      const auto model = Load("m", "tiny");
      if (!model.ok()) {
        EXPECT_THAT(Text(model.status()), HasSubstr("leads out of model_root"));
        continue;
      }
      EXPECT_EQ(model->tokenizer().num_template_tokens(), 2);
      ASSERT_TRUE(Unload("m").ok());
    }
    stop = true;
    hostile.join();
    if (fs::is_symlink(inside)) {
      renameat2(AT_FDCWD, inside.c_str(), AT_FDCWD, spare.c_str(), RENAME_EXCHANGE);
    }
    ASSERT_TRUE(Load("m", "tiny").ok());
    ASSERT_TRUE(Unload("m").ok());
    fs::remove(spare);
  }
}

TEST(CacheAtTheStart, WhatDoesNotFitEndsTheServer) {
  ChildProcess process(
      BEAMLINE_SERVER_BINARY,
      {"--listen", "127.0.0.1:0", "--metrics-listen", "off", "--http-listen", "off", "--device",
       "cpu", "--model", "writer=" BEAMLINE_SOURCE_DIR "/models/write-en,cache_bytes=1024TiB"});
  EXPECT_EQ(process.Wait(), 1);
  EXPECT_EQ(process.out(), "");
  EXPECT_THAT(process.err(),
              ContainsRegex("^beamline-server: model 'writer': needs [0-9]+ bytes of memory of the "
                            "host .*, and [0-9]+ are free; [^\n]*\n$"));
}

TEST_F(ModelAdminE2e, WhatDoesNotFitIsNotTaken) {
  const double before = server_->Metric("process_resident_memory_bytes");
  v1::LoadModelRequest request;
  request.set_name("writer");
  request.mutable_settings()->set_cache_bytes(int64_t{1} << 50);
  const absl::Status status = admin_->LoadModel(request, kSoon).status();
  EXPECT_THAT(Text(status),
              ContainsRegex("RESOURCE_EXHAUSTED: model 'writer': needs [0-9]+ bytes of memory of "
                            "the host .*, and [0-9]+ are free"));
  EXPECT_LT(server_->Metric("process_resident_memory_bytes"), before + (64 << 20));
  request.mutable_settings()->clear_cache_bytes();
  const auto model = admin_->LoadModel(request, kSoon);
  EXPECT_TRUE(model.ok()) << model.status();
}

TEST_F(ModelAdminE2e, ALoadMayMakeSequencesShorter) {
  v1::LoadModelRequest request;
  request.set_name("writer");
  request.mutable_settings()->set_cache_bytes(1);
  request.mutable_settings()->set_max_model_len(513);
  EXPECT_EQ(Text(admin_->LoadModel(request, kSoon).status()),
            "FAILED_PRECONDITION: model 'writer': max_model_len is 513; accepted: 0, or 2 to 512, "
            "the checkpoint's positions");
  request.mutable_settings()->set_max_model_len(100);
  const auto model = admin_->LoadModel(request, kSoon);
  ASSERT_TRUE(model.ok()) << model.status();
  EXPECT_EQ(model->max_total_tokens(), 100);
  EXPECT_EQ(model->max_input_tokens(), 99);
  EXPECT_EQ(model->memory().cache_blocks(), 8);
  EXPECT_THAT(Text(client_->Generate(LongRequest("writer"), kSoon).status()),
              HasSubstr("limits.max_new_tokens is 300; accepted: 1 to 100, by max_model_len"));
}

TEST_F(ModelAdminE2e, ABusyModelFinishesWhatItHas) {
  ASSERT_TRUE(Load("writer", "").ok());
  auto answer = std::async(std::launch::async,
                           [&] { return client_->Generate(LongRequest("writer"), kSoon); });
  ASSERT_TRUE(Eventually([&] { return IsRunning("writer"); }));
  auto unload = std::async(std::launch::async, [&] { return Unload("writer", 50); });
  ASSERT_TRUE(Eventually([&] { return StateOf("writer") == v1::MODEL_STATE_DRAINING; }));
  v1::GenerateRequest late = LongRequest("writer");
  EXPECT_EQ(Text(client_->Generate(late, kSoon).status()),
            "UNAVAILABLE: model 'writer' is being unloaded");
  EXPECT_FALSE(*client_->Health("writer", kSoon));
  EXPECT_TRUE(Embed("base").ok());
  EXPECT_THAT(Text(Load("writer", "").status()),
              HasSubstr("FAILED_PRECONDITION: model 'writer' version 1 is being unloaded"));
  EXPECT_EQ(server_->Metric("beamline_rejected_total{reason=\"not_ready\"}"), 1);
  EXPECT_TRUE(answer.get().ok());
  EXPECT_TRUE(unload.get().ok());
  EXPECT_EQ(StateOf("writer"), v1::MODEL_STATE_UNSPECIFIED);
}

TEST_F(ModelAdminE2e, WithoutGraceABusyModelIsCut) {
  ASSERT_TRUE(Load("writer", "").ok());
  auto answer = std::async(std::launch::async,
                           [&] { return client_->Generate(LongRequest("writer"), kSoon); });
  ASSERT_TRUE(Eventually([&] { return IsRunning("writer"); }));
  EXPECT_TRUE(Unload("writer", 0).ok());
  EXPECT_EQ(Text(answer.get().status()),
            "UNAVAILABLE: model 'writer' was unloaded before the answer was complete");
}

TEST_F(ModelAdminE2e, TwoLoadsOfOneNameAtOnce) {
  std::vector<std::future<absl::StatusOr<v1::Model>>> same;
  for (int i = 0; i < 3; ++i) {
    same.push_back(std::async(std::launch::async, [&] { return Load("writer", "writer"); }));
  }
  for (auto& load : same) {
    const auto model = load.get();
    EXPECT_TRUE(model.ok()) << model.status();
  }
  EXPECT_EQ(client_->ListModels(kSoon)->models_size(), 2);
  // Of two that differ one is refused.
  auto first = std::async(std::launch::async, [&] { return Load("m", "tiny").status(); });
  auto second = std::async(std::launch::async, [&] { return Load("m", "team/tiny").status(); });
  const absl::Status a = first.get(), b = second.get();
  EXPECT_NE(a.ok(), b.ok()) << a << b;
  EXPECT_EQ((a.ok() ? b : a).code(), absl::StatusCode::kAlreadyExists);
}

TEST_F(ModelAdminE2e, EndsInTimeWhileAModelLoadsAndAnotherUnloads) {
  ASSERT_TRUE(Load("writer", "").ok());
  auto answer = std::async(std::launch::async,
                           [&] { return client_->Generate(LongRequest("writer"), kSoon); });
  ASSERT_TRUE(Eventually([&] { return IsRunning("writer"); }));
  auto unload = std::async(std::launch::async, [&] { return Unload("writer", 3600); });
  v1::LoadModelRequest slow;
  slow.set_name("slow");
  slow.set_folder("writer");
  slow.mutable_settings()->set_warm_up("true");
  auto load = std::async(std::launch::async, [&] { return admin_->LoadModel(slow, kSoon); });
  ASSERT_TRUE(Eventually([&] {
    return StateOf("slow") == v1::MODEL_STATE_LOADING &&
           StateOf("writer") == v1::MODEL_STATE_DRAINING;
  }));
  server_->process().Signal(SIGTERM);
  EXPECT_EQ(server_->process().Wait(std::chrono::seconds(90)), 0);
  EXPECT_TRUE(answer.get().ok());  // within the drain's time
  EXPECT_EQ(load.get().status().code(), absl::StatusCode::kUnavailable);
  const absl::Status unloaded = unload.get();
  EXPECT_TRUE(unloaded.ok()) << unloaded;
  EXPECT_THAT(server_->process().err(), HasSubstr("stopped: every request was answered"));
}

TEST_F(ModelAdminE2e, ByTheCommandLine) {
  const auto run = [&](std::vector<std::string> arguments) {
    arguments.insert(arguments.begin(), {"--address", server_->admin_address()});
    ChildProcess process(BEAMLINE_CLI_BINARY, arguments);
    const int status = process.Wait();
    return std::to_string(status) + " " + process.out() + process.err();
  };
  EXPECT_THAT(run({"load", "m", "--folder", "team/tiny", "--model-version", "4", "--set",
                   "max_sequences=32", "--set", "dtype=float32"}),
              testing::AllOf(testing::StartsWith("0 name"), ContainsRegex("version +4"),
                             ContainsRegex("state +ready")));
  EXPECT_THAT(run({"models"}), ContainsRegex("\nm +4 +ready +encode +BertModel"));
  EXPECT_THAT(run({"load", "bad", "--folder", "empty"}), HasSubstr("1 beamline: NOT_FOUND: "));
  EXPECT_THAT(run({"load", "m", "--folder", "team/tiny", "--model-version", "4", "--set",
                   "max_sequences=0"}),
              HasSubstr("settings.max_sequences is 0; accepted: 1 to 65535"));
  EXPECT_THAT(run({"load", "m", "--set", "max_sequence=3"}),
              HasSubstr("2 beamline: --set 'max_sequence=3': there is no setting 'max_sequence'; "
                        "did you mean 'max_sequences'?"));
  EXPECT_THAT(run({"load", "m", "--set", "max_sequences=many"}),
              HasSubstr("2 beamline: --set 'max_sequences=many': no value of max_sequences"));
  EXPECT_THAT(run({"load"}), testing::StartsWith("2 "));
  EXPECT_EQ(run({"unload", "m", "--grace", "1.5"}), "0 m version 4 is unloaded\n");
  EXPECT_THAT(run({"unload", "m"}), HasSubstr("1 beamline: NOT_FOUND: model is 'm'"));
  ChildProcess elsewhere(BEAMLINE_CLI_BINARY, {"--address", server_->address(), "load", "tiny"});
  EXPECT_EQ(elsewhere.Wait(), 1);
  EXPECT_THAT(elsewhere.err(), HasSubstr("PERMISSION_DENIED: LoadModel is answered at the "));
}

}  // namespace
}  // namespace beamline::model_admin_test

#include "server/config/config_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "tests/scratch_path.h"

namespace beamline::config_file_test {
namespace {

using testing::HasSubstr;

class ConfigFile : public testing::Test {
 protected:
  std::string Write(const std::string& text) {
    const std::string path = ScratchPath("config.yaml");
    std::ofstream(path) << text;
    return path;
  }
  std::string Error(const std::string& text) {
    ServerConfig config;
    const absl::Status status = LoadConfigFile(Write(text), config);
    EXPECT_FALSE(status.ok()) << text;
    return std::string(status.message());
  }
};

TEST_F(ConfigFile, SetsWhatItNames) {
  ServerConfig config;
  const std::string path = Write(
      "listen: 0.0.0.0:7000\n"
      "max_concurrent_requests: 5\n"
      "models:\n"
      "  - name: a\n"
      "    folder: models/a\n"
      "    dtype: bfloat16\n"
      "  - {name: b, folder: /abs/b, max_batch_tokens: 128}\n"
      "  - folder: owner/hub-model@v1\n");
  std::filesystem::create_directories(std::filesystem::path(path).parent_path() / "models");
  ASSERT_TRUE(LoadConfigFile(path, config).ok());
  EXPECT_EQ(config.listen, "0.0.0.0:7000");
  EXPECT_EQ(config.max_concurrent_requests, 5);
  EXPECT_EQ(config.metrics_listen, ServerConfig().metrics_listen);
  ASSERT_EQ(config.models.size(), 3u);
  EXPECT_EQ(config.models[0].folder,
            (std::filesystem::path(path).parent_path() / "models/a").string());
  EXPECT_EQ(config.models[0].dtype, DType::kBFloat16);
  EXPECT_EQ(config.models[1].folder, "/abs/b");
  EXPECT_EQ(config.models[1].max_batch_tokens, 128);
  EXPECT_EQ(config.models[2].name, "hub-model");
  EXPECT_EQ(config.models[2].folder, "owner/hub-model@v1");
}

TEST_F(ConfigFile, ErrorsNameTheLine) {
  EXPECT_THAT(Error("listen: a:1\nlisten_port: 3\n"),
              HasSubstr(":2: there is no setting 'listen_port'"));
  EXPECT_THAT(Error("threads: many\n"), HasSubstr(":1: threads is 'many'; accepted: 0 to 4096"));
  EXPECT_THAT(Error("models: x\n"), HasSubstr("models must be a list"));
  EXPECT_THAT(Error("models:\n  - x\n"), HasSubstr(":2: a model must have"));
  EXPECT_THAT(Error("models:\n  - {name: a, speed: 3}\n"), HasSubstr("no setting 'speed'"));
  EXPECT_THAT(Error("threads: [1]\n"), HasSubstr("threads is a list; accepted: 0 to 4096"));
  EXPECT_THAT(Error("- a\n- b\n"), HasSubstr("must be a mapping"));
  EXPECT_THAT(Error("a: [1\nb: 2"), HasSubstr("config.yaml:"));
}

TEST_F(ConfigFile, WhatIsWrittenTwiceOrForNothingIsRefused) {
  EXPECT_THAT(Error("threads: 1\nlisten: a:1\nthreads: 1\n"),
              HasSubstr(":3: threads is given twice"));
  EXPECT_THAT(Error("models:\n  - {name: a, folder: b, name: c}\n"),
              HasSubstr("name is given twice"));
  EXPECT_THAT(Error("models: [{name: a, folder: b}]\nmodels: [{name: c, folder: d}]\n"),
              HasSubstr(":2: models is given twice"));
  EXPECT_THAT(Error("models: []\n"), HasSubstr(":1: models is empty; accepted: at least one"));
  EXPECT_THAT(Error("[a]: 1\n"), HasSubstr("must be a single word"));
  EXPECT_THAT(Error("threads: 1\n---\nthreads: 2\n"), HasSubstr(":3: is a second document"));
}

TEST_F(ConfigFile, SlipsAreRecognized) {
  EXPECT_THAT(Error("max-receive-bytes: 3\n"), HasSubstr("did you mean 'max_receive_bytes'?"));
  EXPECT_THAT(Error("models:\n  - {name: a, floder: b}\n"), HasSubstr("did you mean 'folder'?"));
}

TEST_F(ConfigFile, IsARegularFile) {
  ServerConfig config;
  EXPECT_THAT(std::string(LoadConfigFile(ScratchPath(""), config).message()),
              HasSubstr("a folder; accepted: a regular file"));
  EXPECT_THAT(std::string(LoadConfigFile("/dev/zero", config).message()), HasSubstr("a device"));
}

TEST_F(ConfigFile, PathsAreRelativeToTheFile) {
  const auto algorithm_file = [this](const std::string& written) {
    ServerConfig config;
    EXPECT_TRUE(LoadConfigFile(Write("algorithm_file: " + written + "\n"), config).ok());
    return config.algorithm_file;
  };
  const std::filesystem::path folder = std::filesystem::path(Write("")).parent_path();
  EXPECT_EQ(algorithm_file("choices.txt"), (folder / "choices.txt").string());
  EXPECT_EQ(algorithm_file("/abs/choices.txt"), "/abs/choices.txt");
  for (const char* word : {"auto", "off", "''"}) {
    EXPECT_EQ(algorithm_file(word), *word == '\'' ? "" : word);
  }
}

TEST_F(ConfigFile, PrintedFoldersMeanTheSameFromAnywhere) {
  ServerConfig config;
  config.algorithm_file = "choices.txt";
  config.models.resize(2);
  config.models[0].name = "a";
  config.models[0].folder = "models/../a";
  config.models[1].name = "b";
  config.models[1].folder = "/b";
  ServerConfig read;
  ASSERT_TRUE(LoadConfigFile(Write(PrintConfig(config)), read).ok());
  const std::filesystem::path here = std::filesystem::current_path();
  EXPECT_EQ(read.models[0].folder, (here / "a").string());
  EXPECT_EQ(read.models[1].folder, "/b");
  EXPECT_EQ(read.algorithm_file, (here / "choices.txt").string());
}

TEST_F(ConfigFile, PrintsTheDeviceThatAModelHasInTheEnd) {
  ServerConfig config;
  config.device = "cpu";
  config.models.resize(2);
  config.models[0].name = "a";
  config.models[1].name = "b";
  config.models[1].device = "cuda:1";
  config.models[0].folder = config.models[1].folder = "/f";
  ServerConfig read;
  ASSERT_TRUE(LoadConfigFile(Write(PrintConfig(config)), read).ok());
  EXPECT_EQ(read.models[0].device, "cpu");
  EXPECT_EQ(read.models[1].device, "cuda:1");
}

TEST_F(ConfigFile, ReplicasAreTheServersUnlessAModelSaysWhere) {
  ServerConfig config;
  const absl::Status status = LoadConfigFile(Write("replicas: 2\n"
                                                   "models:\n"
                                                   "  - {name: a, folder: /a}\n"
                                                   "  - {name: b, folder: /b, replicas: auto}\n"
                                                   "  - name: c\n"
                                                   "    folder: /c\n"
                                                   "    devices: cuda:0, cuda:1\n"
                                                   "  - name: d\n"
                                                   "    folder: /d\n"
                                                   "    devices: [cuda:2, cuda:3]\n"),
                                             config);
  ASSERT_TRUE(status.ok()) << status;
  EXPECT_EQ(config.models[2].devices, "cuda:0, cuda:1");
  EXPECT_EQ(config.models[3].devices, "cuda:2, cuda:3");
  ServerConfig read;
  ASSERT_TRUE(LoadConfigFile(Write(PrintConfig(config)), read).ok());
  const char* const replicas[] = {"2", "auto", "", ""};
  const char* const devices[] = {"", "", "cuda:0, cuda:1", "cuda:2, cuda:3"};
  const char* const device[] = {"auto", "auto", "", ""};
  for (size_t i = 0; i < 4; ++i) {
    EXPECT_EQ(read.models[i].replicas, replicas[i]) << i;
    EXPECT_EQ(read.models[i].devices, devices[i]) << i;
    EXPECT_EQ(read.models[i].device, device[i]) << i;
  }
}

TEST_F(ConfigFile, ListsHoldWhatTheyMay) {
  const auto error = [this](const std::string& devices) {
    ServerConfig config;
    const std::string text = "models: [{name: a, folder: /a, devices: " + devices + "}]";
    return std::string(LoadConfigFile(Write(text), config).message());
  };
  EXPECT_THAT(error("[cuda:0, tpu]"),
              HasSubstr(":1: devices is 'cuda:0, tpu'; accepted: a list of cpu, cuda:N"));
  EXPECT_THAT(error("[[cuda:0]]"), HasSubstr(":1: devices must hold words"));
  EXPECT_THAT(error("{a: b}"),
              HasSubstr(":1: devices is a mapping; accepted: a list of cpu, cuda:N"));
}

TEST_F(ConfigFile, TheModelRootIsRelativeToTheFile) {
  ServerConfig config;
  const std::string path = Write("model_root: sub/models");
  ASSERT_TRUE(LoadConfigFile(path, config).ok());
  const auto beside = std::filesystem::path(path).parent_path() / "sub/models";
  EXPECT_EQ(config.model_root, beside.string());
  config = {};
  config.model_root = "m";
  config.models.resize(1);
  config.models[0].name = "a";
  config.models[0].folder = "/f";
  ServerConfig read;
  ASSERT_TRUE(LoadConfigFile(Write(PrintConfig(config)), read).ok());
  EXPECT_EQ(read.model_root, (std::filesystem::current_path() / "m").string());
}

TEST_F(ConfigFile, FilesOfTlsAreRelativeToTheFile) {
  ServerConfig config;
  const std::string path = Write(
      "tls_certificate_file: tls/crt\ntls_key_file: tls/key\ntls_client_ca_file: /etc/ca\n"
      "tls_require_client_certificate: false\nidentity_file: who");
  ASSERT_TRUE(LoadConfigFile(path, config).ok());
  const auto folder = std::filesystem::path(path).parent_path();
  EXPECT_EQ(config.tls_certificate_file, (folder / "tls/crt").string());
  EXPECT_EQ(config.tls_key_file, (folder / "tls/key").string());
  EXPECT_EQ(config.tls_client_ca_file, "/etc/ca");
  EXPECT_EQ(config.identity_file, (folder / "who").string());
  EXPECT_FALSE(config.tls_require_client_certificate);
  config.tls_key_file = "k";
  config.models.resize(1);
  config.models[0].name = "a";
  config.models[0].folder = "/f";
  ServerConfig read;
  ASSERT_TRUE(LoadConfigFile(Write(PrintConfig(config)), read).ok());
  EXPECT_EQ(read.tls_key_file, (std::filesystem::current_path() / "k").string());
  EXPECT_EQ(read.tls_certificate_file, config.tls_certificate_file);
}

TEST_F(ConfigFile, MayBeEmptyButMustExist) {
  ServerConfig config;
  EXPECT_TRUE(LoadConfigFile(Write(""), config).ok());
  const absl::Status status = LoadConfigFile("/nonexistent/config.yaml", config);
  EXPECT_EQ(status.code(), absl::StatusCode::kNotFound);
  EXPECT_THAT(std::string(status.message()), HasSubstr("/nonexistent/config.yaml"));
}

TEST_F(ConfigFile, PrintedConfigurationReadsBack) {
  ServerConfig config;
  config.listen = "[::]:9";
  config.drain_timeout_ms = 12;
  config.models.resize(1);
  config.models[0].name = "m: odd \"name\"";
  config.models[0].folder = "/f";
  config.models[0].cache_bytes = int64_t{5} << 33;
  ServerConfig read;
  ASSERT_TRUE(LoadConfigFile(Write(PrintConfig(config)), read).ok());
  EXPECT_EQ(PrintConfig(read), PrintConfig(config));
  EXPECT_EQ(read.models[0].cache_bytes, int64_t{5} << 33);
}

}  // namespace
}  // namespace beamline::config_file_test

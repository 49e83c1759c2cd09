#include "server/config/flags.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

#include "fmt/format.h"
#include "server/config/demo_models.h"
#include "tests/scratch_path.h"

namespace beamline::flags_test {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

absl::StatusOr<CommandLine> Parse(std::vector<const char*> arguments) {
  arguments.insert(arguments.begin(), "beamline-server");
  return ParseCommandLine(static_cast<int>(arguments.size()), arguments.data(), {});
}

std::string Error(std::vector<const char*> arguments) {
  const auto line = Parse(std::move(arguments));
  EXPECT_FALSE(line.ok());
  const std::string message(line.status().message());
  EXPECT_EQ(message.find('\n'), std::string::npos) << message;
  return message;
}

TEST(Flags, WithoutArgumentsServesTheDemoModels) {
  const auto line = Parse({});
  ASSERT_TRUE(line.ok()) << line.status();
  std::vector<std::string> names;
  for (const ModelOptions& model : line->config.models) {
    names.push_back(model.name);
    EXPECT_TRUE(std::filesystem::exists(model.folder + "/config.json")) << model.folder;
  }
  EXPECT_THAT(names, ElementsAre("translate-en-de", "embed-en", "write-en", "chat-en", "rerank-en",
                                 "tag-en"));
}

TEST(Flags, OfAnEarlierVersionsFolderThoseThatAreThereAreServed) {
  const std::filesystem::path folder = ScratchPath("earlier_models");
  for (const char* name : {"translate-en-de", "write-en"}) {
    std::filesystem::create_directories(folder / name);
    std::ofstream(folder / name / "config.json") << "{}";
  }
  setenv("BEAMLINE_MODELS", folder.c_str(), 1);
  const auto models = FindDemoModels();
  unsetenv("BEAMLINE_MODELS");
  ASSERT_TRUE(models.ok()) << models.status();
  ASSERT_EQ(models->size(), 2u);
  EXPECT_EQ((*models)[1].folder, (folder / "write-en").string());
}

TEST(Flags, DemoModelsMissingIsAClearMessage) {
  setenv("BEAMLINE_MODELS", "/nonexistent/models", 1);
  const auto models = FindDemoModels();
  unsetenv("BEAMLINE_MODELS");
  EXPECT_EQ(models.status().code(), absl::StatusCode::kNotFound);
  EXPECT_THAT(std::string(models.status().message()), HasSubstr("/nonexistent/models"));
}

TEST(Flags, GoBeforeTheFile) {
  const std::string file = ScratchPath("flags.yaml");
  std::ofstream(file) << "listen: 127.0.0.1:1\nthreads: 3\nmodels: [{name: f, folder: f}]\n";
  auto line = Parse({"--listen", "127.0.0.1:2", "--config", file.c_str()});
  ASSERT_TRUE(line.ok()) << line.status();
  EXPECT_EQ(line->config.listen, "127.0.0.1:2");
  EXPECT_EQ(line->config.threads, 3);
  ASSERT_EQ(line->config.models.size(), 1u);
  EXPECT_EQ(line->config.models[0].name, "f");
  line = Parse({"--config", file.c_str(), "--model", "a=x", "--model=b=y,dtype=float16"});
  ASSERT_TRUE(line.ok()) << line.status();
  ASSERT_EQ(line->config.models.size(), 2u);
  EXPECT_EQ(line->config.models[0].name, "a");
  EXPECT_EQ(line->config.models[1].folder, "y");
  EXPECT_EQ(line->config.models[1].dtype, DType::kFloat16);
}

TEST(Flags, ErrorsAreOneLine) {
  EXPECT_THAT(Error({"--nonsense"}), HasSubstr("--nonsense"));
  EXPECT_THAT(Error({"extra"}), HasSubstr("extra"));
  EXPECT_THAT(Error({"--threads", "x"}), HasSubstr("--threads is 'x'"));
  EXPECT_THAT(Error({"--listen", "x"}), HasSubstr("--listen is 'x'"));
  EXPECT_THAT(Error({"--max-recieve-bytes", "1"}),
              HasSubstr("did you mean '--max-receive-bytes'?"));
  EXPECT_THAT(Error({"--config", ""}), HasSubstr("--config is ''"));
  EXPECT_THAT(Error({"--config", "/"}), HasSubstr("--config is '/', a folder"));
  EXPECT_THAT(Error({"--model", "m=f", "dtype=bfloat16"}), HasSubstr("'dtype=bfloat16'"));
  EXPECT_THAT(Error({"--model", "m=f,max_batch_token=1"}),
              HasSubstr("did you mean 'max_batch_tokens'?"));
  EXPECT_THAT(Error({"--model", "none=f"}), HasSubstr("'none', which metrics call no model"));
  EXPECT_THAT(Error({"--device", "tpu"}), HasSubstr("tpu"));
  EXPECT_THAT(Error({"--config", "/nonexistent.yaml"}), HasSubstr("/nonexistent.yaml"));
  EXPECT_THAT(Error({"--model", "x=a", "--model", "x=b"}), HasSubstr("'x' is given twice"));
  EXPECT_THAT(Error({"--model", "x=a,dtype=float32,cache_bytes=9,dtype=bfloat16"}),
              HasSubstr("dtype is given twice"));
  EXPECT_THAT(Error({"--model", "x=a,folder=b"}), HasSubstr("folder is given twice"));
}

// Each run of white space as one blank: help breaks lines where it likes.
std::string OneLine(const std::string& text) {
  std::istringstream stream(text);
  std::string line;
  for (std::string word; stream >> word;) line += (line.empty() ? "" : " ") + word;
  return line;
}

TEST(Flags, HelpAndVersionAreTexts) {
  for (const char* flag : {"--help", "--version"}) {
    const auto line = Parse({flag});
    ASSERT_TRUE(line.ok());
    EXPECT_THAT(line->text, HasSubstr("beamline-server"));
  }
  EXPECT_THAT(Parse({"--help"})->text, HasSubstr("--max-concurrent-requests"));
}

// What each setting may be and what it is, of the table that errors and the guide have too.
TEST(Flags, HelpStatesRangesAndDefaults) {
  const std::string help = OneLine(Parse({"--help"})->text);
  ServerConfig config;
  for (const Setting& setting : Settings(config)) {
    const std::string accepted = Accepted(setting);
    const std::string range = accepted.empty() ? "" : "; " + accepted;
    EXPECT_THAT(help, HasSubstr(fmt::format("{}{} [{}] (Env:{})", setting.help, range,
                                            ToText(setting), VariableName(setting.name))));
  }
  EXPECT_THAT(help, HasSubstr("(Env:BEAMLINE_CONFIG)"));
  EXPECT_THAT(help, HasSubstr("(Env:BEAMLINE_MODEL, ';' between several)"));
  ModelOptions model;
  for (const Setting& setting : Settings(model)) {
    if (setting.name == "name" || setting.name == "folder") continue;
    const std::string accepted = Accepted(setting);
    EXPECT_THAT(help, HasSubstr(fmt::format("{} ({})", setting.name,
                                            accepted.empty() ? "a text" : accepted)));
  }
}

TEST(Flags, HealthAsksWhereTheServerListens) {
  const auto address = [](std::vector<const char*> arguments) {
    const auto line = Parse(std::move(arguments));
    EXPECT_TRUE(line.ok()) << line.status();
    return line.ok() ? line->health_address : "";
  };
  EXPECT_EQ(address({}), "");
  EXPECT_EQ(address({"--health"}), "127.0.0.1:50051");
  EXPECT_EQ(address({"--health", "--listen", "0.0.0.0:7"}), "127.0.0.1:7");
  EXPECT_EQ(address({"--listen", "[::]:7", "--health"}), "127.0.0.1:7");
  EXPECT_EQ(address({"--listen", "[::1]:7", "--health"}), "[::1]:7");
  EXPECT_EQ(address({"--health", "server:8", "--listen", "0.0.0.0:7"}), "server:8");
  EXPECT_EQ(address({"--health=server:8"}), "server:8");
  const std::string file = ScratchPath("health.yaml");
  std::ofstream(file) << "listen: 0.0.0.0:9\n";
  EXPECT_EQ(address({"--health", "--config", file.c_str()}), "127.0.0.1:9");
}

TEST(Flags, HealthIsAskedInTlsAndAtItsOwnAddress) {
  const auto asked = [](std::vector<const char*> arguments) {
    const auto line = Parse(std::move(arguments));
    EXPECT_TRUE(line.ok()) << line.status();
    return line.ok() ? line->health_address + (line->health_has_tls ? " in TLS" : "") : "";
  };
  EXPECT_EQ(asked({"--health", "--tls-certificate-file", "c"}), "127.0.0.1:50051 in TLS");
  EXPECT_EQ(asked({"--health", "a:1", "--tls-certificate-file", "c"}), "a:1 in TLS");
  EXPECT_EQ(asked({"--health", "--health-listen", "0.0.0.0:7"}), "127.0.0.1:7");
  EXPECT_EQ(asked({"--health", "--health-listen", "[::1]:7", "--tls-certificate-file", "c"}),
            "[::1]:7");
  EXPECT_EQ(
      asked({"--health", "a:7", "--health-listen", "0.0.0.0:7", "--tls-certificate-file", "c"}),
      "a:7");
  EXPECT_EQ(
      asked({"--health", "a:8", "--health-listen", "0.0.0.0:7", "--tls-certificate-file", "c"}),
      "a:8 in TLS");
}

// The server has them, and whoever asks for its health need not.
TEST(Flags, HealthNeedsNoModels) {
  setenv("BEAMLINE_MODELS", "/nonexistent/models", 1);
  const auto line = Parse({"--health"});
  unsetenv("BEAMLINE_MODELS");
  EXPECT_TRUE(line.ok()) << line.status();
}

TEST(Flags, HealthOfNowhereIsRefused) {
  EXPECT_THAT(Error({"--health", "server"}),
              HasSubstr("--health is 'server'; accepted: host:port"));
  EXPECT_THAT(Error({"--health", "server:0"}), HasSubstr("--health is 'server:0'; accepted: "));
  EXPECT_THAT(Error({"--health", "--listen", "127.0.0.1:0"}),
              HasSubstr("--health is '127.0.0.1:0'; accepted: "));
  EXPECT_THAT(Error({"--health", ""}), HasSubstr("--health is ''"));
  EXPECT_THAT(Error({"--health", "a:1", "b:2"}), HasSubstr("'b:2'"));
}

TEST(Model, Parses) {
  const auto model = ParseModel("--model", "m=/a/b=c,dtype=bfloat16,max_sequences=8");
  ASSERT_TRUE(model.ok()) << model.status();
  EXPECT_EQ(model->name, "m");
  EXPECT_EQ(model->folder, "/a/b=c");
  EXPECT_EQ(model->max_sequences, 8);
  const auto unnamed = ParseModel("--model", "/srv/models/mt/,max_sequences=8");
  ASSERT_TRUE(unnamed.ok()) << unnamed.status();
  EXPECT_EQ(unnamed->name, "mt");
  EXPECT_EQ(unnamed->folder, "/srv/models/mt/");
  EXPECT_EQ(unnamed->max_sequences, 8);
  for (const char* bad :
       {"", "=f", "m=", "m=f,", "m=f,x=1", "m=f,max_sequences=0", "m=f,max_sequences", "f,"}) {
    EXPECT_FALSE(ParseModel("--model", bad).ok()) << bad;
  }
}

}  // namespace
}  // namespace beamline::flags_test

// What a user may write by mistake or malice where a program expects a file: every program ends by
// itself, soon, with one line about it.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <string>
#include <tuple>
#include <vector>

#include "tests/e2e/server_process.h"
#include "tests/scratch_path.h"

namespace beamline::hostile_arguments_test {
namespace {

using testing::AnyOf;
using testing::Eq;
using testing::HasSubstr;
using testing::Not;
using Arguments = std::vector<std::string>;

constexpr std::chrono::seconds kLimit{10};
constexpr size_t kLongestError = 500;

std::string Repeat(const std::string& text, int count) {
  std::string repeated;
  for (int i = 0; i < count; ++i) repeated += text;
  return repeated;
}

// Ten levels of ten aliases each: 10^10 values in a kilobyte.
std::string AliasBomb() {
  std::string yaml = "requests:\n- kind: generate\n  prompt: {text: t}\n  options:\n";
  yaml += "    a0: &a0 [x,x,x,x,x,x,x,x,x,x]\n";
  for (int i = 1; i <= 10; ++i) {
    const std::string alias = "*a" + std::to_string(i - 1);
    yaml += "    a" + std::to_string(i) + ": &a" + std::to_string(i) + " [" + alias +
            Repeat("," + alias, 9) + "]\n";
  }
  return yaml;
}

class HostileArguments : public testing::Test {
 protected:
  HostileArguments() : folder_(ScratchPath("arguments")) {
    std::filesystem::create_directory(folder_);
    mkfifo(Path("pipe").c_str(), 0600);
    std::filesystem::create_symlink("loop", Path("loop"));
    std::filesystem::create_directory(Path("folder"));
  }
  ~HostileArguments() override { std::filesystem::remove_all(folder_); }

  std::string Path(const std::string& name) const { return folder_ + "/" + name; }

  // What is no file at all.
  Arguments NoFiles() const {
    return {Path("folder"), Path("missing"),     Path("pipe"), Path("loop"),
            "/dev/zero",    Path("a/b"),         "",           std::string(5000, 'x'),
            "/dev/full",    Path("pipe") + "/x", "\x01"};
  }

  // Files whose content no program of ours takes.
  Arguments BadContents() {
    std::string garbage;
    for (int i = 0; i < 60'000; ++i) garbage += static_cast<char>(i * i * 31 >> 3);
    return {Write("garbage", garbage),
            Write("nul", std::string(1000, '\0')),
            Write("deep_lists", Repeat("[", 200'000)),
            Write("deep_maps", Repeat("{a: ", 200'000)),
            Write("deep_blocks", Repeat("- ", 200'000)),
            Write("deep_json", Repeat("{\"ids\":[", 200'000)),
            Write("alias_bomb", AliasBomb()),
            Write("own_alias",
                  "requests: &r [{kind: generate, prompt: {text: t}, "
                  "options: &o {stop: *o}}]\n"),
            Write("numbers", "threads: 1e400\nrequests: 99999999999999999999\n"),
            Write("twice", "threads: 1\nthreads: 1\nrequests: []\nrequests: []\n"),
            Write("unclosed", "\"" + std::string(100'000, 'x')),
            Write("long_key", std::string(1000, 'k') + ": 1\n")};
  }

  std::string Write(const std::string& name, const std::string& text) {
    std::ofstream(Path(name), std::ios::binary) << text;
    return Path(name);
  }

  // Runs a program that must refuse, and name `what` when it does.
  static void ExpectRefused(const std::string& program, const Arguments& arguments,
                            const std::string& what) {
    std::string shown = program;
    for (const std::string& argument : arguments) shown += " '" + argument.substr(0, 100) + "'";
    SCOPED_TRACE(shown);
    ChildProcess process(program, arguments);
    EXPECT_THAT(process.Wait(kLimit), AnyOf(Eq(1), Eq(2)));
    EXPECT_LT(process.err().size(), kLongestError) << process.err();
    EXPECT_EQ(process.err().find('\n'), process.err().size() - 1) << process.err();
    EXPECT_THAT(process.err(), HasSubstr(what));
  }

  const std::string folder_;
};

TEST_F(HostileArguments, ServerConfiguration) {
  Arguments files = NoFiles();
  for (const std::string& file : BadContents()) files.push_back(file);
  for (const std::string& file : files) {
    ExpectRefused(BEAMLINE_SERVER_BINARY, {"--print-config", "--config", file}, "--config");
  }
}

TEST_F(HostileArguments, ServerModelFolder) {
  for (const std::string& file : NoFiles()) {
    ExpectRefused(BEAMLINE_SERVER_BINARY,
                  {"--listen", "127.0.0.1:0", "--metrics-listen", "off", "--model", "m=" + file},
                  "m");
  }
}

TEST_F(HostileArguments, FilesOfTexts) {
  for (const char* command : {"generate", "translate", "encode"}) {
    for (const std::string& file : NoFiles()) {
      ExpectRefused(BEAMLINE_CLI_BINARY, {"--address", "127.0.0.1:1", command, "--file", file},
                    "--file");
    }
  }
}

TEST_F(HostileArguments, Workloads) {
  Arguments files = NoFiles();
  for (const std::string& file : BadContents()) files.push_back(file);
  for (const std::string& file : files) {
    ExpectRefused(BEAMLINE_LOADTEST_BINARY, {"run", "--target", "127.0.0.1:1", "--workload", file},
                  "--workload");
  }
}

TEST_F(HostileArguments, PromptsOfALoadTest) {
  Arguments files = NoFiles();
  for (const std::string& file : BadContents()) files.push_back(file);
  for (const std::string& file : files) {
    ExpectRefused(BEAMLINE_LOADTEST_BINARY,
                  {"run", "--target", "127.0.0.1:1", "--prompt-jsonl", file}, "jsonl");
  }
}

TEST_F(HostileArguments, ResultsToCompare) {
  Arguments files = NoFiles();
  for (const std::string& file : BadContents()) files.push_back(file);
  const std::string head = R"({"schema": "beamline.loadtest/1", "label": "x",
      "environment": {"date": ""}, "load": {"arrivals": "", "rate_per_s": 1},
      "rates": {"achieved_rate_per_s": 1, "requests_per_s": 1, "output_tokens_per_s": 1,
                "good_per_s": 1}, "total": {"requests": 1, "endings": {}, )";
  int number = 0;
  for (const char* bucket : {"[1e300, 1]", "[9223372036854775807, 9223372036854775807]", "[-1, 1]",
                             "[1]", "1", "[\"1\", 1]", "[18446744073709551615, 1]"}) {
    const std::string histogram = std::string("{\"buckets_ns\": [") + bucket + "]}";
    files.push_back(Write("result_" + std::to_string(number++),
                          head + "\"time_to_first_token\": " + histogram + ", \"inter_token\": " +
                              histogram + ", \"end_to_end\": " + histogram + "}}"));
  }
  for (const std::string& file : files) {
    ExpectRefused(BEAMLINE_LOADTEST_BINARY, {"compare", file}, "result");
  }
}

TEST_F(HostileArguments, FilesToWrite) {
  for (const std::string& file : {Path("folder"), Path("pipe"), Path("loop"), Path("a/b"),
                                  std::string(), std::string(5000, 'x'), Path("pipe") + "/x"}) {
    for (const char* flag : {"--json", "--log"}) {
      ExpectRefused(BEAMLINE_LOADTEST_BINARY, {"run", "--target", "127.0.0.1:1", flag, file}, flag);
    }
    ExpectRefused(BEAMLINE_LOADTEST_BINARY, {"compare", "x", "--plot", file}, "--plot");
  }
  std::filesystem::create_directory(Path("page.html"));
  ExpectRefused(BEAMLINE_LOADTEST_BINARY, {"compare", "x", "--plot", Path("page.html")}, "--plot");
}

TEST_F(HostileArguments, InputsOfTheBenchmark) {
  Arguments files = NoFiles();
  for (const std::string& file : BadContents()) files.push_back(file);
  files.push_back(Write("large_id", "[99999999999]\n"));
  files.push_back(Write("larger_id", "[18446744073709551615]\n"));
  files.push_back(Write("fraction", "[1.5]\n"));
  for (const std::string& file : files) {
    ExpectRefused(BEAMLINE_BENCH_BINARY, {"--model", "m", "--task", "embed", "--input", file},
                  "--input");
  }
}

TEST_F(HostileArguments, FoldersOfTheExample) {
  for (const std::string& file : NoFiles()) {
    ExpectRefused(BEAMLINE_EXAMPLE_BINARY, {file, file, "text"}, "beamline-example-generate");
  }
}

TEST_F(HostileArguments, WrongUseOfEveryProgramIsTwo) {
  for (const char* program : {BEAMLINE_SERVER_BINARY, BEAMLINE_CLI_BINARY, BEAMLINE_LOADTEST_BINARY,
                              BEAMLINE_BENCH_BINARY, BEAMLINE_EXAMPLE_BINARY}) {
    for (const Arguments& arguments :
         {Arguments{"--nonsense"}, Arguments{std::string(100'000, 'x')}, Arguments{"-"},
          Arguments{"--", "x"}, Arguments{"\xFF\xFE"}}) {
      ChildProcess process(program, arguments);
      EXPECT_EQ(process.Wait(kLimit), 2) << program << " " << arguments[0].substr(0, 100);
      EXPECT_LT(process.err().size(), kLongestError);
      EXPECT_EQ(process.err().find('\n'), process.err().size() - 1) << process.err();
    }
  }
  for (const Arguments& arguments : {Arguments{"run", "--rate", "nan"},
                                     {"run", "--seed", "-1"},
                                     {"run", "--batch", "0"},
                                     {"run", "--cancel-share", "2"},
                                     {"run", "--target", "localhost"},
                                     {"compare"},
                                     {"run", "--expect-code", "EXHAUSTED"},
                                     {"rum"}}) {
    ChildProcess process(BEAMLINE_LOADTEST_BINARY, arguments);
    EXPECT_EQ(process.Wait(kLimit), 2) << arguments.back() << process.err();
  }
}

TEST_F(HostileArguments, EveryProgramTellsItsVersion) {
  for (const std::string program : {BEAMLINE_SERVER_BINARY, BEAMLINE_CLI_BINARY,
                                    BEAMLINE_LOADTEST_BINARY, BEAMLINE_BENCH_BINARY}) {
    ChildProcess process(program, {"--version"});
    EXPECT_EQ(process.Wait(kLimit), 0);
    EXPECT_THAT(process.out(), HasSubstr(std::filesystem::path(program).filename().string() + " "));
  }
}

// In words, not in those of the parser's types.
TEST_F(HostileArguments, HelpIsForPeople) {
  for (const Arguments& command : {Arguments{BEAMLINE_SERVER_BINARY},
                                   {BEAMLINE_CLI_BINARY},
                                   {BEAMLINE_CLI_BINARY, "generate"},
                                   {BEAMLINE_CLI_BINARY, "encode"},
                                   {BEAMLINE_CLI_BINARY, "score"},
                                   {BEAMLINE_LOADTEST_BINARY, "run"},
                                   {BEAMLINE_LOADTEST_BINARY, "compare"},
                                   {BEAMLINE_BENCH_BINARY},
                                   {BEAMLINE_EXAMPLE_BINARY}}) {
    Arguments arguments(command.begin() + 1, command.end());
    arguments.push_back("--help");
    ChildProcess process(command[0], arguments);
    EXPECT_EQ(process.Wait(kLimit), 0) << command[0];
    EXPECT_EQ(process.err(), "");
    EXPECT_THAT(process.out(), HasSubstr(std::filesystem::path(command[0]).filename().string()));
    for (const char* raw : {"ENUM", "->", "value in", "UINT", "INT:", "FLOAT:"}) {
      EXPECT_THAT(process.out(), Not(HasSubstr(raw))) << command[0];
    }
  }
}

TEST_F(HostileArguments, TheBenchmarkTakesTypesByName) {
  const Arguments embed = {"--models", std::string(BEAMLINE_SOURCE_DIR) + "/models",
                           "--model",  "embed-en",
                           "--task",   "embed",
                           "--device", "cpu",
                           "--input",  Write("ids", "[2, 100, 3]\n")};
  Arguments wrong = embed;
  wrong.insert(wrong.end(), {"--dtype", "float64"});
  ExpectRefused(BEAMLINE_BENCH_BINARY, wrong, "float64");
  Arguments right = embed;
  right.insert(right.end(), {"--dtype", "float32"});
  ChildProcess process(BEAMLINE_BENCH_BINARY, right);
  EXPECT_EQ(process.Wait(), 0) << process.err();
  EXPECT_THAT(process.out(), HasSubstr("\"dtype\":\"float32\""));
}

// What cannot be written is told, and nothing ends by a signal.
TEST_F(HostileArguments, LostOutputIsAnError) {
  for (const Arguments& command : {Arguments{BEAMLINE_SERVER_BINARY},
                                   {BEAMLINE_CLI_BINARY},
                                   {BEAMLINE_LOADTEST_BINARY},
                                   {BEAMLINE_LOADTEST_BINARY, "run"},  // more than stdio buffers
                                   {BEAMLINE_BENCH_BINARY}}) {
    const std::string& program = command[0];
    // The load tester's 1 says that a load has failed, 2 that there was none.
    const int expected = program == BEAMLINE_LOADTEST_BINARY ? 2 : 1;
    for (const char* to : {"> /dev/full", ">&-", "| true"}) {
      // The pipe's reader has gone before the program starts to write.
      const std::string run = std::string("sleep 0.2; exec \"$0\" \"$@\"");
      const std::string line = to[0] == '|' ? "{ (" + run + "); echo $? >&2; } | true"
                                            : "exec \"$0\" \"$@\" " + std::string(to);
      Arguments arguments = {"-c", line};
      arguments.insert(arguments.end(), command.begin(), command.end());
      arguments.push_back("--help");
      ChildProcess process("/bin/sh", arguments);
      const int status = process.Wait(kLimit);
      SCOPED_TRACE(command.back() + " --help " + to + ": " + process.err());
      EXPECT_THAT(process.err(), HasSubstr("standard output cannot be written: "));
      if (to[0] == '|') {
        EXPECT_TRUE(process.err().ends_with("\n" + std::to_string(expected) + "\n"));
      } else {
        EXPECT_EQ(status, expected);
      }
    }
  }
}

// gRPC would end them by SIGABRT.
TEST_F(HostileArguments, ClientsSayThatThereAreTooFewDescriptors) {
  for (const auto& [program, arguments, expected] :
       {std::tuple(BEAMLINE_CLI_BINARY, Arguments{"health"}, 1),
        std::tuple(BEAMLINE_LOADTEST_BINARY, Arguments{"run", "--rate", "1"}, 2)}) {
    for (const int most : {5, 8}) {
      ChildProcess process(program, arguments, "", most);
      const int status = process.Wait(kLimit);
      SCOPED_TRACE(std::string(program) + ": " + process.err());
      EXPECT_EQ(status, expected);
      EXPECT_THAT(process.err(), HasSubstr("the limit of open files (ulimit -n) leaves room for "));
    }
  }
}

}  // namespace
}  // namespace beamline::hostile_arguments_test

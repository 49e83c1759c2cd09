// Command lines of the three programs: the first byte chooses the program, 'A' the server, 'B' the
// command line client, 'C' the load tester; then a line for each argument, of the server also for
// each variable of its environment (BEAMLINE_THREADS=2). Nothing is called.
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/check.h"
#include "base/command_line.h"
#include "client/cli/cli.h"
#include "client/cli/generate_options.h"
#include "loadtest/options.h"
#include "server/config/config_file.h"
#include "server/config/flags.h"
#include "tests/fuzz/checks.h"

namespace beamline {
namespace {

using Arguments = std::vector<const char*>;

absl::Status ParseServer(const Arguments& arguments) {
  Arguments flags, variables;
  for (const char* argument : arguments) {
    (std::string_view(argument).starts_with("BEAMLINE_") ? variables : flags).push_back(argument);
  }
  variables.push_back(nullptr);
  const Environment environment = ReadEnvironment(variables.data());
  for (const std::string& unknown : UnknownVariables(environment)) {
    BEAMLINE_CHECK(unknown.find('\n') == std::string::npos);
  }
  const auto line = ParseCommandLine(static_cast<int>(flags.size()), flags.data(), environment);
  if (!line.ok()) return line.status();
  if (line->text.empty()) BEAMLINE_CHECK(!PrintConfig(line->config).empty());
  return absl::OkStatus();
}

// All commands, then the options of `generate` with the request that they make.
absl::Status ParseClient(const Arguments& arguments) {
  const int count = static_cast<int>(arguments.size());
  CLI::App app("All commands.", "beamline");
  app.fallthrough();
  cli::Command command;
  cli::AddGenerateCommands(app, command);
  cli::AddEncodeCommand(app, command);
  cli::AddScoreCommand(app, command);
  cli::AddTokenCommands(app, command);
  cli::AddModelCommands(app, command);
  cli::AddTopCommand(app, command);
  app.require_subcommand(1);
  const auto all = ParseArguments(app, count, arguments.data());
  if (all.ok() && all->empty()) BEAMLINE_CHECK(command != nullptr);

  CLI::App one("One command.", "beamline");
  cli::GenerateOptions options;
  cli::AddGenerateOptions(one, options);
  const auto parsed = ParseArguments(one, count, arguments.data());
  if (!parsed.ok()) return parsed.status();
  for (const std::string& text : options.texts) {
    const auto request = cli::MakeRequest(options, text);
    if (!request.ok()) return request.status();
    BEAMLINE_CHECK(request->ByteSizeLong() > 0 || text.empty());
  }
  return all.status();
}

absl::Status ParseLoadTest(const Arguments& arguments) {
  CLI::App app("Loads a server.", "beamline-loadtest");
  loadtest::RunFlags flags;
  loadtest::AddRunFlags(app, flags);
  const auto parsed = ParseArguments(app, static_cast<int>(arguments.size()), arguments.data());
  CLI::App search("Searches a rate.", "beamline-loadtest");
  loadtest::FindRateFlags search_flags;
  loadtest::AddFindRateFlags(search, search_flags);
  const auto searched =
      ParseArguments(search, static_cast<int>(arguments.size()), arguments.data());
  if (!searched.ok()) CheckRefusal(searched.status(), "");
  if (!parsed.ok()) return parsed.status();
  if (!parsed->empty()) return absl::OkStatus();
  return loadtest::LoadWorkload(flags).status();
}

}  // namespace
}  // namespace beamline

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace beamline;
  if (size == 0) return 0;
  std::vector<std::string> lines = {"program"};
  std::string text(AsText(data + 1, size - 1));
  while (!text.empty()) {
    const size_t end = std::min(text.find('\n'), text.size());
    lines.push_back(text.substr(0, end));
    text.erase(0, end + 1);
  }
  Arguments arguments;
  for (const std::string& line : lines) arguments.push_back(line.c_str());
  const uint8_t program = static_cast<uint8_t>(data[0] - 'A') % 3;
  const absl::Status status = program == 0   ? ParseServer(arguments)
                              : program == 1 ? ParseClient(arguments)
                                             : ParseLoadTest(arguments);
  if (!status.ok()) CheckRefusal(status, "");
  return 0;
}

#include "client/cli/cli.h"

#include <fstream>

#include "absl/strings/cord.h"
#include "fmt/format.h"
#include "fmt/ostream.h"

namespace beamline::cli {
namespace {

constexpr char kExamples[] =
    "Examples:\n"
    "  beamline translate \"The package was not found.\"\n"
    "  beamline generate --model write-en --max-new-tokens 40 \"Package: \"\n"
    "  beamline generate --beam 4 --n 2 --logprobs 3 --json \"Package: \"\n"
    "  beamline encode \"a text editor\" \"an editor for text\" \"a web server\"\n"
    "  beamline generate --file prompts.txt --max-new-tokens 40\n"
    "  beamline score \"Package: \" vim emacs\n"
    "  beamline tokenize --model embed-en \"Hello world\"\n"
    "  beamline models write-en\n"
    "  beamline health\n";

constexpr char kUsagePayload[] = "beamline.usage";

int FailUsage(const Console& console, std::string_view message) {
  fmt::print(console.err, "beamline: {}\nbeamline: see 'beamline --help'\n", message);
  return 2;
}

void AddGlobalOptions(CLI::App& app, GlobalOptions& options) {
  app.add_option("--address", options.address, "host:port of the server")
      ->type_name("HOST:PORT")
      ->envname("BEAMLINE_ADDRESS")
      ->capture_default_str();
  app.add_option("--timeout", options.timeout_seconds, "for the whole call; 0: none")
      ->type_name("SECONDS")
      ->check(CLI::Range(0.0, 1e6))
      ->capture_default_str();
  app.add_flag("--json", options.json, "prints the answer's message as JSON, one line each");
}

}  // namespace

CLI::Option* AddSwitch(CLI::App& command, const std::string& names, std::optional<bool>& value,
                       const std::string& help) {
  return command.add_flag_function(
      names, [&value](int64_t count) { value = count > 0; }, help);
}

absl::Status UsageError(std::string_view message) {
  absl::Status status = absl::InvalidArgumentError(std::string(message));
  status.SetPayload(kUsagePayload, absl::Cord());
  return status;
}

absl::StatusOr<std::string> DefaultModel(const Session& session, v1::Task task) {
  const auto models = session.client.ListModels(session.options.call());
  if (!models.ok()) return models.status();
  std::string only;
  for (const v1::Model& model : models->models()) {
    if (model.task() != task) continue;
    if (!only.empty()) return std::string();
    only = model.name();
  }
  return only;
}

std::vector<std::string> ReadTexts(const std::vector<std::string>& arguments,
                                   const Console& console) {
  if (!arguments.empty() && arguments != std::vector<std::string>{"-"}) return arguments;
  std::vector<std::string> lines;
  for (std::string line; std::getline(console.in, line);) lines.push_back(line);
  return lines;
}

absl::StatusOr<std::vector<std::string>> ReadTexts(const std::vector<std::string>& arguments,
                                                   const std::string& file,
                                                   const Console& console) {
  if (file.empty()) return ReadTexts(arguments, console);
  if (!arguments.empty()) return UsageError("texts and --file exclude each other");
  std::ifstream stream(file);
  std::vector<std::string> lines;
  for (std::string line; std::getline(stream, line);) lines.push_back(line);
  if (!stream.eof()) return UsageError(fmt::format("--file {} cannot be read", file));
  return lines;
}

int Run(int argc, const char* const* argv, const Console& console) {
  CLI::App app("Talks to a beamline-server: generates, translates and embeds text.", "beamline");
  GlobalOptions options;
  Command command;
  AddGlobalOptions(app, options);
  // Options of all commands may stand after the command too; commands inherit this when they are
  // added.
  app.fallthrough();
  AddGenerateCommands(app, command);
  AddEncodeCommand(app, command);
  AddScoreCommand(app, command);
  AddTokenCommands(app, command);
  AddModelCommands(app, command);
  app.set_version_flag("--version", "beamline " BEAMLINE_VERSION);
  app.require_subcommand(1);
  app.footer(kExamples);
  try {
    app.parse(argc, argv);
  } catch (const CLI::CallForHelp&) {
    const auto given = app.get_subcommands();
    console.out << (given.empty() ? app.help() : given[0]->help());
    return 0;
  } catch (const CLI::CallForVersion& version) {
    console.out << version.what() << "\n";
    return 0;
  } catch (const CLI::ParseError& error) {
    return FailUsage(console, error.what());
  }
  Client client({.address = options.address});
  const absl::Status status = command({client, console, options});
  if (status.ok()) return 0;
  console.out.flush();
  if (status.GetPayload(kUsagePayload).has_value()) {
    return FailUsage(console, std::string(status.message()));
  }
  fmt::print(console.err, "beamline: {}: {}\n", absl::StatusCodeToString(status.code()),
             std::string(status.message()));
  return 1;
}

}  // namespace beamline::cli

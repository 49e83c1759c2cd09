#include "client/cli/cli.h"

#include <algorithm>
#include <string>

#include "absl/strings/cord.h"
#include "base/build_info.h"
#include "base/command_line.h"
#include "base/text.h"
#include "base/utf8.h"
#include "client/target.h"
#include "fmt/format.h"

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
    "  beamline load write-en --folder writers/new --set max_sequences=64\n"
    "  beamline health\n";

constexpr char kUsagePayload[] = "beamline.usage";

int FailUsage(const Console& console, std::string_view message) {
  constexpr std::string_view kHint = " (see 'beamline --help')";
  constexpr size_t kRoom = kHint.size() + 20;  // of the hint and what stands in front
  console.err << ErrorLine(
      "beamline", fmt::format("{}{}", Shorten(message, kMaxErrorLineBytes - kRoom), kHint));
  return 2;
}

int FailCall(const Console& console, const absl::Status& status) {
  console.err << ErrorLine("beamline",
                           fmt::format("{}: {}", absl::StatusCodeToString(status.code()),
                                       std::string(status.message())));
  return 1;
}

void AddGlobalOptions(CLI::App& app, GlobalOptions& options) {
  app.add_option("--address", options.address, "host:port of the server")
      ->type_name("HOST:PORT")
      ->envname("BEAMLINE_ADDRESS")
      ->capture_default_str();
  AddNumber(app, "--timeout", options.timeout_seconds,
            "for the whole call; of lines, for each answer; 0: none", 0.0, 1e6)
      ->type_name("SECONDS")
      ->default_str(fmt::format("{:g}", options.timeout_seconds));
  app.add_flag("--json", options.json, "prints the answer's message as JSON, one line each");
}

// Messages of the contract hold UTF-8 alone.
absl::Status CheckArguments(int argc, const char* const* argv) {
  for (int i = 1; i < argc; ++i) {
    if (IsValidUtf8(argv[i])) continue;
    return absl::InvalidArgumentError(
        fmt::format("argument {} is not valid UTF-8: '{}'", i, Shorten(argv[i], 100)));
  }
  return absl::OkStatus();
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
    if (model.task() != task || model.state() == v1::MODEL_STATE_DRAINING) continue;
    if (!only.empty() && only != model.name()) return std::string();
    only = model.name();
  }
  return only;
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
  AddAdminCommands(app, command);
  app.set_version_flag("--version", VersionLine("beamline"));
  app.require_subcommand(1);
  app.footer(kExamples);
  const auto text = ParseArguments(app, argc, argv);
  absl::Status status = text.status();
  status.Update(CheckArguments(argc, argv));
  const bool calls = text.ok() && text->empty();
  if (calls) status.Update(CheckTarget("--address", options.address));
  if (!status.ok()) return FailUsage(console, std::string(status.message()));
  if (!calls) {
    console.out << *text;
    return 0;
  }
  Client client({.address = options.address});
  status = command({client, console, options});
  console.out.flush();
  if (!console.out.good()) return 1;
  if (status.ok()) return 0;
  const bool wrong_use = status.GetPayload(kUsagePayload).has_value();
  return wrong_use ? FailUsage(console, std::string(status.message())) : FailCall(console, status);
}

}  // namespace beamline::cli

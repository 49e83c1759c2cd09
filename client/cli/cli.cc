#include "client/cli/cli.h"

#include <iterator>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/cord.h"
#include "base/build_info.h"
#include "base/command_documents.h"
#include "base/command_line.h"
#include "base/status.h"
#include "base/text.h"
#include "base/utf8.h"
#include "client/client_room.h"
#include "client/target.h"
#include "fmt/format.h"

namespace beamline::cli {
namespace {

constexpr char kExamples[] =
    "Examples:\n"
    "  beamline translate \"The package was not found.\"\n"
    "  beamline generate --model write-en --max-new-tokens 40 \"Package: \"\n"
    "  beamline encode \"a text editor\" \"an editor for text\" \"a web server\"\n"
    "  beamline models --output json\n"
    "  beamline top\n";

std::vector<ManualSection> Manual() {
  return {{"Exit status",
           {"0: Everything was answered and printed.",
            "1: A call or a line failed, standard output could not be written, or the limits of "
            "threads or open files (ulimit -u, ulimit -n) leave no room for a client.",
            "2: A wrong command line."}},
          {"Errors",
           {"An error is one line on standard error. With --output json it stands on standard "
            "output too, in the place of the answer: {\"error\":{\"code\":3,\"message\":...}}.",
            "Of texts that come as lines, an error takes the place of its line's answer: an empty "
            "line, its JSON, or a row of CSV whose last field it is."}},
          {"See also", {"beamline-server(1), beamline-loadtest(1)"}}};
}

constexpr char kAddressVariable[] = "BEAMLINE_ADDRESS";
constexpr char kUsagePayload[] = "beamline.usage";

void PrintError(const Console& console, const GlobalOptions& options, std::string_view message) {
  constexpr std::string_view kProgram = "beamline";
  const Style style(UsesColor(options.color, console.err_is_terminal));
  const std::string line = ErrorLine(kProgram, message);
  console.err << style.Bad(kProgram) << line.substr(kProgram.size());
}

int FailUsage(const Console& console, const GlobalOptions& options, std::string_view message) {
  constexpr std::string_view kHint = " (see 'beamline --help')";
  constexpr size_t kRoom = kHint.size() + 20;  // for the hint and the text before it
  PrintError(console, options,
             fmt::format("{}{}", Shorten(message, kMaxErrorLineBytes - kRoom), kHint));
  return 2;
}

ColorMode ParseColorMode(const std::string& mode) {
  if (mode == "auto") return ColorMode::kAuto;
  return mode == "always" ? ColorMode::kAlways : ColorMode::kNever;
}

void AddGlobalOptions(CLI::App& app, GlobalOptions& options) {
  app.add_option("--address", options.address, "host:port of the server")
      ->type_name("HOST:PORT")
      ->envname(kAddressVariable)
      ->capture_default_str();
  AddConnectionFlags(app, options.connection);
  AddNumber(app, "--timeout", options.timeout_seconds,
            "for the whole call; of lines, for each answer; 0: none", 0.0, 1e6)
      ->type_name("SECONDS")
      ->default_str(fmt::format("{:g}", options.timeout_seconds));
  const std::vector<std::string> formats(std::begin(kOutputNames), std::end(kOutputNames));
  CLI::Option* output = app.add_option_function<std::string>(
      "--output", [&options](const std::string& name) { options.output = ParseOutputFormat(name); },
      "what answers are printed as: for people; the contract's messages, one a line; RFC 4180");
  output->check(CLI::IsMember(formats))->default_str("table");
  app.add_flag_callback(
         "--json", [&options] { options.output = OutputFormat::kJson; }, "as --output json")
      ->excludes(output);
  app.add_option_function<std::string>(
         "--color", [&options](const std::string& mode) { options.color = ParseColorMode(mode); },
         "whether text is coloured; auto: on a terminal, unless NO_COLOR is set")
      ->check(CLI::IsMember({"auto", "always", "never"}))
      ->default_str("auto");
}

// Strings in protobuf messages must be UTF-8.
absl::Status CheckArguments(int argc, const char* const* argv) {
  for (int i = 1; i < argc; ++i) {
    if (IsValidUtf8(argv[i])) continue;
    return absl::InvalidArgumentError(
        fmt::format("argument {} is not valid UTF-8: '{}'", i, Shorten(argv[i], 100)));
  }
  return absl::OkStatus();
}

absl::Status ReadInto(const ConnectionFlags& flags, ConnectionOptions& connection) {
  BEAMLINE_ASSIGN_OR_RETURN(connection, ReadConnectionOptions(flags));
  return absl::OkStatus();
}

}  // namespace

CLI::Option* AddSwitch(CLI::App& command, const std::string& names, std::optional<bool>& value,
                       const std::string& help) {
  return command.add_flag_function(
      names, [&value](int64_t count) { value = count > 0; }, help);
}

void PrintNote(const Session& session, std::string_view note) {
  const Console& console = session.console;
  const Style style(UsesColor(session.options.color, console.err_is_terminal));
  console.err << style.Faint(fmt::format("({})", note)) << "\n";
}

absl::Status UsageError(std::string_view message) {
  absl::Status status = absl::InvalidArgumentError(std::string(message));
  status.SetPayload(kUsagePayload, absl::Cord());
  return status;
}

absl::StatusOr<std::string> DefaultModel(const Session& session, v1::Task task, Input input) {
  const auto models = session.client.ListModels(session.options.call());
  if (!models.ok()) return models.status();
  std::set<std::string> all;
  std::set<std::string> meant;
  for (const v1::Model& model : models->models()) {
    if (model.task() != task || model.state() == v1::MODEL_STATE_DRAINING) continue;
    all.insert(model.name());
    const bool takes_chats = model.chat_templates_size() > 0;
    if (takes_chats == (input == Input::kChat)) meant.insert(model.name());
  }
  if (all.size() == 1) return *all.begin();
  return meant.size() == 1 ? *meant.begin() : std::string();
}

int Run(int argc, const char* const* argv, const Console& console) {
  CLI::App app("Talks to a beamline-server: generates, translates, embeds and classifies text.",
               "beamline");
  GlobalOptions options;
  Command command;
  AddGlobalOptions(app, options);
  // Global options may also come after the command. Commands inherit this when they are added.
  app.fallthrough();
  AddGenerateCommands(app, command);
  AddChatCommand(app, command);
  AddEncodeCommand(app, command);
  AddClassifyCommands(app, command);
  AddFillMaskCommand(app, command);
  AddScoreCommand(app, command);
  AddTokenCommands(app, command);
  AddModelCommands(app, command);
  AddTopCommand(app, command);
  AddAdminCommands(app, command);
  AddCompletionCommand(app);
  AddManPageFlag(app, fmt::format("beamline {}", ThisBuild().version), Manual());
  app.set_version_flag("--version", VersionLine("beamline"));
  app.require_subcommand(1);
  app.footer(kExamples);
  const auto text = ParseArguments(app, argc, argv);
  absl::Status status = text.status();
  status.Update(CheckArguments(argc, argv));
  const bool calls = text.ok() && text->empty();
  if (calls) {
    const std::string_view name = GivenBy("--address", kAddressVariable, options.address);
    status.Update(CheckTarget(name, options.address));
  }
  ConnectionOptions connection;
  if (status.ok() && calls) status = ReadInto(options.connection, connection);
  if (!status.ok()) return FailUsage(console, options, std::string(status.message()));
  if (!calls) {
    console.out << *text;
    return 0;
  }
  Output output(console.out, options.output,
                Style(UsesColor(options.color, console.out_is_terminal)));
  status = CheckClientRoom();
  if (status.ok()) {
    Client client({.address = options.address, .tls = connection.tls, .token = connection.token});
    status = command({client, console, options, output});
  }
  const bool is_wrong_use = status.GetPayload(kUsagePayload).has_value();
  if (!status.ok() && !is_wrong_use) output.TellError(status);
  console.out.flush();
  if (!console.out.good()) return 1;
  if (status.ok()) return 0;
  if (is_wrong_use) return FailUsage(console, options, std::string(status.message()));
  PrintError(console, options, ErrorText(status));
  return 1;
}

}  // namespace beamline::cli

// The `beamline` command line. Each command has a file here.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <ostream>
#include <string>
#include <string_view>
#include <vector>

#include "CLI/CLI.hpp"
#include "absl/status/status.h"
#include "client/cli/output.h"
#include "client/cli/style.h"
#include "client/client.h"
#include "client/connection_flags.h"

namespace beamline::cli {

struct Console {
  int in = -1;  // the descriptor of standard input
  std::ostream& out;
  std::ostream& err;
  bool out_is_terminal = false;
  bool err_is_terminal = false;
};

// Options of all commands.
struct GlobalOptions {
  std::string address = "127.0.0.1:50051";
  ConnectionFlags connection;
  double timeout_seconds = 60.0;  // 0: no timeout
  OutputFormat output = OutputFormat::kTable;
  ColorMode color = ColorMode::kAuto;

  CallOptions call() const {
    // Rounded up, because zero would mean no limit.
    return {std::chrono::ceil<std::chrono::milliseconds>(
        std::chrono::duration<double>(timeout_seconds))};
  }
};

// What a command gets to run.
struct Session {
  Client& client;
  const Console& console;
  const GlobalOptions& options;
  Output& output;
};

using Command = std::function<absl::Status(const Session&)>;

// Each adds its subcommands to `app`. The subcommand that is given sets `chosen`.
void AddGenerateCommands(CLI::App& app, Command& chosen);
void AddChatCommand(CLI::App& app, Command& chosen);
void AddEncodeCommand(CLI::App& app, Command& chosen);
void AddClassifyCommands(CLI::App& app, Command& chosen);
void AddFillMaskCommand(CLI::App& app, Command& chosen);
void AddScoreCommand(CLI::App& app, Command& chosen);
void AddTokenCommands(CLI::App& app, Command& chosen);
void AddModelCommands(CLI::App& app, Command& chosen);
void AddAdminCommands(CLI::App& app, Command& chosen);
void AddTopCommand(CLI::App& app, Command& chosen);

// Runs the whole program. Returns the exit status: 0; 1 after an error of the call (one line on
// err, "beamline: CODE: message"), if the system's limits are too low for a client, or after a
// failed write to `out`; 2 for a wrong command line. The owner of `out` reports the failed write.
int Run(int argc, const char* const* argv, const Console& console);

// Adds a switch with a negation, "--x,!--no-x". `value` stays empty if neither is given. (CLI11's
// own flags would set an optional<bool> to false.)
CLI::Option* AddSwitch(CLI::App& command, const std::string& names, std::optional<bool>& value,
                       const std::string& help);

// Prints "(NOTE)" on standard error, for figures that are not part of the answer.
void PrintNote(const Session& session, std::string_view note);

// A command-line error that only the command itself can detect: exit status 2.
absl::Status UsageError(std::string_view message);

// Print all facts about a model, as a table or as a CSV row.
void PrintModel(const v1::Model& model, const Session& session);
void PrintModelRow(const v1::Model& model, Output& output);

enum class Input : uint8_t { kText, kChat };

// The default model of a task: the only model of the task. If there are several: the only one with
// a chat template for a conversation, or the only one without for a text. Empty if there is no such
// model; the server's error then lists the models.
absl::StatusOr<std::string> DefaultModel(const Session& session, v1::Task task, Input input);

}  // namespace beamline::cli

// The `beamline` command line: each command is one file here.
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

// Options of every command.
struct GlobalOptions {
  std::string address = "127.0.0.1:50051";
  ConnectionFlags connection;
  double timeout_seconds = 60.0;  // 0: none
  OutputFormat output = OutputFormat::kTable;
  ColorMode color = ColorMode::kAuto;

  CallOptions call() const {
    // Rounded up: zero would be no limit.
    return {std::chrono::ceil<std::chrono::milliseconds>(
        std::chrono::duration<double>(timeout_seconds))};
  }
};

// What a command works with.
struct Session {
  Client& client;
  const Console& console;
  const GlobalOptions& options;
  Output& output;
};

using Command = std::function<absl::Status(const Session&)>;

// Each adds its subcommands to `app`; the one that is given sets `chosen`.
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

// Runs the whole program. Returns the exit status: 0, 1 after an error of the call (one line on
// err, "beamline: CODE: message") or where the system has no room for a client, 2 for a wrong
// command line. After a failed write to `out`, of which the owner of the stream tells, 1.
int Run(int argc, const char* const* argv, const Console& console);

// A switch with a negation, "--x,!--no-x"; `value` stays empty when neither is given. (CLI11's own
// flags set an optional<bool> to false then.)
CLI::Option* AddSwitch(CLI::App& command, const std::string& names, std::optional<bool>& value,
                       const std::string& help);

// "(NOTE)" on standard error: figures of an answer, which are no part of it.
void PrintNote(const Session& session, std::string_view note);

// The error of a wrong command line that only the command itself can see: exit status 2.
absl::Status UsageError(std::string_view message);

// All that is known of a model, as a table and as a row of CSV.
void PrintModel(const v1::Model& model, const Session& session);
void PrintModelRow(const v1::Model& model, Output& output);

enum class Input : uint8_t { kText, kChat };

// The model of a task for a command line that names none: the only one, or of several the only one
// with a chat template for a conversation, the only one without for a text. Empty when there is no
// such one: the server's answer then lists the models.
absl::StatusOr<std::string> DefaultModel(const Session& session, v1::Task task, Input input);

}  // namespace beamline::cli

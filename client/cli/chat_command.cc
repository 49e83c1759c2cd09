// `beamline chat`: a conversation with a model that has a chat template. Each line of standard
// input is one user message.
#include <unistd.h>

#include <algorithm>
#include <iterator>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/command_line.h"
#include "base/command_tree.h"
#include "base/text.h"
#include "client/cli/chat_file.h"
#include "client/cli/cli.h"
#include "client/cli/format.h"
#include "client/cli/generate_options.h"
#include "client/cli/line_editor.h"
#include "client/cli/lines.h"
#include "fmt/format.h"
#include "fmt/ostream.h"
#include "fmt/ranges.h"

namespace beamline::cli {
namespace {

constexpr std::string_view kReset = "/reset";
constexpr std::string_view kUndo = "/undo";
constexpr std::string_view kHelp = "/help";
constexpr std::string_view kQuit = "/quit";
constexpr std::string_view kCommands[] = {kHelp, kReset, kUndo, kQuit};
constexpr std::string_view kCommandHelp =
    "/help    shows this\n"
    "/reset   begins the conversation anew\n"
    "/undo    takes the last turn and its answer back\n"
    "/quit    ends, as ^D does\n"
    "//TEXT   says /TEXT\n";
constexpr std::string_view kKeyHelp =
    "Up and Down bring earlier lines back, ^R searches them, Tab completes a command.\n";
// The prompt for the next line, on standard error if a person types the lines.
constexpr std::string_view kInvitation = "> ";

struct ChatOptions {
  GenerateOptions generate;
  std::string system;
  std::string history_file;
};

v1::ChatMessage Message(std::string role, std::string content) {
  v1::ChatMessage message;
  message.set_role(std::move(role));
  message.set_content(std::move(content));
  return message;
}

// The first messages of the conversation, which /reset restores.
absl::StatusOr<v1::Chat> Beginning(const ChatOptions& options) {
  v1::Chat chat;
  if (!options.generate.chat_file.empty()) {
    auto read = ReadChatFile(options.generate.chat_file);
    if (!read.ok()) return read.status();
    chat = *std::move(read);
  }
  if (options.system.empty()) return chat;
  if (absl::Status status = CheckText(options.system); !status.ok()) return status;
  if (chat.messages_size() > 0 && chat.messages(0).role() == "system") {
    return UsageError("--system goes with a --chat that has no system message of its own");
  }
  *chat.add_messages() = Message("system", options.system);
  std::rotate(chat.mutable_messages()->begin(), chat.mutable_messages()->end() - 1,
              chat.mutable_messages()->end());
  return chat;
}

class Conversation {
 public:
  // is_edited: the lines come from a LineEditor.
  Conversation(const Session& session, const ChatOptions& options, v1::Chat beginning,
               bool is_edited)
      : session_(session),
        options_(options.generate),
        beginning_(std::move(beginning)),
        is_edited_(is_edited) {
    options_.chat = beginning_;
  }

  // Handles one line: a user message or a command.
  absl::Status Take(const std::string& line) {
    if (line.find_first_not_of(" \t\r") == std::string::npos) return absl::OkStatus();
    if (line.front() != '/') return Say(line);
    if (line.starts_with("//")) return Say(line.substr(1));
    const std::string_view command(line.data(), line.find_last_not_of(" \t\r") + 1);
    if (command == kReset) {
      options_.chat = beginning_;
    } else if (command == kHelp) {
      session_.console.err << kCommandHelp << (is_edited_ ? kKeyHelp : "") << std::flush;
    } else if (command == kQuit) {
      has_ended_ = true;
    } else if (command == kUndo) {
      if (options_.chat->messages_size() <= beginning_.messages_size()) {
        return absl::InvalidArgumentError("there is nothing to undo");
      }
      Forget();
      Forget();
    } else {
      return absl::InvalidArgumentError(
          fmt::format("there is no command '{}'; there are {}, and // before a text that "
                      "begins with /",
                      Shorten(command), fmt::join(kCommands, ", ")));
    }
    return absl::OkStatus();
  }

  bool has_ended() const { return has_ended_; }

 private:
  void Forget() { options_.chat->mutable_messages()->RemoveLast(); }

  // If the answer fails, neither it nor the user's message stays in the conversation.
  absl::Status Say(const std::string& text) {
    if (absl::Status status = CheckText(text); !status.ok()) return status;
    *options_.chat->add_messages() = Message("user", text);
    auto answer = Answer();
    if (!answer.ok()) {
      Forget();
      return answer.status();
    }
    *options_.chat->add_messages() = Message("assistant", *std::move(answer));
    return absl::OkStatus();
  }

  absl::StatusOr<std::string> Answer() const {
    const auto request = MakeRequest(options_, "");
    if (!request.ok()) return request.status();
    const Console& console = session_.console;
    std::string answer;
    const auto on_message = [&](const v1::GenerateStreamResponse& message) {
      for (const v1::SequenceDelta& delta : message.deltas()) {
        answer += delta.text();
        console.out << delta.text();
      }
      console.out.flush();
      return console.out.good();
    };
    const auto end = session_.client.GenerateStream(*request, on_message, session_.options.call());
    if (end.ok() || !answer.empty()) console.out << std::endl;
    if (!end.ok()) return end.status();
    std::vector<v1::FinishReason> reasons;
    for (const auto& sequence : end->sequences()) reasons.push_back(sequence.finish_reason());
    PrintNote(session_, SummaryLine(end->usage(), end->timing(), reasons));
    return answer;
  }

  const Session& session_;
  GenerateOptions options_;  // `chat` holds the conversation so far
  const v1::Chat beginning_;
  const bool is_edited_;
  bool has_ended_ = false;
};

// Reads lines with the line editor until the input ends or /quit. Prints errors as they occur.
absl::Status ConverseByEditor(const Session& session, const std::string& history_file,
                              Conversation& conversation) {
  auto editor = LineEditor::Open(
      {.in = session.console.in,
       .out = STDERR_FILENO,
       .prompt = std::string(kInvitation),
       .completions = std::vector<std::string>(std::begin(kCommands), std::end(kCommands)),
       .history_file = history_file});
  if (!editor.ok()) return editor.status();
  bool is_open = true;
  while (is_open && !conversation.has_ended() && session.console.out.good()) {
    const std::optional<std::string> line = (*editor)->Next();
    is_open = line.has_value();
    if (!is_open) break;
    const absl::Status status = conversation.Take(*line);
    if (!status.ok()) session.console.err << ErrorLine("beamline", ErrorText(status));
  }
  if (!is_open) session.console.err << std::endl;
  return (*editor)->SaveHistory();
}

// Reads lines from a file, a pipe, or a terminal without line editing.
absl::Status ConverseByLines(const Session& session, Conversation& conversation) {
  LineSource lines(session.console);
  const bool asks = lines.is_terminal() && session.console.err_is_terminal;
  const auto invite = [&] {
    if (asks) session.console.err << kInvitation << std::flush;
  };
  size_t num_failed = 0;
  absl::Status first_error;
  std::string line;
  invite();
  for (Client::Next next; (next = lines.Next(line)) != Client::Next::kEnd;) {
    if (next != Client::Next::kRequest) continue;
    absl::Status status = conversation.Take(line);
    if (!session.console.out.good()) return absl::OkStatus();
    if (!status.ok()) {
      PrintLineError(session.console, lines.num_lines(), status);
      if (++num_failed == 1) first_error = std::move(status);
    }
    if (conversation.has_ended()) break;
    invite();
  }
  if (asks && !conversation.has_ended()) session.console.err << std::endl;
  if (!lines.error().ok()) return lines.error();
  // A person who types the lines has already seen the errors.
  return asks ? absl::OkStatus() : LinesFailed(num_failed, lines.num_lines(), first_error);
}

absl::Status RunChat(const Session& session, ChatOptions options) {
  if (!session.output.is_table()) return UsageError("chat goes with --output table");
  auto beginning = Beginning(options);
  if (!beginning.ok()) return beginning.status();
  if (options.generate.model.empty()) {
    auto model = DefaultModel(session, v1::TASK_GENERATE, Input::kChat);
    if (!model.ok()) return model.status();
    options.generate.model = *std::move(model);
  }
  const Console& console = session.console;
  const bool edits = isatty(console.in) == 1 && console.err_is_terminal && CanEditLines();
  if (!options.history_file.empty() && !edits) {
    return UsageError("--history goes with lines that are edited on a terminal");
  }
  Conversation conversation(session, options, *std::move(beginning), edits);
  return edits ? ConverseByEditor(session, options.history_file, conversation)
               : ConverseByLines(session, conversation);
}

constexpr char kChatExamples[] =
    "Each line of standard input is a turn, whose answer is streamed. /reset begins\n"
    "anew, /undo takes the last turn and its answer back, /help shows the commands,\n"
    "and a line that begins with // is a text that begins with /. /quit ends it, as\n"
    "the end of the input (^D) and ^C do. On a terminal lines are edited: the cursor\n"
    "keys, ^R to search the lines before, ~/.editrc.\n"
    "\n"
    "Examples:\n"
    "  beamline chat --model assistant --system \"Be brief.\"\n"
    "  beamline chat --model assistant --temperature 0.7 --max-new-tokens 200\n";

}  // namespace

void AddChatCommand(CLI::App& app, Command& chosen) {
  auto options = std::make_shared<ChatOptions>();
  GenerateOptions& generate = options->generate;
  CLI::App* command = app.add_subcommand("chat", "converses with a model, line by line");
  command
      ->add_option("--model", generate.model,
                   "name of a model with a chat template; default: the only one")
      ->type_name(std::string(kModelValue));
  command->add_option("--system", options->system, "the system message")->type_name("TEXT");
  AddPath(*command, "--chat", generate.chat_file,
          "begins with the conversation of a JSON file, as of 'beamline generate --chat'");
  AddPath(*command, "--history", options->history_file,
          "keeps the lines of conversations in this file, for the cursor keys; default: those of "
          "this one alone");
  auto* greedy = command->add_flag("--greedy", generate.greedy, "the likeliest token, always");
  const auto sampling = [&](const char* name, auto& value, const char* help) {
    AddNumber(*command, name, value, help)->excludes(greedy);
  };
  sampling("--temperature", generate.temperature, "[0, 2], 0 is greedy; random tokens");
  sampling("--top-k", generate.top_k, ">= 0, 0: all; random tokens");
  sampling("--top-p", generate.top_p, "(0, 1]; random tokens");
  sampling("--seed", generate.seed, "same seed, same answer; random tokens");
  AddNumber(*command, "--max-new-tokens", generate.max_new_tokens,
            ">= 1, most tokens of an answer");
  AddRepeatable(*command, "--stop", generate.stop,
                "an answer ends at this text of 1 to 256 bytes; at most 16")
      ->type_name("TEXT");
  AddNumber(*command, "--priority", generate.priority, "-100 to 100, higher first");
  command->footer(kChatExamples);
  command->callback([&chosen, options] {
    chosen = [options](const Session& session) { return RunChat(session, *options); };
  });
}

}  // namespace beamline::cli

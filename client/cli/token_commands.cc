// `beamline tokenize` and `beamline detokenize`.
#include <memory>
#include <string>
#include <vector>

#include "base/command_tree.h"
#include "client/cli/cli.h"
#include "client/cli/format.h"
#include "client/cli/generate_options.h"
#include "client/cli/lines.h"
#include "fmt/format.h"
#include "fmt/ostream.h"
#include "fmt/ranges.h"

namespace beamline::cli {
namespace {

struct TokenizeOptions {
  std::vector<std::string> texts;
  std::string model;
  bool no_special_tokens = false;
};

struct DetokenizeOptions {
  std::vector<std::string> ids;
  std::string model;
  bool special_tokens = false;
};

void AddModelOption(CLI::App& command, std::string& model) {
  command.add_option("--model", model, "name of a model; see 'beamline models'")
      ->type_name(std::string(kModelValue));
}

constexpr std::string_view kTokenColumns[] = {"input",   "id",    "begin", "end",
                                              "special", "piece", "error"};
constexpr std::string_view kTextColumns[] = {"input", "text", "error"};

void PrintRows(size_t number, const v1::TokenizeResponse& response, Output& output) {
  for (const v1::Token& token : response.tokens()) {
    output.CsvRow(kTokenColumns, std::vector<std::string>{
                                     fmt::to_string(number), fmt::to_string(token.id()),
                                     fmt::to_string(token.begin()), fmt::to_string(token.end()),
                                     fmt::to_string(token.special()), token.piece(), ""});
  }
}

void Print(const v1::TokenizeResponse& response, const Session& session) {
  const Console& console = session.console;
  std::vector<std::vector<std::string>> rows = {{"id", "bytes", "piece"}};
  for (const v1::Token& token : response.tokens()) {
    const std::string bytes =
        token.begin() == token.end() ? "" : fmt::format("{}..{}", token.begin(), token.end());
    rows.push_back({std::to_string(token.id()), bytes,
                    token.piece() + (token.special() ? "  (special)" : "")});
  }
  console.out << FormatTable(rows, session.output.style());
  console.out.flush();
  PrintNote(session, fmt::format("{} tokens of {}", response.tokens_size(), response.model()));
}

absl::Status TokenizeOne(const Session& session, const TokenizeOptions& options, size_t number,
                         const std::string& text) {
  if (absl::Status status = CheckText(text); !status.ok()) return status;
  v1::TokenizeRequest request;
  request.set_model(options.model);
  request.set_text(text);
  if (options.no_special_tokens) request.set_add_special_tokens(false);
  const auto response = session.client.Tokenize(request, session.options.call());
  if (!response.ok()) return response.status();
  session.output.Answer(
      *response, [&] { Print(*response, session); },
      [&] { PrintRows(number, *response, session.output); });
  return absl::OkStatus();
}

absl::Status RunTokenize(const Session& session, const TokenizeOptions& options) {
  const auto lines = OpenLines(options.texts, "", session.console);
  if (!lines.ok()) return lines.status();
  size_t number = 0;
  const auto run = [&](const std::string& text) {
    return TokenizeOne(session, options, ++number, text);
  };
  if (*lines != nullptr) return ForEachLine(session, **lines, kTokenColumns, run);
  for (const std::string& text : options.texts) {
    if (absl::Status status = run(text); !status.ok()) return status;
  }
  return absl::OkStatus();
}

absl::Status DetokenizeOne(const Session& session, const DetokenizeOptions& options, size_t number,
                           const std::string& text) {
  const auto ids = ParseIds(text);
  if (!ids.ok()) return ids.status();
  v1::DetokenizeRequest request;
  request.set_model(options.model);
  request.mutable_ids()->Add(ids->begin(), ids->end());
  if (options.special_tokens) request.set_skip_special_tokens(false);
  const auto response = session.client.Detokenize(request, session.options.call());
  if (!response.ok()) return response.status();
  session.output.Answer(
      *response, [&] { fmt::print(session.console.out, "{}\n", response->text()); },
      [&] {
        session.output.CsvRow(
            kTextColumns, std::vector<std::string>{fmt::to_string(number), response->text(), ""});
      });
  return absl::OkStatus();
}

// The ids of the command line are one list; each line of standard input is a list of its own.
absl::Status RunDetokenize(const Session& session, const DetokenizeOptions& options) {
  const auto lines = OpenLines(options.ids, "", session.console);
  if (!lines.ok()) return lines.status();
  size_t number = 0;
  const auto run = [&](const std::string& text) {
    return DetokenizeOne(session, options, ++number, text);
  };
  if (*lines != nullptr) return ForEachLine(session, **lines, kTextColumns, run);
  return run(fmt::format("{}", fmt::join(options.ids, " ")));
}

}  // namespace

void AddTokenCommands(CLI::App& app, Command& chosen) {
  auto tokenize = std::make_shared<TokenizeOptions>();
  CLI::App* command = app.add_subcommand("tokenize", "text to token ids");
  command->add_option("text", tokenize->texts,
                      "texts; without any, or '-': the lines of standard input");
  AddModelOption(*command, tokenize->model);
  command->add_flag("--no-special-tokens", tokenize->no_special_tokens,
                    "without what the model's template adds");
  command->footer(
      "Examples:\n"
      "  beamline tokenize --model embed-en \"Unbelievably fast tokenizers!\"\n"
      "  beamline tokenize --model write-en --output json \"text editor\"\n");
  command->callback([&chosen, tokenize] {
    chosen = [tokenize](const Session& session) { return RunTokenize(session, *tokenize); };
  });

  auto detokenize = std::make_shared<DetokenizeOptions>();
  command = app.add_subcommand("detokenize", "token ids to text");
  command->add_option("ids", detokenize->ids,
                      "token ids; without any, or '-': lines of ids on standard input");
  AddModelOption(*command, detokenize->model);
  command->add_flag("--special-tokens", detokenize->special_tokens, "keeps special tokens");
  command->footer(
      "Examples:\n"
      "  beamline detokenize --model write-en 50 41 68\n");
  command->callback([&chosen, detokenize] {
    chosen = [detokenize](const Session& session) { return RunDetokenize(session, *detokenize); };
  });
}

}  // namespace beamline::cli

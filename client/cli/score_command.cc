// `beamline score`: how likely the model finds continuations of a prompt.
#include <memory>
#include <string>
#include <vector>

#include "base/command_tree.h"
#include "client/cli/cli.h"
#include "client/cli/format.h"
#include "client/cli/generate_options.h"
#include "client/cli/lines.h"
#include "fmt/format.h"
#include "fmt/ranges.h"

namespace beamline::cli {
namespace {

struct ScoreOptions {
  std::string prompt;
  std::vector<std::string> continuations;
  std::string model;
  std::string source_language, target_language;
  bool ids = false;
  bool per_token = false;
};

absl::StatusOr<v1::ScoreRequest> MakeRequest(const ScoreOptions& options,
                                             const std::vector<std::string>& continuations) {
  v1::ScoreRequest request;
  absl::Status status = SetPrompt(options.ids, options.prompt, *request.mutable_prompt());
  for (const std::string& text : continuations) {
    if (status.ok()) status = SetPrompt(options.ids, text, *request.add_continuations());
  }
  if (!status.ok()) return status;
  request.set_per_token(options.per_token);
  request.set_source_language(options.source_language);
  request.set_target_language(options.target_language);
  return request;
}

// One row per continuation; ids and log-probabilities only with --per-token.
constexpr std::string_view kScoreColumns[] = {
    "continuation", "text", "logprob", "tokens", "logprob_per_token", "ids", "token_logprobs"};

void PrintRows(const v1::ScoreResponse& response, const std::vector<std::string>& continuations,
               Output& output) {
  for (int i = 0; i < response.scores_size(); ++i) {
    const v1::ContinuationScore& score = response.scores(i);
    std::vector<int32_t> ids;
    std::vector<float> logprobs;
    for (const v1::TokenLogprob& token : score.tokens()) {
      ids.push_back(token.id());
      logprobs.push_back(token.logprob());
    }
    output.CsvRow(
        kScoreColumns,
        std::vector<std::string>{
            fmt::to_string(i + 1), continuations[static_cast<size_t>(i)],
            fmt::to_string(score.logprob()), fmt::to_string(score.num_tokens()),
            fmt::to_string(score.logprob() / score.num_tokens()),
            fmt::format("{}", fmt::join(ids, " ")), fmt::format("{}", fmt::join(logprobs, " "))});
  }
}

void Print(const v1::ScoreResponse& response, const std::vector<std::string>& continuations,
           const Session& session) {
  const Console& console = session.console;
  std::vector<std::vector<std::string>> rows = {{"logprob", "tokens", "a token", "continuation"}};
  for (int i = 0; i < response.scores_size(); ++i) {
    const v1::ContinuationScore& score = response.scores(i);
    rows.push_back({fmt::format("{:.4f}", score.logprob()), std::to_string(score.num_tokens()),
                    fmt::format("{:.4f}", score.logprob() / score.num_tokens()),
                    Quote(continuations[static_cast<size_t>(i)])});
    for (const v1::TokenLogprob& token : score.tokens()) {
      rows.push_back(
          {"", "", fmt::format("{:.4f}", token.logprob()), fmt::format("  id {}", token.id())});
    }
  }
  console.out << FormatTable(rows, session.output.style());
  console.out.flush();
  PrintNote(session, fmt::format("{} prompt tokens, {} in all", response.usage().prompt_tokens(),
                                 FormatDuration(response.timing().total())));
}

absl::Status RunScore(const Session& session, const ScoreOptions& options) {
  const auto lines = OpenLines(options.continuations, "", session.console);
  if (!lines.ok()) return lines.status();
  std::vector<std::string> continuations = options.continuations;
  if (*lines != nullptr) {
    auto read = ReadAllLines(**lines);
    if (!read.ok()) return read.status();
    continuations = *std::move(read);
  }
  auto request = MakeRequest(options, continuations);
  if (!request.ok()) return request.status();
  request->set_model(options.model);
  if (options.model.empty()) {
    auto model = DefaultModel(session, v1::TASK_GENERATE, Input::kText);
    if (!model.ok()) return model.status();
    request->set_model(*model);
  }
  const auto response = session.client.Score(*request, session.options.call());
  if (!response.ok()) return response.status();
  session.output.Answer(
      *response, [&] { Print(*response, continuations, session); },
      [&] { PrintRows(*response, continuations, session.output); });
  return absl::OkStatus();
}

}  // namespace

void AddScoreCommand(CLI::App& app, Command& chosen) {
  auto options = std::make_shared<ScoreOptions>();
  CLI::App* command = app.add_subcommand("score", "how likely continuations of a text are");
  command->add_option("prompt", options->prompt, "what comes before; of a translator: the source")
      ->required();
  command->add_option("continuation", options->continuations,
                      "continuations; without any, or '-': the lines of standard input");
  command->add_option("--model", options->model, "name of a model; see 'beamline models'")
      ->type_name(std::string(kModelValue));
  command->add_option("--source-language", options->source_language, "of the prompt")
      ->type_name("NAME");
  command->add_option("--target-language", options->target_language, "of the continuations")
      ->type_name("NAME");
  command->add_flag("--ids", options->ids, "prompt and continuations are token ids");
  command->add_flag("--per-token", options->per_token, "shows each token");
  command->footer(
      "Logarithms are natural; 0 is certain.\n\n"
      "Examples:\n"
      "  beamline score --model write-en \"Package: vim\" \" editor\" \" elephants\"\n"
      "  beamline score --model translate-en-de --per-token \"Good day.\" \"Guten Tag.\"\n");
  command->callback([&chosen, options] {
    chosen = [options](const Session& session) { return RunScore(session, *options); };
  });
}

}  // namespace beamline::cli

// `beamline generate` and `beamline translate`: the same RPCs with different default models.
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "client/cli/chat_file.h"
#include "client/cli/cli.h"
#include "client/cli/format.h"
#include "client/cli/generate_options.h"
#include "client/cli/lines.h"
#include "client/cli/ordered_answers.h"
#include "fmt/format.h"
#include "fmt/ostream.h"
#include "fmt/ranges.h"

namespace beamline::cli {
namespace {

std::string LogprobLine(const v1::PositionLogprobs& position) {
  std::string line =
      fmt::format("  {:>6} {:9.4f}", position.chosen().id(), position.chosen().logprob());
  for (const v1::TokenLogprob& token : position.top()) {
    line += fmt::format("  {}:{:.4f}", token.id(), token.logprob());
  }
  return line + "\n";
}

template <typename Sequences>
std::vector<v1::FinishReason> FinishReasons(const Sequences& sequences) {
  std::vector<v1::FinishReason> reasons;
  for (const auto& sequence : sequences) reasons.push_back(sequence.finish_reason());
  return reasons;
}

void PrintSequences(const v1::GenerateResponse& response, const Console& console) {
  for (const auto& position : response.prompt_logprobs()) console.out << LogprobLine(position);
  int index = 0;
  for (const v1::Sequence& sequence : response.sequences()) {
    if (response.sequences_size() > 1) {
      fmt::print(console.out, "[{}] score {:.4f}\n", ++index, sequence.score());
    }
    fmt::print(console.out, "{}\n", sequence.text());
    for (const auto& position : sequence.logprobs()) console.out << LogprobLine(position);
  }
  console.out.flush();
}

// One row per sequence.
constexpr std::string_view kSequenceColumns[] = {
    "input",         "sequence", "text",          "score",         "finish_reason",
    "ids",           "logprobs", "prompt_tokens", "cached_tokens", "generated_tokens",
    "first_token_s", "total_s",  "error"};

// Nine significant digits.
std::string SecondsText(const google::protobuf::Duration& duration) {
  return fmt::format("{:.9g}", Seconds(duration));
}

void PrintRows(size_t number, const v1::GenerateResponse& response, Output& output) {
  const v1::Usage& usage = response.usage();
  const v1::Timing& timing = response.timing();
  int index = 0;
  for (const v1::Sequence& sequence : response.sequences()) {
    std::vector<float> logprobs;
    for (const auto& position : sequence.logprobs()) {
      logprobs.push_back(position.chosen().logprob());
    }
    output.CsvRow(
        kSequenceColumns,
        std::vector<std::string>{
            fmt::to_string(number), fmt::to_string(++index), sequence.text(),
            fmt::to_string(sequence.score()), FormatFinish(sequence.finish_reason()),
            fmt::format("{}", fmt::join(sequence.ids(), " ")),
            fmt::format("{}", fmt::join(logprobs, " ")), fmt::to_string(usage.prompt_tokens()),
            fmt::to_string(usage.cached_tokens()), fmt::to_string(usage.generated_tokens()),
            timing.has_first_token() ? SecondsText(timing.first_token()) : "",
            SecondsText(timing.total()), ""});
  }
}

// Refuses options whose output CSV cannot show.
absl::Status CheckOutput(const GenerateOptions& options, const Output& output) {
  if (!output.is_csv()) return absl::OkStatus();
  for (const auto& [name, is_given] :
       {std::pair("--stream", options.stream.value_or(false)),
        std::pair("--prompt-logprobs", options.prompt_logprobs.has_value())}) {
    if (is_given) return UsageError(fmt::format("{} goes with --output table or json", name));
  }
  return absl::OkStatus();
}

// "(17 prompt + 19 generated tokens, ...)" on standard error.
template <typename Answer>
void PrintSummary(const Answer& answer, const Session& session) {
  PrintNote(session,
            SummaryLine(answer.usage(), answer.timing(), FinishReasons(answer.sequences())));
}

absl::Status RunUnary(const Session& session, size_t number, const v1::GenerateRequest& request) {
  const auto response = session.client.Generate(request, session.options.call());
  if (!response.ok()) return response.status();
  session.output.Answer(
      *response,
      [&] {
        PrintSequences(*response, session.console);
        PrintSummary(*response, session);
      },
      [&] { PrintRows(number, *response, session.output); });
  return absl::OkStatus();
}

// If an error follows, the text printed so far stays, without a line end.
absl::Status RunStream(const Session& session, const v1::GenerateRequest& request) {
  const Console& console = session.console;
  const auto on_message = [&](const v1::GenerateStreamResponse& message) {
    if (session.output.is_json()) {
      session.output.Json(message);
    } else {
      for (const v1::SequenceDelta& delta : message.deltas()) console.out << delta.text();
    }
    console.out.flush();
    return console.out.good();
  };
  const auto end = session.client.GenerateStream(request, on_message, session.options.call());
  if (!end.ok()) return end.status();
  if (session.output.is_table()) {
    console.out << std::endl;
    PrintSummary(*end, session);
  }
  return absl::OkStatus();
}

// Sends all lines over one stream as they arrive.
absl::Status RunMany(const Session& session, const GenerateOptions& options, LineSource& lines) {
  int64_t generated_tokens = 0;
  OrderedAnswers<v1::GenerateResponse, v1::GenerateManyResponse> answers(
      session, {[&](const v1::GenerateResponse& response) {
                  generated_tokens += response.usage().generated_tokens();
                  PrintSequences(response, session.console);
                },
                kSequenceColumns,
                [&](size_t number, const v1::GenerateResponse& response) {
                  PrintRows(number, response, session.output);
                }});
  const absl::Status status = AnswerLines<v1::GenerateRequest>(
      session, lines, answers, [&](const std::string& line) { return MakeRequest(options, line); },
      [&](const auto& source, const auto& on_answer) {
        return session.client.GenerateMany(source, on_answer, session.options.call());
      });
  if (status.ok() && session.output.is_table()) {
    PrintNote(session, fmt::format("{} answers, {} generated tokens", answers.num_printed(),
                                   generated_tokens));
  }
  return status;
}

absl::Status RunOne(const Session& session, const GenerateOptions& options, bool stream,
                    size_t number, const std::string& text) {
  const auto request = MakeRequest(options, text);
  if (!request.ok()) return request.status();
  return stream ? RunStream(session, *request) : RunUnary(session, number, *request);
}

absl::Status RunGenerate(const Session& session, GenerateOptions options, v1::Task task) {
  if (absl::Status status = CheckOutput(options, session.output); !status.ok()) return status;
  if (!options.chat_file.empty()) {
    if (!options.texts.empty() || !options.file.empty() || options.ids) {
      return UsageError("--chat goes without texts, --file and --ids");
    }
    auto chat = ReadChatFile(options.chat_file);
    if (!chat.ok()) return chat.status();
    options.chat = *std::move(chat);
    options.texts = {""};  // one request, whose prompt is the conversation
  }
  const auto lines = OpenLines(options.texts, options.file, session.console);
  if (!lines.ok()) return lines.status();
  // Wrong options fail once, before any line is read.
  if (const auto request = MakeRequest(options, ""); !request.ok()) return request.status();
  if (options.model.empty()) {
    auto model =
        DefaultModel(session, task, options.chat_file.empty() ? Input::kText : Input::kChat);
    if (!model.ok()) return model.status();
    options.model = *std::move(model);
  }
  // A text stream cannot show several sequences or logprobs.
  const bool plain_text = !options.num_sequences.has_value() && !options.logprobs.has_value() &&
                          !options.prompt_logprobs.has_value();
  const bool stream = options.stream.value_or(session.console.out_is_terminal && plain_text &&
                                              session.output.is_table() && options.file.empty());
  if (*lines != nullptr && !stream) return RunMany(session, options, **lines);
  size_t number = 0;
  const auto run = [&](const std::string& text) {
    return RunOne(session, options, stream, ++number, text);
  };
  if (*lines != nullptr) return ForEachLine(session, **lines, kSequenceColumns, run);
  for (const std::string& text : options.texts) {
    absl::Status status = run(text);
    if (!status.ok() && stream && session.output.is_table()) {
      fmt::print(session.console.out, "\n");
    }
    if (!status.ok()) return status;
  }
  return absl::OkStatus();
}

constexpr char kGenerateExamples[] =
    "Examples:\n"
    "  beamline generate --model write-en --max-new-tokens 20 \"This package contains\"\n"
    "  beamline generate --model write-en --temperature 0.8 --seed 7 --n 2 \"Package: \"\n"
    "  beamline generate --model write-en --file prompts.txt --output csv > answers.csv\n";
constexpr char kTranslateExamples[] =
    "Examples:\n"
    "  beamline translate \"The package was not found.\"\n"
    "  beamline translate --beam 4 --n 3 \"A small, fast and secure web browser.\"\n"
    "  beamline translate - < prompts.txt\n";

void AddCommand(CLI::App& app, Command& chosen, const char* name, const char* help,
                const char* examples, v1::Task task) {
  auto options = std::make_shared<GenerateOptions>();
  CLI::App* command = app.add_subcommand(name, help);
  AddGenerateOptions(*command, *options);
  command->footer(examples);
  command->callback([&chosen, options, task] {
    chosen = [options, task](const Session& session) {
      return RunGenerate(session, *options, task);
    };
  });
}

}  // namespace

void AddGenerateCommands(CLI::App& app, Command& chosen) {
  AddCommand(app, chosen, "generate", "continues a text", kGenerateExamples, v1::TASK_GENERATE);
  AddCommand(app, chosen, "translate", "rewrites a text with the encoder-decoder model",
             kTranslateExamples, v1::TASK_TRANSLATE);
}

}  // namespace beamline::cli

// `beamline generate` and `beamline translate`: the same RPCs, another default model.
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "client/cli/cli.h"
#include "client/cli/format.h"
#include "client/cli/generate_options.h"
#include "client/cli/lines.h"
#include "client/cli/ordered_answers.h"
#include "fmt/format.h"
#include "fmt/ostream.h"

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

void Print(const v1::GenerateResponse& response, const Console& console) {
  PrintSequences(response, console);
  fmt::print(console.err, "({})\n",
             SummaryLine(response.usage(), response.timing(), FinishReasons(response.sequences())));
}

absl::Status RunUnary(const Session& session, const v1::GenerateRequest& request) {
  const auto response = session.client.Generate(request, session.options.call());
  if (!response.ok()) return response.status();
  if (session.options.json) {
    fmt::print(session.console.out, "{}\n", ToJson(*response));
  } else {
    Print(*response, session.console);
  }
  return absl::OkStatus();
}

// Text that came before an error is left as it is, without the end of its line.
absl::Status RunStream(const Session& session, const v1::GenerateRequest& request) {
  const Console& console = session.console;
  const auto on_message = [&](const v1::GenerateStreamResponse& message) {
    if (session.options.json) {
      fmt::print(console.out, "{}\n", ToJson(message));
    } else {
      for (const v1::SequenceDelta& delta : message.deltas()) console.out << delta.text();
    }
    console.out.flush();
    return console.out.good();
  };
  const auto end = session.client.GenerateStream(request, on_message, session.options.call());
  if (!end.ok()) return end.status();
  if (!session.options.json) {
    console.out << std::endl;
    fmt::print(console.err, "({})\n",
               SummaryLine(end->usage(), end->timing(), FinishReasons(end->sequences())));
  }
  return absl::OkStatus();
}

// All lines over one stream, as they come.
absl::Status RunMany(const Session& session, const GenerateOptions& options, LineSource& lines) {
  int64_t generated_tokens = 0;
  OrderedAnswers<v1::GenerateResponse, v1::GenerateManyResponse> answers(
      session, [&](const v1::GenerateResponse& response) {
        generated_tokens += response.usage().generated_tokens();
        PrintSequences(response, session.console);
      });
  const absl::Status status = AnswerLines<v1::GenerateRequest>(
      session, lines, answers, [&](const std::string& line) { return MakeRequest(options, line); },
      [&](const auto& source, const auto& on_answer) {
        return session.client.GenerateMany(source, on_answer, session.options.call());
      });
  if (status.ok() && !session.options.json) {
    fmt::print(session.console.err, "({} answers, {} generated tokens)\n", answers.num_printed(),
               generated_tokens);
  }
  return status;
}

absl::Status RunOne(const Session& session, const GenerateOptions& options, bool stream,
                    const std::string& text) {
  const auto request = MakeRequest(options, text);
  if (!request.ok()) return request.status();
  return stream ? RunStream(session, *request) : RunUnary(session, *request);
}

absl::Status RunGenerate(const Session& session, GenerateOptions options, v1::Task task) {
  const auto lines = OpenLines(options.texts, options.file, session.console);
  if (!lines.ok()) return lines.status();
  // What is wrong with the options is wrong for every text.
  if (const auto request = MakeRequest(options, ""); !request.ok()) return request.status();
  if (options.model.empty()) {
    auto model = DefaultModel(session, task);
    if (!model.ok()) return model.status();
    options.model = *std::move(model);
  }
  // Several sequences, or logprobs, cannot be told apart in a stream of text.
  const bool plain_text = !options.num_sequences.has_value() && !options.logprobs.has_value() &&
                          !options.prompt_logprobs.has_value();
  const bool stream = options.stream.value_or(session.console.out_is_terminal && plain_text &&
                                              !session.options.json && options.file.empty());
  if (*lines != nullptr && !stream) return RunMany(session, options, **lines);
  const auto run = [&](const std::string& text) { return RunOne(session, options, stream, text); };
  if (*lines != nullptr) return ForEachLine(session, **lines, run);
  for (const std::string& text : options.texts) {
    absl::Status status = run(text);
    if (!status.ok() && stream) fmt::print(session.console.out, "\n");
    if (!status.ok()) return status;
  }
  return absl::OkStatus();
}

void AddCommand(CLI::App& app, Command& chosen, const char* name, const char* help, v1::Task task) {
  auto options = std::make_shared<GenerateOptions>();
  CLI::App* command = app.add_subcommand(name, help);
  AddGenerateOptions(*command, *options);
  command->callback([&chosen, options, task] {
    chosen = [options, task](const Session& session) {
      return RunGenerate(session, *options, task);
    };
  });
}

}  // namespace

void AddGenerateCommands(CLI::App& app, Command& chosen) {
  AddCommand(app, chosen, "generate", "continues a text", v1::TASK_GENERATE);
  AddCommand(app, chosen, "translate", "rewrites a text with the encoder-decoder model",
             v1::TASK_TRANSLATE);
}

}  // namespace beamline::cli

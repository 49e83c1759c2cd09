// `beamline encode`: embeddings of texts and their similarities.
#include <algorithm>
#include <cctype>
#include <cmath>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/command_line.h"
#include "base/command_tree.h"
#include "base/text.h"
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

constexpr int kShownValues = 6;
constexpr size_t kShownTextBytes = 40;

struct EncodeOptions {
  std::vector<std::string> texts;
  std::string file;  // a file of texts, one per line, sent over one stream
  std::string model;
  std::string pooling;
  std::string truncate;
  std::string prompt_name;
  std::optional<int32_t> dimensions;
  std::optional<bool> normalize;
};

void AddOptions(CLI::App& command, EncodeOptions& o) {
  command.add_option("text", o.texts, "texts; without any, or '-': the lines of standard input");
  AddPath(
      command, "--file", o.file,
      "texts of a file, one a line, in one stream; answers in their order; '-': standard input");
  command.add_option("--model", o.model, "name of a model; see 'beamline models'")
      ->type_name(std::string(kModelValue));
  command.add_option("--pooling", o.pooling, "default: the model's own")
      ->check(CLI::IsMember({"model", "mean", "cls", "last", "none"}));
  command.add_option("--truncate", o.truncate, "side that loses what is too long; default: error")
      ->check(CLI::IsMember({"none", "right", "left"}));
  AddNumber(command, "--dimensions", o.dimensions, "only the first N");
  AddSwitch(command, "--normalize,!--no-normalize", o.normalize, "default: the model's own");
  command.add_option("--prompt-name", o.prompt_name, "one of the model's prompts")
      ->type_name("NAME");
}

std::string Upper(std::string text) {
  std::transform(text.begin(), text.end(), text.begin(),
                 [](unsigned char c) { return static_cast<char>(std::toupper(c)); });
  return text;
}

v1::EncodeRequest MakeRequest(const EncodeOptions& o, const std::vector<std::string>& texts) {
  v1::EncodeRequest request;
  request.set_model(o.model);
  for (const std::string& text : texts) request.add_inputs()->set_text(text);
  v1::Pooling pooling = v1::POOLING_MODEL;
  if (!o.pooling.empty()) v1::Pooling_Parse("POOLING_" + Upper(o.pooling), &pooling);
  request.set_pooling(pooling);
  v1::Truncation truncate = v1::TRUNCATION_NONE;
  if (!o.truncate.empty()) v1::Truncation_Parse("TRUNCATION_" + Upper(o.truncate), &truncate);
  request.set_truncate(truncate);
  if (o.dimensions) request.set_dimensions(*o.dimensions);
  if (o.normalize) request.set_normalize(*o.normalize);
  request.set_prompt_name(o.prompt_name);
  return request;
}

// Cosine similarity; 0 if a vector is zero.
double Similarity(std::span<const float> a, std::span<const float> b) {
  double dot = 0, a_squared = 0, b_squared = 0;
  for (size_t i = 0; i < std::min(a.size(), b.size()); ++i) {
    dot += double{a[i]} * b[i];
    a_squared += double{a[i]} * a[i];
    b_squared += double{b[i]} * b[i];
  }
  const double norms = std::sqrt(a_squared * b_squared);
  return norms > 0 ? dot / norms : 0;
}

std::string FirstValues(const v1::Embedding& embedding) {
  std::string values;
  for (int i = 0; i < std::min(kShownValues, embedding.values_size()); ++i) {
    values += fmt::format("{:8.4f}", embedding.values(i));
  }
  return values + (embedding.values_size() > kShownValues ? " ..." : "");
}

// One row per vector.
constexpr std::string_view kVectorColumns[] = {"input",      "vector", "tokens",
                                               "dimensions", "values", "error"};

void PrintRows(size_t number, const v1::EncodeResponse& response, Output& output) {
  for (const v1::Embedding& embedding : response.embeddings()) {
    const std::span<const float> values(embedding.values().data(),
                                        static_cast<size_t>(embedding.values_size()));
    const auto dimensions = static_cast<size_t>(embedding.dimensions());
    for (int i = 0; i < embedding.num_vectors(); ++i) {
      const auto vector = values.subspan(static_cast<size_t>(i) * dimensions, dimensions);
      output.CsvRow(kVectorColumns,
                    std::vector<std::string>{fmt::to_string(number), fmt::to_string(i + 1),
                                             fmt::to_string(embedding.num_tokens()),
                                             fmt::to_string(dimensions),
                                             fmt::format("{}", fmt::join(vector, " ")), ""});
    }
    ++number;
  }
}

void Print(const v1::EncodeResponse& response, const std::vector<std::string>& texts,
           const Session& session) {
  const Console& console = session.console;
  const Style& style = session.output.style();
  std::vector<std::vector<std::string>> rows = {
      {"", "text", "tokens", "vectors", "dimensions", "first values"}};
  std::vector<std::span<const float>> vectors;
  bool one_each = true;
  for (int i = 0; i < response.embeddings_size(); ++i) {
    const v1::Embedding& embedding = response.embeddings(i);
    rows.push_back({std::to_string(i + 1), Shorten(texts[static_cast<size_t>(i)], kShownTextBytes),
                    std::to_string(embedding.num_tokens()), std::to_string(embedding.num_vectors()),
                    std::to_string(embedding.dimensions()), FirstValues(embedding)});
    vectors.emplace_back(embedding.values().data(), embedding.values().size());
    one_each = one_each && embedding.num_vectors() == 1;
  }
  console.out << FormatTable(rows, style);
  if (one_each && vectors.size() > 1) {
    rows = {{"similarity"}};
    for (size_t i = 0; i < vectors.size(); ++i) {
      rows[0].push_back(std::to_string(i + 1));
      rows.push_back({std::to_string(i + 1)});
      for (const auto& other : vectors) {
        rows.back().push_back(fmt::format("{:.4f}", Similarity(vectors[i], other)));
      }
    }
    console.out << "\n" << FormatTable(rows, style);
  }
  console.out.flush();
  PrintNote(session, fmt::format("{} tokens, {} in all", response.usage().prompt_tokens(),
                                 FormatDuration(response.timing().total())));
}

// Sends one request per line and prints one line per answer.
absl::Status RunMany(const Session& session, const EncodeOptions& options, LineSource& lines) {
  OrderedAnswers<v1::EncodeResponse, v1::EncodeManyResponse> answers(
      session, {[&session](const v1::EncodeResponse& response) {
                  if (response.embeddings_size() == 0) return;
                  const v1::Embedding& embedding = response.embeddings(0);
                  fmt::print(session.console.out, "{:>5} tokens {:>5} dimensions {}\n",
                             embedding.num_tokens(), embedding.dimensions(),
                             FirstValues(embedding));
                },
                kVectorColumns,
                [&session](size_t number, const v1::EncodeResponse& response) {
                  PrintRows(number, response, session.output);
                }});
  return AnswerLines<v1::EncodeRequest>(
      session, lines, answers,
      [&](const std::string& line) -> absl::StatusOr<v1::EncodeRequest> {
        if (absl::Status status = CheckText(line); !status.ok()) return status;
        return MakeRequest(options, {line});
      },
      [&](const auto& source, const auto& on_answer) {
        return session.client.EncodeMany(source, on_answer, session.options.call());
      });
}

absl::Status RunEncode(const Session& session, const EncodeOptions& options) {
  const auto lines = OpenLines(options.texts, options.file, session.console);
  if (!lines.ok()) return lines.status();
  if (*lines != nullptr) return RunMany(session, options, **lines);
  const auto response =
      session.client.Encode(MakeRequest(options, options.texts), session.options.call());
  if (!response.ok()) return response.status();
  session.output.Answer(
      *response, [&] { Print(*response, options.texts, session); },
      [&] { PrintRows(1, *response, session.output); });
  return absl::OkStatus();
}

}  // namespace

void AddEncodeCommand(CLI::App& app, Command& chosen) {
  auto options = std::make_shared<EncodeOptions>();
  CLI::App* command = app.add_subcommand("encode", "embeds texts, and compares them");
  AddOptions(*command, *options);
  command->footer(
      "Examples:\n"
      "  beamline encode \"edit photos\" \"an image manipulation program\" \"a mail server\"\n"
      "  beamline encode --file prompts.txt --dimensions 64 --output csv\n");
  command->callback([&chosen, options] {
    chosen = [options](const Session& session) { return RunEncode(session, *options); };
  });
}

}  // namespace beamline::cli

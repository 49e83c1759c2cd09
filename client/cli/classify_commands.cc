// `beamline classify`, `beamline rerank` and `beamline classify-tokens`: scores of a classifier's
// classes, of documents, and of tokens' classes.
#include <algorithm>
#include <cctype>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/command_line.h"
#include "base/command_tree.h"
#include "base/text.h"
#include "client/cli/cli.h"
#include "client/cli/format.h"
#include "client/cli/generate_options.h"
#include "client/cli/lines.h"
#include "fmt/format.h"

namespace beamline::cli {
namespace {

constexpr size_t kTextWidth = 60;

struct ClassifyOptions {
  std::string query;               // rerank only
  std::vector<std::string> texts;  // for rerank the documents
  std::string model;
  std::string function;
  std::string truncate;
  std::optional<int32_t> top;
  bool pairs = false;
};

void AddOptions(CLI::App& command, const char* top_help, ClassifyOptions& o) {
  command.add_option("--model", o.model, "name of a model; see 'beamline models'")
      ->type_name(std::string(kModelValue));
  command.add_option("--function", o.function, "of the model's logits; default: the model's own")
      ->check(CLI::IsMember({"model", "none", "sigmoid", "softmax"}));
  AddNumber(command, "--top", o.top, top_help);
  command.add_option("--truncate", o.truncate, "side that loses what is too long; default: error")
      ->check(CLI::IsMember({"none", "right", "left"}));
}

std::string UpperCase(std::string text) {
  std::ranges::transform(text, text.begin(),
                         [](unsigned char c) { return static_cast<char>(std::toupper(c)); });
  return text;
}

// Sets the fields that both requests have.
template <typename Request>
void SetCommon(const ClassifyOptions& o, Request& request) {
  request.set_model(o.model);
  v1::ScoreFunction function = v1::SCORE_FUNCTION_MODEL;
  if (!o.function.empty()) {
    v1::ScoreFunction_Parse("SCORE_FUNCTION_" + UpperCase(o.function), &function);
  }
  request.set_function(function);
  v1::Truncation truncate = v1::TRUNCATION_NONE;
  if (!o.truncate.empty()) v1::Truncation_Parse("TRUNCATION_" + UpperCase(o.truncate), &truncate);
  request.set_truncate(truncate);
  if (o.top) request.set_top(*o.top);
}

// The texts of the command line, or the lines of standard input.
absl::StatusOr<std::vector<std::string>> Texts(const Session& session,
                                               const std::vector<std::string>& texts) {
  const auto lines = OpenLines(texts, "", session.console);
  if (!lines.ok()) return lines.status();
  if (*lines == nullptr) return texts;
  auto read = ReadAllLines(**lines);
  if (!read.ok()) return read.status();
  for (const std::string& line : *read) {
    if (absl::Status status = CheckText(line); !status.ok()) return status;
  }
  return read;
}

absl::StatusOr<v1::ClassifyRequest> MakeRequest(const ClassifyOptions& o,
                                                const std::vector<std::string>& texts) {
  v1::ClassifyRequest request;
  SetCommon(o, request);
  if (o.pairs && texts.size() % 2 != 0) {
    return UsageError(fmt::format("--pairs takes texts two by two; there are {}", texts.size()));
  }
  for (size_t i = 0; i < texts.size(); i += o.pairs ? 2 : 1) {
    v1::ClassifyInput& input = *request.add_inputs();
    if (!o.pairs) {
      input.set_text(texts[i]);
      continue;
    }
    input.mutable_pair()->set_first(texts[i]);
    input.mutable_pair()->set_second(texts[i + 1]);
  }
  return request;
}

std::string Shown(const v1::ClassifyInput& input) {
  if (!input.has_pair()) return Shorten(input.text(), kTextWidth);
  return fmt::format("{} | {}", Shorten(input.pair().first(), kTextWidth / 2),
                     Shorten(input.pair().second(), kTextWidth / 2));
}

template <typename Response>
void PrintTotals(const Session& session, const Response& response) {
  session.console.out.flush();
  PrintNote(session, fmt::format("{} tokens, {} in all", response.usage().prompt_tokens(),
                                 FormatDuration(response.timing().total())));
}

constexpr std::string_view kClassColumns[] = {"input", "tokens", "label", "score"};

void PrintClassRows(const v1::ClassifyResponse& response, Output& output) {
  for (int i = 0; i < response.classifications_size(); ++i) {
    const v1::Classification& of = response.classifications(i);
    for (const v1::ClassScore& one : of.classes()) {
      output.CsvRow(kClassColumns,
                    std::vector<std::string>{fmt::to_string(i + 1), fmt::to_string(of.num_tokens()),
                                             one.label(), fmt::to_string(one.score())});
    }
  }
}

void PrintClasses(const v1::ClassifyRequest& request, const v1::ClassifyResponse& response,
                  const Session& session) {
  std::vector<std::vector<std::string>> rows = {{"", "score", "label", "text"}};
  for (int i = 0; i < response.classifications_size(); ++i) {
    std::string text = Shown(request.inputs(i));
    std::string number = fmt::to_string(i + 1);
    for (const v1::ClassScore& one : response.classifications(i).classes()) {
      rows.push_back({std::exchange(number, ""), fmt::format("{:.4f}", one.score()), one.label(),
                      std::exchange(text, "")});
    }
  }
  session.console.out << FormatTable(rows, session.output.style());
  PrintTotals(session, response);
}

absl::Status RunClassify(const Session& session, const ClassifyOptions& options) {
  const auto texts = Texts(session, options.texts);
  if (!texts.ok()) return texts.status();
  const auto request = MakeRequest(options, *texts);
  if (!request.ok()) return request.status();
  const auto response = session.client.Classify(*request, session.options.call());
  if (!response.ok()) return response.status();
  session.output.Answer(
      *response, [&] { PrintClasses(*request, *response, session); },
      [&] { PrintClassRows(*response, session.output); });
  return absl::OkStatus();
}

constexpr std::string_view kDocumentColumns[] = {"document", "score", "tokens", "text"};

void PrintDocumentRows(const v1::RerankRequest& request, const v1::RerankResponse& response,
                       Output& output) {
  for (const v1::RankedDocument& document : response.documents()) {
    output.CsvRow(kDocumentColumns, std::vector<std::string>{fmt::to_string(document.index() + 1),
                                                             fmt::to_string(document.score()),
                                                             fmt::to_string(document.num_tokens()),
                                                             request.documents(document.index())});
  }
}

void PrintDocuments(const v1::RerankRequest& request, const v1::RerankResponse& response,
                    const Session& session) {
  std::vector<std::vector<std::string>> rows = {{"score", "document", "tokens", "text"}};
  for (const v1::RankedDocument& document : response.documents()) {
    rows.push_back({fmt::format("{:.4f}", document.score()), fmt::to_string(document.index() + 1),
                    fmt::to_string(document.num_tokens()),
                    Shorten(request.documents(document.index()), kTextWidth)});
  }
  session.console.out << FormatTable(rows, session.output.style());
  PrintTotals(session, response);
}

absl::Status RunRerank(const Session& session, const ClassifyOptions& options) {
  const auto documents = Texts(session, options.texts);
  if (!documents.ok()) return documents.status();
  v1::RerankRequest request;
  SetCommon(options, request);
  request.set_query(options.query);
  for (const std::string& document : *documents) request.add_documents(document);
  const auto response = session.client.Rerank(request, session.options.call());
  if (!response.ok()) return response.status();
  for (const v1::RankedDocument& document : response->documents()) {
    if (document.index() >= 0 && document.index() < request.documents_size()) continue;
    return absl::InternalError(fmt::format("the answer ranks document {}, of {}", document.index(),
                                           request.documents_size()));
  }
  session.output.Answer(
      *response, [&] { PrintDocuments(request, *response, session); },
      [&] { PrintDocumentRows(request, *response, session.output); });
  return absl::OkStatus();
}

struct TokenOptions {
  std::vector<std::string> texts;
  std::string model;
  std::string aggregation;
  std::string truncate;
  std::vector<std::string> ignored;
  std::optional<int32_t> top;
  bool all = false;
};

v1::ClassifyTokensRequest MakeTokenRequest(const TokenOptions& o,
                                           const std::vector<std::string>& texts) {
  v1::ClassifyTokensRequest request;
  request.set_model(o.model);
  for (const std::string& text : texts) request.add_inputs(text);
  v1::Aggregation aggregation = v1::AGGREGATION_NONE;
  if (!o.aggregation.empty()) {
    v1::Aggregation_Parse("AGGREGATION_" + UpperCase(o.aggregation), &aggregation);
  }
  request.set_aggregation(aggregation);
  if (o.all || !o.ignored.empty()) request.mutable_ignore_labels();
  for (const std::string& label : o.ignored) request.mutable_ignore_labels()->add_labels(label);
  if (o.top) request.set_top(*o.top);
  v1::Truncation truncate = v1::TRUNCATION_NONE;
  if (!o.truncate.empty()) v1::Truncation_Parse("TRUNCATION_" + UpperCase(o.truncate), &truncate);
  request.set_truncate(truncate);
  return request;
}

// A class of a token, or an entity.
struct TokenRow {
  int input = 0;
  std::string label;
  float score = 0;
  int32_t begin = 0, end = 0;
  std::string text;
};

std::vector<TokenRow> TokenRows(const v1::ClassifyTokensResponse& response) {
  std::vector<TokenRow> rows;
  for (int i = 0; i < response.classifications_size(); ++i) {
    const v1::TokenClassification& of = response.classifications(i);
    for (const v1::ClassifiedToken& token : of.tokens()) {
      for (const v1::ClassScore& one : token.classes()) {
        rows.push_back({i, one.label(), one.score(), token.begin(), token.end(), token.piece()});
      }
    }
    for (const v1::Entity& entity : of.entities()) {
      rows.push_back(
          {i, entity.label(), entity.score(), entity.begin(), entity.end(), entity.text()});
    }
  }
  return rows;
}

constexpr std::string_view kTokenClassColumns[] = {"input", "begin", "end",
                                                   "label", "score", "text"};

void PrintTokens(const v1::ClassifyTokensResponse& response, const Session& session) {
  std::vector<std::vector<std::string>> rows = {{"", "bytes", "score", "label", "text"}};
  for (const TokenRow& row : TokenRows(response)) {
    rows.push_back({fmt::to_string(row.input + 1), fmt::format("{}..{}", row.begin, row.end),
                    fmt::format("{:.4f}", row.score), row.label, Shorten(row.text, kTextWidth)});
  }
  session.console.out << FormatTable(rows, session.output.style());
  PrintTotals(session, response);
}

void PrintTokenRows(const v1::ClassifyTokensResponse& response, Output& output) {
  for (const TokenRow& row : TokenRows(response)) {
    output.CsvRow(kTokenClassColumns,
                  std::vector<std::string>{fmt::to_string(row.input + 1), fmt::to_string(row.begin),
                                           fmt::to_string(row.end), row.label,
                                           fmt::to_string(row.score), row.text});
  }
}

absl::Status RunClassifyTokens(const Session& session, const TokenOptions& options) {
  const auto texts = Texts(session, options.texts);
  if (!texts.ok()) return texts.status();
  const auto response =
      session.client.ClassifyTokens(MakeTokenRequest(options, *texts), session.options.call());
  if (!response.ok()) return response.status();
  session.output.Answer(
      *response, [&] { PrintTokens(*response, session); },
      [&] { PrintTokenRows(*response, session.output); });
  return absl::OkStatus();
}

void AddClassify(CLI::App& app, Command& chosen) {
  auto options = std::make_shared<ClassifyOptions>();
  CLI::App* command = app.add_subcommand("classify", "scores the classes of texts");
  command->add_option("text", options->texts,
                      "texts; without any, or '-': the lines of standard input");
  AddOptions(*command, "only the best N classes of each; default: all", *options);
  command->add_flag("--pairs", options->pairs, "each two texts are one input");
  command->footer(
      "Examples:\n"
      "  beamline classify --top 1 \"a wonderful film\" \"two hours that I want back\"\n"
      "  beamline classify --pairs \"A cat sleeps.\" \"An animal rests.\"\n");
  command->callback([&chosen, options] {
    chosen = [options](const Session& session) { return RunClassify(session, *options); };
  });
}

void AddRerank(CLI::App& app, Command& chosen) {
  auto options = std::make_shared<ClassifyOptions>();
  CLI::App* command = app.add_subcommand("rerank", "how well documents answer a query");
  command->add_option("query", options->query, "what they are to answer")->required();
  command->add_option("document", options->texts,
                      "documents; without any, or '-': the lines of standard input");
  AddOptions(*command, "only the best N documents, best first; default: all, in their order",
             *options);
  command->footer(
      "Examples:\n"
      "  beamline rerank --top 3 \"how do I read mail\" \"a mail reader\" \"a web server\"\n"
      "  beamline rerank \"how do I read mail\" < documents.txt\n");
  command->callback([&chosen, options] {
    chosen = [options](const Session& session) { return RunRerank(session, *options); };
  });
}

void AddClassifyTokens(CLI::App& app, Command& chosen) {
  auto options = std::make_shared<TokenOptions>();
  CLI::App* command =
      app.add_subcommand("classify-tokens", "names, places and the like that texts have");
  command->add_option("text", options->texts,
                      "texts; without any, or '-': the lines of standard input");
  command->add_option("--model", options->model, "name of a model; see 'beamline models'")
      ->type_name(std::string(kModelValue));
  command
      ->add_option("--aggregation", options->aggregation,
                   "how tokens become entities; default: none, tokens are shown")
      ->check(CLI::IsMember({"none", "simple", "first", "average", "max"}));
  auto* ignore =
      AddRepeatable(*command, "--ignore-label", options->ignored,
                    "leaves out tokens and entities of this label; repeatable; default O");
  command->add_flag("--all", options->all, "leaves none out")->excludes(ignore);
  AddNumber(*command, "--top", options->top, "the best N classes of each token; default: 1");
  command
      ->add_option("--truncate", options->truncate,
                   "side that loses what is too long; default: error")
      ->check(CLI::IsMember({"none", "right", "left"}));
  command->footer(
      "Examples:\n"
      "  beamline classify-tokens --aggregation simple \"Ada Lovelace lived in London.\"\n"
      "  beamline classify-tokens --all --top 3 < sentences.txt\n");
  command->callback([&chosen, options] {
    chosen = [options](const Session& session) { return RunClassifyTokens(session, *options); };
  });
}

}  // namespace

void AddClassifyCommands(CLI::App& app, Command& chosen) {
  AddClassify(app, chosen);
  AddRerank(app, chosen);
  AddClassifyTokens(app, chosen);
}

}  // namespace beamline::cli

// `beamline models` and `beamline health`.
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "base/command_tree.h"
#include "base/text.h"
#include "client/cli/cli.h"
#include "client/cli/format.h"
#include "fmt/format.h"
#include "fmt/ostream.h"

namespace beamline::cli {
namespace {

// "generate" of TASK_GENERATE.
std::string Lower(const std::string& name, std::string_view prefix) {
  std::string text = name.substr(prefix.size());
  for (char& c : text) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return text;
}

std::string TaskName(v1::Task task) { return Lower(v1::Task_Name(task), "TASK_"); }
std::string TypeName(v1::DataType type) { return Lower(v1::DataType_Name(type), "DATA_TYPE_"); }
std::string StateName(v1::ModelState state) {
  return Lower(v1::ModelState_Name(state), "MODEL_STATE_");
}

std::string PaintedState(v1::ModelState state, const Style& style) {
  const std::string name = StateName(state);
  if (state == v1::MODEL_STATE_READY) return style.Good(name);
  return state == v1::MODEL_STATE_FAILED ? style.Bad(name) : style.Doubtful(name);
}

void PrintList(const v1::ListModelsResponse& response, const Session& session) {
  const Console& console = session.console;
  const Style& style = session.output.style();
  std::vector<std::vector<std::string>> rows = {{"name", "version", "state", "task", "architecture",
                                                 "parameters", "type", "max input", "device"}};
  for (const v1::Model& model : response.models()) {
    std::vector<std::string> row = {model.name(), fmt::to_string(model.version()),
                                    PaintedState(model.state(), style)};
    if (model.replicas_size() > 0) {
      row.insert(row.end(), {TaskName(model.task()), model.architecture(),
                             FormatCount(model.num_parameters()), TypeName(model.data_type()),
                             FormatCount(model.max_input_tokens()), model.replicas(0).device()});
    }
    row.resize(rows[0].size());  // other facts are unknown until it is loaded
    rows.push_back(std::move(row));
  }
  console.out << FormatTable(rows, style);
  for (const v1::Model& model : response.models()) {
    if (model.error().empty()) continue;
    fmt::print(console.out, "{} version {}: {}\n", model.name(), model.version(), model.error());
  }
}

// Prints names and values, all left-aligned, including numbers.
void PrintRows(const std::vector<std::vector<std::string>>& rows, const Session& session) {
  const Style& style = session.output.style();
  for (const auto& cells : rows) {
    fmt::print(session.console.out, "{} {}\n", style.Strong(fmt::format("{:<18}", cells[0])),
               cells[1]);
  }
}

constexpr std::string_view kModelColumns[] = {"name",
                                              "version",
                                              "state",
                                              "task",
                                              "architecture",
                                              "parameters",
                                              "data_type",
                                              "max_input_tokens",
                                              "max_total_tokens",
                                              "embedding_dimensions",
                                              "weights_bytes",
                                              "cache_bytes",
                                              "cache_blocks",
                                              "replicas",
                                              "device",
                                              "error"};

}  // namespace

void PrintModelRow(const v1::Model& model, Output& output) {
  const bool is_known = model.replicas_size() > 0;  // other facts are unknown until it is loaded
  const auto number = [is_known](int64_t value) { return is_known ? fmt::to_string(value) : ""; };
  output.CsvRow(kModelColumns,
                std::vector<std::string>{
                    model.name(), fmt::to_string(model.version()), StateName(model.state()),
                    is_known ? TaskName(model.task()) : "", model.architecture(),
                    number(model.num_parameters()), is_known ? TypeName(model.data_type()) : "",
                    number(model.max_input_tokens()), number(model.max_total_tokens()),
                    number(model.embedding_dimensions()), number(model.memory().weights()),
                    number(model.memory().cache()), number(model.memory().cache_blocks()),
                    fmt::to_string(model.replicas_size()),
                    is_known ? model.replicas(0).device() : "", model.error()});
}

void PrintModel(const v1::Model& model, const Session& session) {
  std::vector<std::vector<std::string>> rows;
  const auto row = [&rows](const char* name, std::string value) {
    rows.push_back({name, std::move(value)});
  };
  row("name", model.name());
  row("version", fmt::to_string(model.version()));
  row("state", PaintedState(model.state(), session.output.style()));
  if (!model.error().empty()) row("error", model.error());
  if (model.replicas_size() == 0) return PrintRows(rows, session);
  row("task", TaskName(model.task()));
  row("architecture", model.architecture());
  row("parameters", FormatCount(model.num_parameters()) + " " + TypeName(model.data_type()));
  row("layers", fmt::format("{} encoder, {} decoder, hidden size {}", model.num_encoder_layers(),
                            model.num_decoder_layers(), model.hidden_size()));
  row("tokenizer", fmt::format("{}, {} ids", model.tokenizer().kind(),
                               FormatCount(model.tokenizer().vocab_size())));
  row("longest input", FormatCount(model.max_input_tokens()) + " tokens");
  if (model.max_total_tokens() > 0) {
    row("decoder positions", FormatCount(model.max_total_tokens()));
  }
  if (model.max_batch_tokens() > 0) {  // older servers do not send it
    row("tokens of a step", FormatCount(model.max_batch_tokens()));
    row("running sequences", FormatCount(model.max_sequences()));
  }
  if (model.embedding_dimensions() > 0) {
    row("embedding", FormatCount(model.embedding_dimensions()) + " dimensions");
  }
  for (const std::string& name : model.prompt_names()) row("prompt name", name);
  for (const std::string& name : model.labels()) row("label", name);
  if (!model.mask_token().empty()) row("mask token", model.mask_token());
  if (model.reranks()) row("reranks", "yes");
  for (const std::string& name : model.languages()) row("language", name);
  for (const std::string& name : model.chat_templates()) row("chat template", name);
  row("weights", FormatBytes(model.memory().weights()));
  if (model.memory().cache_blocks() > 0) {
    row("cache",
        fmt::format("{} in {} blocks of {} tokens", FormatBytes(model.memory().cache()),
                    FormatCount(model.memory().cache_blocks()), model.memory().block_size()));
  }
  for (const v1::Replica& replica : model.replicas()) {
    std::string state;
    if (replica.state() != v1::REPLICA_STATE_UP && replica.state() != 0) {
      state = ", " + Lower(v1::ReplicaState_Name(replica.state()), "REPLICA_STATE_");
    }
    row("replica", fmt::format("{} ({}){}", replica.device(), replica.description(), state));
  }
  PrintRows(rows, session);
}

namespace {

constexpr size_t kMostNameBytes = 256;

absl::Status RunModels(const Session& session, const std::string& name) {
  if (!name.empty()) {
    const auto model = session.client.GetModel(name, session.options.call());
    if (!model.ok()) return model.status();
    session.output.Answer(
        *model, [&] { PrintModel(*model, session); },
        [&] { PrintModelRow(*model, session.output); });
    return absl::OkStatus();
  }
  const auto models = session.client.ListModels(session.options.call());
  if (!models.ok()) return models.status();
  session.output.Answer(
      *models, [&] { PrintList(*models, session); },
      [&] {
        session.output.CsvHeader(kModelColumns);
        for (const v1::Model& model : models->models()) PrintModelRow(model, session.output);
      });
  return absl::OkStatus();
}

// Prints each name once, even with several versions; without draining and failed models.
absl::Status RunNames(const Session& session, const std::string& name) {
  if (!name.empty()) return UsageError("--names goes without a model's name");
  if (!session.output.is_table()) return UsageError("--names goes with --output table");
  const auto models = session.client.ListModels(session.options.call());
  if (!models.ok()) return models.status();
  std::set<std::string> told;
  for (const v1::Model& model : models->models()) {
    const bool is_gone =
        model.state() == v1::MODEL_STATE_DRAINING || model.state() == v1::MODEL_STATE_FAILED;
    if (is_gone || !told.insert(model.name()).second) continue;
    fmt::print(session.console.out, "{}\n", Shorten(model.name(), kMostNameBytes));
  }
  return absl::OkStatus();
}

absl::Status RunHealth(const Session& session, const std::string& model) {
  const auto serving = session.client.Health(model, session.options.call());
  if (!serving.ok()) return serving.status();
  const std::string status = *serving ? "SERVING" : "NOT_SERVING";
  Output& output = session.output;
  if (output.is_json()) {
    fmt::print(session.console.out, "{{\"status\":\"{}\"}}\n", status);
  } else if (output.is_csv()) {
    constexpr std::string_view kHealthColumns[] = {"model", "status"};
    output.CsvRow(kHealthColumns, std::vector<std::string>{model, status});
  } else {
    const Style& style = output.style();
    fmt::print(session.console.out, "{}\n", *serving ? style.Good(status) : style.Bad(status));
  }
  if (*serving) return absl::OkStatus();
  output.NoteTold();
  return absl::UnavailableError("the server is not serving");
}

}  // namespace

void AddModelCommands(CLI::App& app, Command& chosen) {
  auto name = std::make_shared<std::string>();
  CLI::App* command = app.add_subcommand("models", "the server's models, or one in detail");
  command->add_option("name", *name, "a model")->type_name(std::string(kModelValue));
  auto names_alone = std::make_shared<bool>(false);
  command->add_flag("--names", *names_alone, "the models' names alone, a line each");
  command->footer(
      "Examples:\n"
      "  beamline models\n"
      "  beamline models --names\n"
      "  beamline models write-en --output json\n");
  command->callback([&chosen, name, names_alone] {
    chosen = [name, names_alone](const Session& session) {
      return *names_alone ? RunNames(session, *name) : RunModels(session, *name);
    };
  });

  auto service = std::make_shared<std::string>();
  command = app.add_subcommand("health", "whether the server, or a model, can answer");
  command->add_option("model", *service, "a model; without: the server")
      ->type_name(std::string(kModelValue));
  command->footer(
      "Ends with status 0 when it is SERVING, else with 1.\n\n"
      "Examples:\n"
      "  beamline health\n"
      "  beamline --timeout 2 health embed-en\n");
  command->callback([&chosen, service] {
    chosen = [service](const Session& session) { return RunHealth(session, *service); };
  });
}

}  // namespace beamline::cli

// `beamline models` and `beamline health`.
#include <memory>
#include <string>
#include <vector>

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

void PrintList(const v1::ListModelsResponse& response, const Console& console) {
  std::vector<std::vector<std::string>> rows = {{"name", "version", "state", "task", "architecture",
                                                 "parameters", "type", "max input", "device"}};
  for (const v1::Model& model : response.models()) {
    std::vector<std::string> row = {model.name(), fmt::to_string(model.version()),
                                    StateName(model.state())};
    if (model.replicas_size() > 0) {
      row.insert(row.end(), {TaskName(model.task()), model.architecture(),
                             FormatCount(model.num_parameters()), TypeName(model.data_type()),
                             FormatCount(model.max_input_tokens()), model.replicas(0).device()});
    }
    row.resize(rows[0].size());  // nothing more is known of what is not loaded
    rows.push_back(std::move(row));
  }
  console.out << FormatTable(rows);
  for (const v1::Model& model : response.models()) {
    if (model.error().empty()) continue;
    fmt::print(console.out, "{} version {}: {}\n", model.name(), model.version(), model.error());
  }
}

// Names and values, all aligned to the left, also where they are numbers.
void PrintRows(const std::vector<std::vector<std::string>>& rows, const Console& console) {
  for (const auto& cells : rows) fmt::print(console.out, "{:<18} {}\n", cells[0], cells[1]);
}

}  // namespace

void PrintModel(const v1::Model& model, const Console& console) {
  std::vector<std::vector<std::string>> rows;
  const auto row = [&rows](const char* name, std::string value) {
    rows.push_back({name, std::move(value)});
  };
  row("name", model.name());
  row("version", fmt::to_string(model.version()));
  row("state", StateName(model.state()));
  if (!model.error().empty()) row("error", model.error());
  if (model.replicas_size() == 0) return PrintRows(rows, console);
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
  if (model.embedding_dimensions() > 0) {
    row("embedding", FormatCount(model.embedding_dimensions()) + " dimensions");
  }
  for (const std::string& name : model.prompt_names()) row("prompt name", name);
  row("weights", FormatBytes(model.memory().weights()));
  if (model.memory().cache_blocks() > 0) {
    row("cache",
        fmt::format("{} in {} blocks of {} tokens", FormatBytes(model.memory().cache()),
                    FormatCount(model.memory().cache_blocks()), model.memory().block_size()));
  }
  for (const v1::Replica& replica : model.replicas()) {
    row("replica", fmt::format("{} ({})", replica.device(), replica.description()));
  }
  PrintRows(rows, console);
}

namespace {

absl::Status RunModels(const Session& session, const std::string& name) {
  const Console& console = session.console;
  if (!name.empty()) {
    const auto model = session.client.GetModel(name, session.options.call());
    if (!model.ok()) return model.status();
    if (session.options.json) {
      fmt::print(console.out, "{}\n", ToJson(*model));
    } else {
      PrintModel(*model, console);
    }
    return absl::OkStatus();
  }
  const auto models = session.client.ListModels(session.options.call());
  if (!models.ok()) return models.status();
  if (session.options.json) {
    fmt::print(console.out, "{}\n", ToJson(*models));
  } else {
    PrintList(*models, console);
  }
  return absl::OkStatus();
}

absl::Status RunHealth(const Session& session, const std::string& model) {
  const auto serving = session.client.Health(model, session.options.call());
  if (!serving.ok()) return serving.status();
  const std::string_view status = *serving ? "SERVING" : "NOT_SERVING";
  if (session.options.json) {
    fmt::print(session.console.out, "{{\"status\":\"{}\"}}\n", status);
  } else {
    fmt::print(session.console.out, "{}\n", status);
  }
  if (*serving) return absl::OkStatus();
  return absl::UnavailableError("the server is not serving");
}

}  // namespace

void AddModelCommands(CLI::App& app, Command& chosen) {
  auto name = std::make_shared<std::string>();
  CLI::App* command = app.add_subcommand("models", "the server's models, or one in detail");
  command->add_option("name", *name, "a model");
  command->callback([&chosen, name] {
    chosen = [name](const Session& session) { return RunModels(session, *name); };
  });

  auto service = std::make_shared<std::string>();
  command = app.add_subcommand("health", "whether the server, or a model, can answer");
  command->add_option("model", *service, "a model; without: the server");
  command->callback([&chosen, service] {
    chosen = [service](const Session& session) { return RunHealth(session, *service); };
  });
}

}  // namespace beamline::cli

// `beamline fill-mask`: the likeliest tokens at masks.
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

struct FillMaskOptions {
  std::vector<std::string> texts;
  std::string model;
  std::vector<std::string> targets;
  std::string truncate;
  std::optional<int32_t> top;
};

// Uses the texts of the command line, or the lines of standard input.
absl::StatusOr<v1::FillMaskRequest> MakeFillMaskRequest(const Session& session,
                                                        const FillMaskOptions& o) {
  std::vector<std::string> texts = o.texts;
  const auto lines = OpenLines(o.texts, "", session.console);
  if (!lines.ok()) return lines.status();
  if (*lines != nullptr) {
    auto read = ReadAllLines(**lines);
    if (!read.ok()) return read.status();
    texts = *std::move(read);
  }
  v1::FillMaskRequest request;
  request.set_model(o.model);
  for (const std::string& text : texts) {
    if (absl::Status status = CheckText(text); !status.ok()) return status;
    request.add_inputs(text);
  }
  if (o.top) request.set_top_k(*o.top);
  for (const std::string& target : o.targets) request.add_targets(target);
  if (o.truncate == "right") request.set_truncate(v1::TRUNCATION_RIGHT);
  if (o.truncate == "left") request.set_truncate(v1::TRUNCATION_LEFT);
  return request;
}

constexpr std::string_view kFillColumns[] = {"input", "mask", "id", "token", "score", "sequence"};

// Rows with the columns above.
std::vector<std::vector<std::string>> FillRows(const v1::FillMaskResponse& response) {
  std::vector<std::vector<std::string>> rows;
  for (int i = 0; i < response.texts_size(); ++i) {
    const v1::FilledText& text = response.texts(i);
    for (int m = 0; m < text.masks_size(); ++m) {
      for (const v1::MaskFill& fill : text.masks(m).fills()) {
        rows.push_back({fmt::to_string(i + 1), fmt::to_string(m + 1), fmt::to_string(fill.id()),
                        fill.text(), fmt::to_string(fill.score()), fill.sequence()});
      }
    }
  }
  return rows;
}

void PrintFills(const v1::FillMaskResponse& response, const Session& session) {
  constexpr size_t kTextWidth = 60;
  std::vector<std::vector<std::string>> rows = {{"", "mask", "score", "token", "sequence"}};
  for (int i = 0; i < response.texts_size(); ++i) {
    const v1::FilledText& text = response.texts(i);
    for (int m = 0; m < text.masks_size(); ++m) {
      for (const v1::MaskFill& fill : text.masks(m).fills()) {
        rows.push_back({fmt::to_string(i + 1), fmt::to_string(m + 1),
                        fmt::format("{:.4f}", fill.score()), fill.text(),
                        Shorten(fill.sequence(), kTextWidth)});
      }
    }
  }
  session.console.out << FormatTable(rows, session.output.style());
  session.console.out.flush();
  PrintNote(session, fmt::format("{} tokens, {} in all", response.usage().prompt_tokens(),
                                 FormatDuration(response.timing().total())));
}

absl::Status RunFillMask(const Session& session, const FillMaskOptions& options) {
  const auto request = MakeFillMaskRequest(session, options);
  if (!request.ok()) return request.status();
  const auto response = session.client.FillMask(*request, session.options.call());
  if (!response.ok()) return response.status();
  session.output.Answer(
      *response, [&] { PrintFills(*response, session); },
      [&] {
        for (const auto& row : FillRows(*response)) session.output.CsvRow(kFillColumns, row);
      });
  return absl::OkStatus();
}

}  // namespace

void AddFillMaskCommand(CLI::App& app, Command& chosen) {
  auto options = std::make_shared<FillMaskOptions>();
  CLI::App* command = app.add_subcommand("fill-mask", "what is likely in place of masked tokens");
  command->add_option("text", options->texts,
                      "texts with the model's mask token; without any, or '-': the lines of "
                      "standard input");
  command->add_option("--model", options->model, "name of a model; see 'beamline models'")
      ->type_name(std::string(kModelValue));
  AddNumber(*command, "--top", options->top, "the N likeliest tokens of each mask; default: 5");
  AddRepeatable(*command, "--target", options->targets,
                "tells of this token alone; repeatable; default: of all");
  command
      ->add_option("--truncate", options->truncate,
                   "side that loses what is too long; default: error")
      ->check(CLI::IsMember({"none", "right", "left"}));
  command->footer(
      "Examples:\n"
      "  beamline fill-mask --top 3 \"the [MASK] fox\"\n"
      "  beamline fill-mask --target fox --target dog \"the quick [MASK]\"\n");
  command->callback([&chosen, options] {
    chosen = [options](const Session& session) { return RunFillMask(session, *options); };
  });
}

}  // namespace beamline::cli

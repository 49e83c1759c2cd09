#include "loadtest/report/page_parts.h"

#include <string_view>

#include "fmt/format.h"
#include "loadtest/report/markup.h"
#include "loadtest/report/names.h"
#include "loadtest/report/text_table.h"

namespace beamline::loadtest {

using nlohmann::json;

const json& JsonFigures::At(const std::string& pointer) const {
  return root_.at(json::json_pointer(pointer));
}

std::string JsonFigures::Figure(const std::string& pointer) const {
  const json::json_pointer place(pointer);
  if (!root_.contains(place)) return "0";
  const json& value = root_.at(place);
  const std::string text =
      value.is_number_float() ? FormatNumber(value.get<double>()) : value.dump();
  return fmt::format("<data value=\"{}\" data-json=\"{}\">{}</data>", value.dump(), Escape(pointer),
                     text);
}

std::string JsonFigures::Cell(const std::string& pointer) const {
  return "<td>" + Figure(pointer) + "</td>";
}

std::string Row(const std::string& head, const std::string& cells) {
  std::string name;
  for (const char c : Escape(head)) name += c == '_' ? std::string("_<wbr/>") : std::string(1, c);
  return fmt::format("<tr><th scope=\"row\">{}</th>{}</tr>\n", name, cells);
}

std::string Table(const std::vector<std::string>& header, const std::string& rows) {
  std::string head;
  for (const std::string& name : header) {
    const bool is_text = name.ends_with(':');
    head += fmt::format("<th scope=\"col\"{}>{}</th>", is_text ? " class=\"text\"" : "",
                        is_text ? name.substr(0, name.size() - 1) : name);
  }
  if (!head.empty()) head = "<thead><tr>" + head + "</tr></thead>\n";
  return fmt::format("<div class=\"scroll\"><table>\n{}<tbody>\n{}</tbody>\n</table></div>\n", head,
                     rows);
}

std::string Card(const std::string& content) {
  return "<div class=\"card\">" + content + "</div>\n";
}

std::string DrawTiles(const std::vector<Tile>& tiles) {
  std::string html = "<div class=\"tiles\">\n";
  for (const Tile& tile : tiles) {
    html +=
        fmt::format("<div class=\"card tile\"><b{}>{}</b><span class=\"soft\">{}</span></div>\n",
                    tile.bad ? " class=\"bad\"" : "", tile.figure, tile.name);
  }
  return html + "</div>\n";
}

std::string DrawWhere(const Environment& environment) {
  std::string where = Escape(environment.target);
  if (!environment.server_version.empty()) {
    where += " · Beamline " + Escape(environment.server_version);
  }
  return where + " · " + Escape(environment.date);
}

std::string DrawWhatRan(const std::vector<std::pair<std::string, std::string>>& load,
                        const Environment& environment, const std::string& workload) {
  std::string what, machine;
  const auto add = [](std::string& list, std::string_view name, const std::string& html) {
    if (!html.empty()) list += fmt::format("<dt>{}</dt><dd>{}</dd>\n", Escape(name), html);
  };
  for (const auto& [name, html] : load) add(what, name, html);
  std::string models;
  for (const std::string& model : environment.models) models += "<p>" + Escape(model) + "</p>";
  add(what, "server", Escape(environment.server_version));
  add(what, "models", models);
  add(what, "command", "<pre>" + EscapeLines(environment.command) + "</pre>");
  add(what, "workload", "<pre>" + EscapeLines(workload) + "</pre>");
  for (const auto* facts : {&environment.versions, &environment.machine}) {
    for (const auto& [key, value] : *facts) add(machine, EnvironmentTitle(key), Escape(value));
  }
  return fmt::format(
      "<h2>What was run</h2>\n<div class=\"grid2\">\n{}{}</div>\n",
      Card("<h3>Load</h3>\n<dl>\n" + what + "</dl>"),
      Card("<h3>Load generator's machine and versions</h3>\n<dl>\n" + machine + "</dl>"));
}

}  // namespace beamline::loadtest

// What the bodies of reports' pages are made of.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "loadtest/report/report.h"
#include "nlohmann/json.hpp"

namespace beamline::loadtest {

// The figures of a page, each with its value and its place in a JSON document, from which they are
// taken.
class JsonFigures {
 public:
  explicit JsonFigures(nlohmann::json root) : root_(std::move(root)) {}

  // Times and rates with three digits, counts whole; 0 where the document has no such place.
  std::string Figure(const std::string& pointer) const;
  // In a <td>.
  std::string Cell(const std::string& pointer) const;
  const nlohmann::json& At(const std::string& pointer) const;

 private:
  const nlohmann::json root_;
};

// Names such as generate_stream may break behind their underscores.
std::string Row(const std::string& head, const std::string& cells);
// Columns whose name ends with a colon hold text.
std::string Table(const std::vector<std::string>& header, const std::string& rows);
std::string Card(const std::string& content);

// A large figure and, below it, what it is; both are markup.
struct Tile {
  std::string figure;
  std::string name;
  bool bad = false;
};
std::string DrawTiles(const std::vector<Tile>& tiles);

// The server's address and version, and the date: a line below a page's title.
std::string DrawWhere(const Environment& environment);

// The section "What was run": `load`, pairs of a name and markup, with models, command and
// workload, beside the machine and the versions.
std::string DrawWhatRan(const std::vector<std::pair<std::string, std::string>>& load,
                        const Environment& environment, const std::string& workload);

}  // namespace beamline::loadtest

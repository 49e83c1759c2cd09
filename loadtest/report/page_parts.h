// Building blocks of report pages.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "loadtest/report/report.h"
#include "nlohmann/json.hpp"

namespace beamline::loadtest {

// Formats figures of a page from a JSON document. Each figure's markup has its full value and its
// JSON pointer.
class JsonFigures {
 public:
  explicit JsonFigures(nlohmann::json root) : root_(std::move(root)) {}

  // Shows three significant digits of a fraction, all digits of a whole number; 0 if the document
  // does not have the pointer.
  std::string Figure(const std::string& pointer) const;
  // The figure in a <td>.
  std::string Cell(const std::string& pointer) const;
  const nlohmann::json& At(const std::string& pointer) const;

 private:
  const nlohmann::json root_;
};

// A table row; names such as generate_stream may break after an underscore.
std::string Row(const std::string& head, const std::string& cells);
// Columns whose name ends with a colon contain text.
std::string Table(const std::vector<std::string>& header, const std::string& rows);
std::string Card(const std::string& content);

// A large figure with its name below; both are markup.
struct Tile {
  std::string figure;
  std::string name;
  bool bad = false;
};
std::string DrawTiles(const std::vector<Tile>& tiles);

// A line for the page's head: the server's address and version, and the date.
std::string DrawWhere(const Environment& environment);

// The section "What was run". Lists `load`, pairs of a name and markup, with models, command and
// workload, next to the machine and the versions.
std::string DrawWhatRan(const std::vector<std::pair<std::string, std::string>>& load,
                        const Environment& environment, const std::string& workload);

}  // namespace beamline::loadtest

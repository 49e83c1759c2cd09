// The settings that docs/settings.md lists are those that there are, with their defaults and what
// they may be.
#include <gtest/gtest.h>

#include <fstream>
#include <map>
#include <sstream>
#include <string>
#include <vector>

#include "server/config/server_config.h"

namespace beamline::operating_guide_test {
namespace {

struct Row {
  std::string default_value;
  std::string accepted;
};

// The cells of "| a | b |", without the blanks around them.
std::vector<std::string> Cells(const std::string& line) {
  std::vector<std::string> cells;
  std::istringstream stream(line.substr(1));
  for (std::string cell; std::getline(stream, cell, '|');) {
    const size_t begin = cell.find_first_not_of(' ');
    const size_t end = cell.find_last_not_of(' ');
    cells.push_back(begin == std::string::npos ? "" : cell.substr(begin, end + 1 - begin));
  }
  return cells;
}

// By name, the rows of the table that begins with `header`.
std::map<std::string, Row> Documented(const std::string& header) {
  std::ifstream file(BEAMLINE_SOURCE_DIR "/docs/settings.md");
  std::string line;
  while (std::getline(file, line) && line != header) {
  }
  std::getline(file, line);  // the rule below the header
  std::map<std::string, Row> rows;
  while (std::getline(file, line) && line.starts_with("| `")) {
    const std::vector<std::string> cells = Cells(line);
    EXPECT_EQ(cells.size(), 4u) << line;
    if (cells.size() != 4) continue;
    rows[cells[0].substr(1, cells[0].size() - 2)] = {cells[1], cells[2]};
  }
  return rows;
}

void ExpectDocumented(const std::vector<Setting>& settings, std::map<std::string, Row> rows) {
  for (const Setting& setting : settings) {
    ASSERT_TRUE(rows.contains(setting.name)) << setting.name << " is not documented";
    const Row& row = rows[setting.name];
    EXPECT_EQ(row.default_value, ToText(setting)) << setting.name;
    EXPECT_FALSE(row.accepted.empty()) << setting.name;
    // Of a text that may be anything, the guide alone says what it is.
    const std::string accepted = Accepted(setting);
    if (!accepted.empty()) {
      EXPECT_EQ(row.accepted, accepted) << setting.name;
    }
    rows.erase(setting.name);
  }
  for (const auto& [name, row] : rows) ADD_FAILURE() << name << " is no setting";
}

TEST(OperatingGuide, ListsTheSettings) {
  ServerConfig config;
  ExpectDocumented(Settings(config), Documented("| setting | default | accepted | meaning |"));
}

TEST(OperatingGuide, ListsTheSettingsOfAModel) {
  ModelOptions model;
  ExpectDocumented(Settings(model), Documented("| model setting | default | accepted | meaning |"));
}

}  // namespace
}  // namespace beamline::operating_guide_test

#include "tests/golden/golden_rows.h"

#include <fstream>

#include "base/check.h"

namespace beamline {
namespace {

std::ifstream OpenGolden(const std::string& name) {
  std::ifstream file(std::string(BEAMLINE_SOURCE_DIR) + "/tests/golden/" + name);
  BEAMLINE_CHECK(file.good());
  return file;
}

}  // namespace

std::vector<nlohmann::json> GoldenRows(const std::string& name) {
  std::ifstream file = OpenGolden(name);
  std::vector<nlohmann::json> rows;
  for (std::string line; std::getline(file, line);) rows.push_back(nlohmann::json::parse(line));
  BEAMLINE_CHECK(!rows.empty());
  return rows;
}

nlohmann::json GoldenFile(const std::string& name) {
  std::ifstream file = OpenGolden(name);
  return nlohmann::json::parse(file);
}

}  // namespace beamline

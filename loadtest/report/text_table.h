// Tables with aligned columns for terminals.
#pragma once

#include <string>
#include <vector>

namespace beamline::loadtest {

class TextTable {
 public:
  // last_is_text: the last column is left-aligned too.
  explicit TextTable(std::vector<std::string> header, bool last_is_text = false);
  // REQUIRES: as many cells as the header has.
  void AddRow(std::vector<std::string> cells);
  // The first column is left-aligned, the others right-aligned; a rule follows the header.
  std::string ToString() const;

 private:
  std::vector<std::vector<std::string>> rows_;
  const bool last_is_text_;
};

// Milliseconds with three significant digits, "12.3", from nanoseconds.
std::string FormatMs(double ns);
// A number with three significant digits.
std::string FormatNumber(double number);

}  // namespace beamline::loadtest

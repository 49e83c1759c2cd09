// Aligned columns for terminals.
#pragma once

#include <string>
#include <vector>

namespace beamline::loadtest {

class TextTable {
 public:
  // last_is_text: the last column is set left, too.
  explicit TextTable(std::vector<std::string> header, bool last_is_text = false);
  // REQUIRES: as many cells as the header has.
  void AddRow(std::vector<std::string> cells);
  // The first column is set left, the others right; a rule below the header.
  std::string ToString() const;

 private:
  std::vector<std::vector<std::string>> rows_;
  const bool last_is_text_;
};

// "12.3" from nanoseconds: milliseconds with three significant digits.
std::string FormatMs(double ns);
// A number with three significant digits.
std::string FormatNumber(double number);

}  // namespace beamline::loadtest

#include "engine/jinja/search.h"

#include <cstring>

namespace beamline::jinja {

size_t FindText(Run& run, std::string_view text, std::string_view wanted, size_t from) {
  run.Step();
  if (from > text.size()) return std::string_view::npos;
  const std::string_view rest = text.substr(from);
  if (wanted.empty()) return from;
  // glibc's memmem is linear (two-way); for short texts it reads at most 256 bytes per position.
  const void* const found = memmem(rest.data(), rest.size(), wanted.data(), wanted.size());
  if (found == nullptr) {
    run.Touch(rest.size() + wanted.size());
    return std::string_view::npos;
  }
  const auto place = static_cast<size_t>(static_cast<const char*>(found) - rest.data());
  run.Touch(place + wanted.size());
  return from + place;
}

LastFinder::LastFinder(Run& run, std::string_view wanted) : run_(run), wanted_(wanted) {
  run.Room(wanted.size() * sizeof(uint32_t));
  borders_.assign(wanted.size(), 0);
  uint32_t length = 0;
  for (size_t i = 1; i < wanted.size(); ++i) {
    while (length > 0 && FromEnd(i) != FromEnd(length)) length = borders_[length - 1];
    if (FromEnd(i) == FromEnd(length)) ++length;
    borders_[i] = length;
  }
}

size_t LastFinder::Find(std::string_view text) const {
  run_.Step();
  if (wanted_.empty()) return text.size();
  size_t length = 0;
  for (size_t i = text.size(); i > 0; --i) {
    while (length > 0 && text[i - 1] != FromEnd(length)) length = borders_[length - 1];
    if (text[i - 1] == FromEnd(length)) ++length;
    if (length < wanted_.size()) continue;
    run_.Touch(text.size() - i + 1);
    return i - 1;
  }
  run_.Touch(text.size());
  return std::string_view::npos;
}

}  // namespace beamline::jinja

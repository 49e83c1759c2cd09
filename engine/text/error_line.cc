#include "engine/text/error_line.h"

#include <fmt/format.h>

#include "engine/text/utf8.h"

namespace beamline {
namespace {

constexpr std::string_view kGap = " ... ";

// U+FFFD for what is no UTF-8, a space for each control character.
std::string Printable(std::string_view text) {
  std::string pending(text), printable;
  text::DrainLossy(&pending, /*at_end=*/true, &printable);
  for (char& c : printable) {
    if (static_cast<unsigned char>(c) < 0x20 || c == 0x7F) c = ' ';
  }
  return printable;
}

}  // namespace

std::string Excerpt(std::string_view text, size_t max_bytes) {
  // What is left out of a long text need not be made printable.
  std::string_view head = text, tail;
  const bool is_long = text.size() > 4 * max_bytes;
  if (is_long) {
    head = text.substr(0, max_bytes);
    tail = text.substr(text.size() - max_bytes);
  }
  const std::string first = Printable(head), last = is_long ? Printable(tail) : first;
  if (!is_long && first.size() <= max_bytes) return first;
  // The beginning says where, the end what would be right: two thirds for the one.
  const size_t room = max_bytes - kGap.size();
  size_t head_size = room * 2 / 3;
  while (head_size > 0 && text::IsContinuationByte(first[head_size])) --head_size;
  size_t tail_begin = last.size() - (room - room * 2 / 3);
  while (tail_begin < last.size() && text::IsContinuationByte(last[tail_begin])) ++tail_begin;
  return fmt::format("{}{}{}", first.substr(0, head_size), kGap, last.substr(tail_begin));
}

absl::Status WithShortMessage(const absl::Status& status, size_t max_bytes) {
  if (status.ok()) return status;
  const std::string_view message(status.message().data(), status.message().size());
  return absl::Status(status.code(), Excerpt(message, max_bytes));
}

absl::Status WithPlace(std::string_view place, const absl::Status& status) {
  const std::string_view message(status.message().data(), status.message().size());
  if (status.ok() || message.starts_with(place)) return status;
  return absl::Status(status.code(), fmt::format("{}: {}", place, message));
}

}  // namespace beamline

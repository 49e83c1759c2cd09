#include "base/command_help.h"

#include <algorithm>
#include <cctype>

#include "base/utf8.h"
#include "fmt/format.h"
#include "fmt/ranges.h"

namespace beamline {
namespace {

constexpr size_t kColumn = 28;  // column of the descriptions

size_t NumCharacters(std::string_view text) {
  return static_cast<size_t>(
      std::ranges::count_if(text, [](char c) { return !IsContinuationByte(c); }));
}

// "  HEAD     text", with the text in its own column; it starts on the next line if the head is too
// long.
std::string Entry(const std::string& head, const std::string& text, size_t width) {
  std::string entry = "  " + head;
  const bool is_long = entry.size() + 2 > kColumn;
  if (!is_long) entry.resize(kColumn, ' ');
  const std::vector<std::string> lines = WrapText(text, width - kColumn);
  for (size_t i = 0; i < lines.size(); ++i) {
    if (i > 0 || is_long) entry += "\n" + std::string(kColumn, ' ');
    entry += lines[i];
  }
  entry.erase(entry.find_last_not_of(' ') + 1);
  return entry + "\n";
}

std::string Paragraph(std::string_view text, size_t width) {
  return fmt::format("{}\n", fmt::join(WrapText(text, width), "\n"));
}

// "Runs it." from "runs it", the form used in lists.
std::string AsSentence(std::string text) {
  if (text.empty()) return text;
  text[0] = static_cast<char>(std::toupper(static_cast<unsigned char>(text[0])));
  return text.ends_with('.') ? text : text + ".";
}

template <typename Wanted>
std::string Section(const std::string& heading, const CommandNode& command, const Wanted& wanted,
                    size_t width) {
  std::string section;
  for (const OptionNode& option : command.options) {
    if (wanted(option)) section += Entry(OptionHead(option), FullHelp(option), width);
  }
  return section.empty() ? section : fmt::format("\n{}:\n{}", heading, section);
}

}  // namespace

std::vector<std::string> WrapText(std::string_view text, size_t width) {
  std::vector<std::string> lines;
  while (!text.empty()) {
    const size_t begin = std::min(text.find_first_not_of(' '), text.size());
    text.remove_prefix(begin);
    if (text.empty()) break;
    const std::string_view word = text.substr(0, text.find(' '));
    text.remove_prefix(word.size());
    const bool fits =
        !lines.empty() && NumCharacters(lines.back()) + 1 + NumCharacters(word) <= width;
    if (fits) {
      lines.back() += ' ';
      lines.back() += word;
    } else {
      lines.emplace_back(word);
    }
  }
  return lines;
}

std::vector<std::string> GroupsOf(const CommandNode& command) {
  std::vector<std::string> groups;
  for (const OptionNode& option : command.options) {
    if (option.is_positional || std::ranges::count(groups, option.group) > 0) continue;
    groups.push_back(option.group);
  }
  return groups;
}

std::string OptionHead(const OptionNode& option) {
  if (option.is_positional) return option.names[0] + (option.is_repeatable ? "..." : "");
  std::string head = fmt::format("{}", fmt::join(option.names, ", "));
  const std::string value = option.value;
  if (value.empty()) return head;
  const bool has_brackets = value.starts_with('[');
  return head + (option.may_lack_value && !has_brackets ? " [" + value + "]" : " " + value);
}

std::string FullHelp(const OptionNode& option) {
  std::string help = option.help;
  const auto add = [&help](const std::string& text) { help += (help.empty() ? "" : " ") + text; };
  if (!option.choices.empty() && (option.is_positional || option.value == "CHOICE")) {
    add(fmt::format("({})", fmt::join(option.choices, ", ")));
  }
  if (!option.variable.empty()) add(fmt::format("(Env:{})", option.variable));
  if (!option.default_text.empty()) add(fmt::format("[{}]", option.default_text));
  return help;
}

std::string HelpText(const std::vector<const CommandNode*>& path, size_t width) {
  const CommandNode& command = *path.back();
  std::string name;
  for (const CommandNode* node : path) name += (name.empty() ? "" : " ") + node->name;
  std::string text = "Usage: " + UsageText(name, command) + "\n\n";
  text += Paragraph(AsSentence(command.help), width);
  text += Section(
      "Arguments", command, [](const auto& option) { return option.is_positional; }, width);
  for (const std::string& group : GroupsOf(command)) {
    const auto is_in_group = [&group](const OptionNode& option) {
      return !option.is_positional && option.group == group;
    };
    text += Section(group, command, is_in_group, width);
  }
  if (!command.commands.empty()) {
    text += "\nCommands:\n";
    for (const CommandNode& below : command.commands) text += Entry(below.name, below.help, width);
  }
  if (path.size() > 1) {
    const auto is_shared = [](const OptionNode& option) {
      return option.names.back() != "--help" && option.names.back() != "--version";
    };
    text += Section("Options of all commands", *path.front(), is_shared, width);
  }
  return command.footer.empty() ? text : text + "\n" + command.footer;
}

}  // namespace beamline

#include "base/command_tree.h"

#include <algorithm>
#include <utility>

#include "fmt/format.h"
#include "fmt/ranges.h"

namespace beamline {
namespace {

constexpr size_t kLongestList =
    40;  // longest list of choices shown as a value's type, in characters

// CLI11 writes the type and validator of a value as "TEXT:{table,json,csv}".
void ReadValue(const std::string& type, OptionNode& node) {
  const size_t open = type.find('{');
  const size_t close = type.find('}', std::min(open, type.size()));
  if (close != std::string::npos) {
    for (size_t begin = open + 1; begin <= close;) {
      const size_t end = std::min(type.find(',', begin), close);
      node.choices.push_back(type.substr(begin, end - begin));
      begin = end + 1;
    }
  }
  node.value = type.substr(0, std::min(type.find(":{"), open));
  if (node.choices.empty() || (!node.value.empty() && node.value != "TEXT")) return;
  const std::string list = fmt::format("{}", fmt::join(node.choices, "|"));
  node.value = list.size() <= kLongestList ? list : "CHOICE";
}

OptionNode ReadOption(const CLI::Option& option, std::string group) {
  OptionNode node;
  node.is_positional = option.get_positional();
  if (node.is_positional) {
    node.names.push_back(option.get_name(/*positional=*/true));
  } else {
    for (const std::string& name : option.get_snames()) node.names.push_back("-" + name);
    for (const std::string& name : option.get_lnames()) node.names.push_back("--" + name);
  }
  if (option.get_expected_max() > 0 && option.get_type_size_max() > 0) {
    ReadValue(option.get_type_name(), node);
    if (node.value.empty()) node.value = "TEXT";
  }
  node.help = option.get_description();
  node.default_text = option.get_default_str();
  node.variable = option.get_envname();
  node.group = std::move(group);
  node.is_required = option.get_required();
  const bool is_list = option.get_expected_max() > 1;
  node.is_repeatable = node.is_positional
                           ? is_list
                           : !node.value.empty() && option.get_multi_option_policy() ==
                                                        CLI::MultiOptionPolicy::TakeAll;
  node.may_lack_value = !node.value.empty() && option.get_expected_min() == 0;
  return node;
}

void ReadOptions(const CLI::App& app, const std::string& group, CommandNode& node) {
  for (const CLI::Option* option : app.get_options()) {
    const bool is_of_owner = app.get_name().empty() && option == app.get_help_ptr();
    if (option->get_group().empty() || is_of_owner)
      continue;  // hidden, or already listed for the owner
    const bool is_plain = option->get_group() == "Options";
    node.options.push_back(ReadOption(*option, is_plain ? group : option->get_group()));
  }
}

}  // namespace

CommandNode WalkCommands(const CLI::App& app) {
  CommandNode node;
  node.name = app.get_name();
  node.help = app.get_description();
  node.footer = app.get_footer();
  ReadOptions(app, "Options", node);
  for (const CLI::App* below : app.get_subcommands([](const CLI::App*) { return true; })) {
    if (below->get_name().empty()) {
      ReadOptions(*below, below->get_group(), node);  // an option group
    } else {
      node.commands.push_back(WalkCommands(*below));
    }
  }
  return node;
}

void SetChoices(CLI::Option& option, const std::string& value,
                const std::vector<std::string>& choices) {
  if (choices.empty()) {
    option.type_name(value);
    return;
  }
  option.type_name(fmt::format("{}:{{{}}}", value, fmt::join(choices, ",")));
}

std::string UsageText(const std::string& path, const CommandNode& command) {
  std::string usage = path + " [OPTIONS]";
  for (const OptionNode& option : command.options) {
    if (!option.is_positional) continue;
    const std::string name = option.names[0] + (option.is_repeatable ? "..." : "");
    usage += option.is_required ? " " + name : " [" + name + "]";
  }
  return usage + (command.commands.empty() ? "" : " COMMAND");
}

std::vector<std::string> ExamplesOf(const std::string& footer) {
  constexpr std::string_view kIndent = "  ";
  std::vector<std::string> examples;
  for (size_t begin = 0; begin < footer.size();) {
    const size_t end = std::min(footer.find('\n', begin), footer.size());
    const std::string line = footer.substr(begin, end - begin);
    if (line.starts_with(kIndent)) examples.push_back(line.substr(kIndent.size()));
    begin = end + 1;
  }
  return examples;
}

}  // namespace beamline

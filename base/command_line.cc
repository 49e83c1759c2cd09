#include "base/command_line.h"

#include <algorithm>
#include <cstdlib>
#include <exception>

#include "absl/status/status.h"
#include "base/command_help.h"
#include "base/command_tree.h"
#include "base/text.h"

namespace beamline {
namespace {

// CLI11 splits a value in brackets, "[a, b]", in two. It takes an empty argument as the name of an
// option group, which is empty too, and then loops forever. This prefix makes it keep such values
// as they are; no real argument starts with this character.
constexpr char kMark = '\x01';

std::string Marked(const std::string& argument) {
  const bool in_brackets = argument.size() > 1 && argument.front() == '[' && argument.back() == ']';
  return argument.empty() || in_brackets ? kMark + argument : argument;
}

std::string Unmarked(std::string value) {
  if (!value.empty() && value.front() == kMark) value.erase(0, 1);
  return value;
}

// Calls `visit` for the app, its option groups and its commands.
template <typename Visit>
void VisitApps(CLI::App& app, const Visit& visit) {
  visit(app);
  for (CLI::App* below : app.get_subcommands([](CLI::App*) { return true; })) {
    VisitApps(*below, visit);
  }
}

void UnmarkValues(CLI::App& app) {
  VisitApps(app, [](CLI::App& one) {
    for (CLI::Option* option : one.get_options()) {
      if (option->get_expected_max() > 0) option->transform(Unmarked);
    }
  });
}

// The help of the innermost command that was given.
std::string Help(const CLI::App& app) {
  const CommandNode program = WalkCommands(app);
  std::vector<const CommandNode*> path = {&program};
  const auto enter = [&path](const std::string& name) {
    const std::vector<CommandNode>& below = path.back()->commands;
    const auto found = std::ranges::find(below, name, &CommandNode::name);
    if (found != below.end()) path.push_back(&*found);
    return found != below.end();
  };
  const CLI::App* at = &app;
  while (!at->get_subcommands().empty() && enter(at->get_subcommands().front()->get_name())) {
    at = at->get_subcommands().front();
  }
  return HelpText(path);
}

std::vector<std::string> OptionNames(CLI::App& app) {
  std::vector<std::string> names;
  VisitApps(app, [&](CLI::App& one) {
    const bool is_other_command = &one != &app && !one.get_name().empty() && !one.parsed();
    if (is_other_command) return;
    for (const CLI::Option* option : one.get_options()) {
      for (const std::string& name : option->get_lnames()) names.push_back("--" + name);
    }
  });
  return names;
}

std::vector<std::string> CommandNames(CLI::App& app) {
  std::vector<std::string> names;
  for (const CLI::App* command : app.get_subcommands([](CLI::App*) { return true; })) {
    if (!command->get_name().empty()) names.push_back(command->get_name());
  }
  return names;
}

// Refuses "--stop=": CLI11 would take the next argument as its value.
absl::Status CheckEmptyValues(CLI::App& app, const std::vector<std::string>& arguments) {
  std::vector<std::string> names;
  VisitApps(app, [&](CLI::App& one) {
    for (const CLI::Option* option : one.get_options()) {
      for (const std::string& name : option->get_lnames()) names.push_back("--" + name + "=");
    }
  });
  for (const std::string& argument : arguments) {
    if (argument == "--") break;
    if (std::find(names.begin(), names.end(), argument) == names.end()) continue;
    const std::string name = argument.substr(0, argument.size() - 1);
    return absl::InvalidArgumentError(
        fmt::format("{} has no value; an empty one is written {} ''", argument, name));
  }
  return absl::OkStatus();
}

std::string Explain(CLI::App& app, const CLI::ParseError& error, const OptionHint& given) {
  const bool has_command = !app.get_subcommands().empty();
  const std::vector<std::string> commands = CommandNames(app);
  const std::vector<std::string> extras = app.remaining(/*recurse=*/true);
  for (const std::string& extra : extras) {
    if (extra.size() < 2 || extra[0] != '-' || extra == "--") continue;
    const std::string name = extra.substr(0, extra.find('='));
    std::string hint = given == nullptr ? "" : given(name);
    if (hint.empty()) hint = DidYouMean(name, OptionNames(app));
    const bool may_be_text = hint.empty() && has_command;
    return fmt::format("there is no option '{}'{}", Shorten(name, 100),
                       may_be_text ? "; a text that begins with - goes after --" : hint);
  }
  if (!extras.empty() && !has_command && !commands.empty()) {
    const std::string name = Unmarked(extras.front());
    return fmt::format("there is no command '{}'{}", Shorten(name, 100),
                       DidYouMean(name, commands));
  }
  if (!extras.empty()) {
    return fmt::format("there is an argument too many: '{}'",
                       Shorten(Unmarked(extras.front()), 100));
  }
  return error.what();
}

}  // namespace

absl::StatusOr<std::string> ParseArguments(CLI::App& app, int argc, const char* const* argv,
                                           const OptionHint& hint) {
  std::vector<std::string> arguments(argv + std::min(argc, 1), argv + argc);
  if (const absl::Status status = CheckEmptyValues(app, arguments); !status.ok()) return status;
  UnmarkValues(app);
  std::transform(arguments.begin(), arguments.end(), arguments.begin(), Marked);
  std::reverse(arguments.begin(), arguments.end());  // the order that CLI11 expects
  try {
    app.parse(std::move(arguments));
    return std::string();
  } catch (const CLI::CallForHelp&) {
    return Help(app);
  } catch (const CLI::CallForVersion& version) {
    return std::string(version.what()) + "\n";
  } catch (const CLI::ParseError& error) {
    return absl::InvalidArgumentError(Explain(app, error, hint));
  } catch (const std::exception& error) {
    return absl::InvalidArgumentError(error.what());
  }
}

CLI::Option* AddRepeatable(CLI::App& app, const std::string& name, std::vector<std::string>& values,
                           const std::string& help) {
  return app.add_option(name, values, help)
      ->expected(1)
      ->allow_extra_args(false)
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
}

std::string_view GivenBy(std::string_view flag, const char* variable, std::string_view value) {
  const char* const in_environment = std::getenv(variable);
  return in_environment != nullptr && value == in_environment ? variable : flag;
}

CLI::Option* AddPath(CLI::App& app, const std::string& name, std::string& path,
                     const std::string& help) {
  return app
      .add_option_function<std::string>(
          name,
          [&path, name](const std::string& text) {
            if (text.empty()) RefuseValue(name, text, "the path of a file");
            path = text;
          },
          help)
      ->type_name("FILE");
}

void RefuseValue(const std::string& name, const std::string& text, const std::string& accepted) {
  throw CLI::ValidationError(
      fmt::format("{} is '{}'; accepted: {}", name, Shorten(text, 100), accepted));
}

}  // namespace beamline

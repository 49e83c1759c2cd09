#include "base/command_documents.h"

#include <iterator>
#include <memory>
#include <utility>

#include "base/command_completion.h"
#include "fmt/format.h"

namespace beamline {
namespace {

// ParseArguments returns the text to its caller, which prints it and exits.
[[noreturn]] void Tell(std::string text) {
  if (text.ends_with('\n')) text.pop_back();
  throw CLI::CallForVersion(std::move(text), 0);
}

std::vector<std::string> Shells() { return {std::begin(kShells), std::end(kShells)}; }

}  // namespace

void AddCompletionCommand(CLI::App& app) {
  auto shell = std::make_shared<std::string>();
  CLI::App* command = app.add_subcommand("completion", "prints a script that completes in a shell");
  command->add_option("shell", *shell, "the shell that is to read it")
      ->required()
      ->check(CLI::IsMember(Shells()));
  const std::string name = app.get_name();
  command->footer(
      fmt::format("Examples:\n"
                  "  source <({0} completion bash)\n"
                  "  {0} completion zsh > _{0}\n"
                  "  {0} completion fish | source\n",
                  name));
  command->callback([&app, shell] { Tell(CompletionScript(WalkCommands(app), *shell)); });
}

void AddCompletionFlag(CLI::App& app) {
  app.add_option_function<std::string>(
         "--completion",
         [&app](const std::string& shell) { Tell(CompletionScript(WalkCommands(app), shell)); },
         "prints a script that completes this program in a shell, and ends")
      ->check(CLI::IsMember(Shells()));
}

void AddManPageFlag(CLI::App& app, const std::string& version,
                    std::vector<ManualSection> sections) {
  app.add_flag_callback("--man-page",
                        [&app, version, sections = std::move(sections)] {
                          Tell(ManPage(WalkCommands(app), version, sections));
                        })
      ->group("");
}

}  // namespace beamline

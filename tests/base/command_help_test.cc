#include "base/command_help.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <optional>
#include <sstream>

#include "base/command_completion.h"
#include "base/command_documents.h"
#include "base/command_line.h"

namespace beamline::command_help_test {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;
using testing::StartsWith;

// A program with a command that has an option of each kind.
struct Kinds {
  Kinds() : app("Does something: well.", "our-program") {
    app.fallthrough();
    app.require_subcommand(1);
    app.add_option("--address", text, "host:port")->type_name("HOST:PORT")->envname("OUR_ADDRESS");
    CLI::App* run = app.add_subcommand("run", "runs");
    run->add_option("texts", texts, "what to run");
    AddPath(*run, "--file", path, "read it");
    AddRepeatable(*run, "--stop", stops, "ends there");
    AddNumber(*run, "-n,--count", count, "how many", 0, 9)->default_str("3")->group("Limits");
    run->add_option("--mode", text, "how")->check(CLI::IsMember({"fast", "slow"}));
    run->add_flag("--loud,!--quiet", loud, "tells all");
    SetChoices(*run->add_option("--level", text, "of the log"), "LEVEL", {"low", "high"});
    run->add_flag("--secret", loud, "not shown")->group("");
    run->add_option_group("Kinds")->add_option("--kind", text, "which")->required();
    run->footer("Notes.\nExamples:\n  our-program run 'a b'\n  our-program run --file x\n");
    AddCompletionCommand(app);
    AddManPageFlag(app, "our-program 1.2", {{"Exit status", {"0: All is well.", ".Else not."}}});
  }

  std::string Ask(std::vector<const char*> arguments) {
    arguments.insert(arguments.begin(), "our-program");
    const auto told = ParseArguments(app, static_cast<int>(arguments.size()), arguments.data());
    EXPECT_TRUE(told.ok()) << told.status();
    return told.value_or("");
  }

  CLI::App app;
  std::string text, path;
  std::vector<std::string> texts, stops;
  std::optional<int> count;
  bool loud = false;
};

TEST(CommandTree, SaysWhatEachOptionTakes) {
  const Kinds kinds;
  const CommandNode program = WalkCommands(kinds.app);
  ASSERT_EQ(program.commands.size(), 2U);
  const CommandNode& run = program.commands[0];
  const auto find = [&](const std::string& name) -> const OptionNode& {
    for (const OptionNode& option : run.options) {
      if (option.names.back() == name) return option;
    }
    ADD_FAILURE() << name;
    return run.options[0];
  };
  EXPECT_TRUE(find("texts").is_positional);
  EXPECT_TRUE(find("texts").is_repeatable);
  EXPECT_EQ(find("--file").value, "FILE");
  EXPECT_FALSE(find("--file").is_repeatable);
  EXPECT_TRUE(find("--stop").is_repeatable);
  EXPECT_THAT(find("--count").names, ElementsAre("-n", "--count"));
  EXPECT_EQ(find("--count").group, "Limits");
  EXPECT_EQ(find("--count").default_text, "3");
  EXPECT_THAT(find("--mode").choices, ElementsAre("fast", "slow"));
  EXPECT_EQ(find("--mode").value, "fast|slow");
  EXPECT_EQ(find("--level").value, "LEVEL");
  EXPECT_THAT(find("--level").choices, ElementsAre("low", "high"));
  EXPECT_EQ(find("--quiet").value, "");
  EXPECT_THAT(find("--quiet").names, ElementsAre("--loud", "--quiet"));
  EXPECT_EQ(find("--kind").group, "Kinds");
  EXPECT_TRUE(find("--kind").is_required);
  for (const OptionNode& option : run.options) EXPECT_NE(option.names.back(), "--secret");
  EXPECT_EQ(program.options.back().value, "HOST:PORT");
  EXPECT_THAT(ExamplesOf(run.footer),
              ElementsAre("our-program run 'a b'", "our-program run --file x"));
}

TEST(CommandHelp, LinesAreAtMostAsWideAsATerminal) {
  EXPECT_THAT(WrapText("one two  three", 7), ElementsAre("one two", "three"));
  EXPECT_THAT(WrapText("überlang x", 4), ElementsAre("überlang", "x"));
  EXPECT_THAT(WrapText("über alles", 10), ElementsAre("über alles"));
  EXPECT_THAT(WrapText("  ", 10), IsEmpty());
}

TEST(CommandHelp, IsOfTheCommandThatIsGiven) {
  const std::string help = Kinds().Ask({"run", "--help"});
  EXPECT_THAT(help,
              StartsWith("Usage: our-program run [OPTIONS] [texts...]\n\nRuns.\n\n"
                         "Arguments:\n  texts...                  what to run\n\nOptions:\n"));
  EXPECT_THAT(help, HasSubstr("\n  --mode fast|slow          how\n"));
  EXPECT_THAT(help, HasSubstr("\nLimits:\n  -n, --count N             how many [3]\n"));
  EXPECT_THAT(help, HasSubstr("\nKinds:\n  --kind TEXT "));
  EXPECT_THAT(help, HasSubstr("Options of all commands:\n  --address HOST:PORT       host:port "
                              "(Env:OUR_ADDRESS)\n"));
  EXPECT_THAT(help, HasSubstr("\n\nNotes.\nExamples:\n"));
  EXPECT_THAT(help, Not(HasSubstr("--secret")));
  EXPECT_THAT(help, Not(HasSubstr("--man-page")));
  std::istringstream lines(help);
  for (std::string line; std::getline(lines, line);) EXPECT_LE(line.size(), kHelpWidth) << line;
  EXPECT_THAT(Kinds().Ask({"--help"}), HasSubstr("Usage: our-program [OPTIONS] COMMAND\n"));
}

TEST(CommandManPage, HasWhatTheCommandLineHas) {
  const std::string page = Kinds().Ask({"--man-page"});
  EXPECT_THAT(page, StartsWith(".TH OUR\\-PROGRAM 1 \"\" \"our-program 1.2\" \"User Commands\"\n"
                               ".SH NAME\nour\\-program \\- does something\n"));
  for (const char* part : {".SS our\\-program run [OPTIONS] [texts...]\nruns\n",
                           ".TP\n\\fB\\-n\\fR, \\fB\\-\\-count\\fR \\fIN\\fR\nhow many [3]\n",
                           ".SH ENVIRONMENT\n.TP\n\\fBOUR_ADDRESS\\fR\nSets \\-\\-address.\n",
                           ".SH EXIT STATUS\n.TP\n\\fB0\\fR\nAll is well.\n.PP\n\\&.Else not.\n",
                           "our\\-program run \\(aqa b\\(aq\n"}) {
    EXPECT_THAT(page, HasSubstr(part));
  }
}

// Programs without such an option do not ask any server.
TEST(CommandCompletion, AsksTheServerForModelsAlone) {
  for (const std::string_view shell : kShells) {
    Kinds kinds;
    EXPECT_THAT(CompletionScript(WalkCommands(kinds.app), shell), Not(HasSubstr("beamline")));
    kinds.app.add_option("--model", kinds.text, "which")->type_name(std::string(kModelValue));
    const std::string script = CompletionScript(WalkCommands(kinds.app), shell);
    EXPECT_THAT(script, HasSubstr("--timeout 1 models --names 2>/dev/null </dev/null"));
    EXPECT_THAT(script, HasSubstr("_our_program_model_names"));
  }
}

TEST(CommandCompletion, IsOfTheShellThatIsNamed) {
  EXPECT_THAT(Kinds().Ask({"completion", "bash"}),
              HasSubstr("complete -F _our_program our-program"));
  EXPECT_THAT(Kinds().Ask({"completion", "zsh"}), StartsWith("#compdef our-program\n"));
  EXPECT_THAT(Kinds().Ask({"completion", "fish"}), HasSubstr("complete -c our-program "));
  Kinds kinds;
  const char* const wrong[] = {"our-program", "completion", "csh"};
  EXPECT_FALSE(ParseArguments(kinds.app, 3, wrong).ok());
}

}  // namespace
}  // namespace beamline::command_help_test

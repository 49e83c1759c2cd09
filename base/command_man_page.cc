#include "base/command_man_page.h"

#include <algorithm>
#include <cctype>

#include "base/command_help.h"
#include "fmt/format.h"

namespace beamline {
namespace {

// Escapes text for troff: hyphens can be copied, and no line starts a request.
std::string Plain(std::string_view text) {
  std::string plain;
  for (const char c : text) {
    switch (c) {
      case '\\':
        plain += "\\e";
        break;
      case '-':
        plain += "\\-";
        break;
      case '\'':
        plain += "\\(aq";
        break;
      case '^':
        plain += "\\(ha";
        break;
      case '~':
        plain += "\\(ti";
        break;
      case '`':
        plain += "\\(ga";
        break;
      default:
        plain += c;
    }
  }
  return plain.starts_with('.') ? "\\&" + plain : plain;
}

std::string Upper(std::string text) {
  std::ranges::transform(text, text.begin(),
                         [](unsigned char c) { return static_cast<char>(std::toupper(c)); });
  return text;
}

std::string Heading(const std::string& text) { return ".SH " + Upper(Plain(text)) + "\n"; }

// "\fB\-\-beam\fR \fIN\fR", followed by its description.
std::string Entry(const OptionNode& option) {
  std::string head;
  if (option.is_positional) {
    head = fmt::format("\\fI{}\\fR{}", Plain(option.names[0]), option.is_repeatable ? "..." : "");
  }
  for (size_t i = 0; i < option.names.size() && !option.is_positional; ++i) {
    head += fmt::format("{}\\fB{}\\fR", i == 0 ? "" : ", ", Plain(option.names[i]));
  }
  const std::string value = option.is_positional ? "" : option.value;
  if (!value.empty()) head += fmt::format(" \\fI{}\\fR", Plain(value));
  return fmt::format(".TP\n{}\n{}\n", head, Plain(FullHelp(option)));
}

// --help is listed once, for the program.
std::string Entries(const CommandNode& command, bool is_program) {
  std::string text;
  for (const OptionNode& option : command.options) {
    if (option.is_positional) text += Entry(option);
  }
  for (const std::string& group : GroupsOf(command)) {
    for (const OptionNode& option : command.options) {
      if (option.is_positional || option.group != group) continue;
      if (is_program || option.names.back() != "--help") text += Entry(option);
    }
  }
  return text;
}

std::string Examples(const std::string& footer) {
  std::string text;
  for (const std::string& example : ExamplesOf(footer)) text += Plain(example) + "\n";
  return text.empty() ? text : ".in +4n\n.nf\n" + text + ".fi\n.in\n";
}

std::string Command(const std::string& program, const CommandNode& command) {
  std::string text =
      fmt::format(".SS {}\n", Plain(UsageText(program + " " + command.name, command)));
  text += Plain(command.help) + "\n" + Entries(command, false);
  const std::string examples = Examples(command.footer);
  return examples.empty() ? text : text + ".PP\nExamples:\n" + examples;
}

std::string Variables(const CommandNode& program) {
  std::string text;
  const auto add = [&text](const CommandNode& command) {
    for (const OptionNode& option : command.options) {
      if (option.variable.empty()) continue;
      text += fmt::format(".TP\n\\fB{}\\fR\nSets {}.\n", Plain(option.variable),
                          Plain(option.names.back()));
    }
  };
  add(program);
  for (const CommandNode& command : program.commands) add(command);
  return text;
}

std::string Section(const ManualSection& section) {
  std::string text;
  for (const std::string& paragraph : section.paragraphs) {
    const size_t colon = paragraph.find(": ");
    if (colon == std::string::npos) {
      text += (text.empty() ? "" : ".PP\n") + Plain(paragraph) + "\n";
    } else {
      text += fmt::format(".TP\n\\fB{}\\fR\n{}\n", Plain(paragraph.substr(0, colon)),
                          Plain(paragraph.substr(colon + 2)));
    }
  }
  return text;
}

}  // namespace

std::string ManPage(const CommandNode& program, const std::string& version,
                    const std::vector<ManualSection>& sections) {
  // No date, so that the page depends only on the sources.
  std::string page =
      fmt::format(".TH {} 1 \"\" \"{}\" \"User Commands\"\n", Upper(Plain(program.name)), version);
  std::string brief = program.help.substr(0, program.help.find_first_of(".:"));
  if (!brief.empty())
    brief[0] = static_cast<char>(std::tolower(static_cast<unsigned char>(brief[0])));
  page += fmt::format(".SH NAME\n{} \\- {}\n", Plain(program.name), Plain(brief));
  page += fmt::format(".SH SYNOPSIS\n{}\n", Plain(UsageText(program.name, program)));
  page += fmt::format(".SH DESCRIPTION\n{}\n", Plain(program.help));
  page += ".SH OPTIONS\n" + Entries(program, true);
  if (!program.commands.empty()) {
    page += ".SH COMMANDS\n";
    for (const CommandNode& command : program.commands) page += Command(program.name, command);
  }
  if (const std::string variables = Variables(program); !variables.empty()) {
    page += ".SH ENVIRONMENT\n" + variables;
  }
  for (const ManualSection& section : sections) page += Heading(section.heading) + Section(section);
  if (const std::string examples = Examples(program.footer); !examples.empty()) {
    page += ".SH EXAMPLES\n" + examples;
  }
  return page;
}

}  // namespace beamline

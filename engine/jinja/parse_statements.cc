#include <algorithm>
#include <array>
#include <utility>

#include "base/text.h"
#include "engine/jinja/parser.h"
#include "fmt/format.h"
#include "fmt/ranges.h"

namespace beamline::jinja {

Parser::Parser(std::vector<Token> tokens) : tokens_(std::move(tokens)) {
  for (const char* name : {"loop", "caller", "varargs", "kwargs"}) NameId(name);
  seen_.resize(4);
}

Parser::Deeper::Deeper(Parser& its_parser) : parser(its_parser) {
  if (++parser.depth_ > kMostDepth) {
    --parser.depth_;
    parser.Fail(fmt::format("nested deeper than {} levels", kMostDepth));
  }
}

Program Parser::Run() {
  Program program;
  program.body = ParseBody({});
  program.names = std::move(names_);
  return program;
}

Token Parser::Take() {
  Token token = tokens_[position_];
  if (position_ + 1 < tokens_.size()) ++position_;
  return token;
}

bool Parser::IsName(std::string_view name) const {
  return Now().type == TokenType::kName && Now().text == name;
}

bool Parser::IsOperator(std::string_view text) const {
  return Now().type == TokenType::kOperator && Now().text == text;
}

bool Parser::TakeName(std::string_view name) {
  if (!IsName(name)) return false;
  Take();
  return true;
}

bool Parser::TakeOperator(std::string_view text) {
  if (!IsOperator(text)) return false;
  Take();
  return true;
}

void Parser::Fail(std::string message, int line) const {
  throw Fault{std::move(message), line > 0 ? line : Now().line};
}

void Parser::FailExpected(std::string_view what) const {
  const bool has_text = Now().type == TokenType::kName || Now().type == TokenType::kOperator;
  Fail(fmt::format("{} is expected, found {}", what,
                   has_text                        ? fmt::format("'{}'", Shorten(Now().text))
                   : Now().type == TokenType::kEnd ? "the end of the template"
                                                   : "something else"));
}

void Parser::Expect(TokenType type, std::string_view what) {
  if (Now().type != type) FailExpected(what);
  Take();
}

void Parser::ExpectOperator(std::string_view text) {
  if (!IsOperator(text)) FailExpected(fmt::format("'{}'", text));
  Take();
}

std::string Parser::ExpectName() {
  std::string name = Now().text;
  Expect(TokenType::kName, "a name");
  return name;
}

int Parser::NameId(std::string_view name) {
  const auto [found, added] =
      name_ids_.try_emplace(std::string(name), static_cast<int>(names_.size()));
  if (added) names_.emplace_back(name);
  if (static_cast<size_t>(found->second) < seen_.size()) {
    seen_[static_cast<size_t>(found->second)] = true;
  }
  return found->second;
}

void Parser::CheckTarget(const Expression& target) const {
  if (target.kind == ExpressionKind::kTuple) {
    for (const ExpressionPtr& one : target.operands) CheckTarget(*one);
    return;
  }
  if (target.kind != ExpressionKind::kName && target.kind != ExpressionKind::kMember) {
    Fail("can't assign to what is not a name", target.line);
  }
}

ExpressionPtr Parser::ParseTarget(std::string_view end, bool with_members) {
  ExpressionPtr target =
      ParseTuple({.targets_only = true, .with_members = with_members, .end = end});
  CheckTarget(*target);
  return target;
}

Body Parser::ParseBody(const std::vector<std::string_view>& ends) {
  Body body;
  while (Now().type != TokenType::kEnd) {
    if (Now().type == TokenType::kData) {
      body.push_back(std::make_unique<Statement>());
      body.back()->line = Now().line;
      body.back()->text = Take().text;
      continue;
    }
    if (Now().type == TokenType::kPrintBegin) {
      body.push_back(std::make_unique<Statement>());
      body.back()->kind = StatementKind::kPrint;
      body.back()->line = Take().line;
      body.back()->expressions.push_back(ParseTuple({}));
      Expect(TokenType::kPrintEnd, "'}}'");
      continue;
    }
    Expect(TokenType::kBlockBegin, "a tag");
    if (Now().type == TokenType::kName && std::ranges::find(ends, Now().text) != ends.end()) {
      return body;
    }
    body.push_back(ParseStatement());
    Expect(TokenType::kBlockEnd, "'%}'");
  }
  if (!ends.empty()) {
    Fail(fmt::format("the template ends where {} is expected", fmt::join(ends, " or ")));
  }
  return body;
}

Body Parser::ParseStatements(const std::vector<std::string_view>& ends) {
  const Deeper deeper(*this);
  TakeOperator(":");
  Expect(TokenType::kBlockEnd, "'%}'");
  return ParseBody(ends);
}

StatementPtr Parser::ParseStatement() {
  const std::string name = Now().text;
  if (Now().type != TokenType::kName) Fail("a tag's name is expected");
  if (name == "for") return ParseFor();
  if (name == "if") return ParseIf();
  if (name == "set") return ParseSet();
  if (name == "macro") return ParseMacro();
  if (name == "call") return ParseCallBlock();
  if (name == "filter") return ParseFilterBlock();
  if (name == "with") return ParseWith();
  if (name == "print") return ParsePrint();
  if (name == "generation") return ParseGeneration();
  if (name == "break") return ParseJump(StatementKind::kBreak);
  if (name == "continue") return ParseJump(StatementKind::kContinue);
  constexpr std::array<std::string_view, 6> kOthers = {"block",  "extends", "include",
                                                       "import", "from",    "autoescape"};
  if (std::ranges::find(kOthers, name) != kOthers.end()) {
    Fail(fmt::format("the tag '{}' is not supported in chat templates", name));
  }
  Fail(fmt::format("unknown tag '{}'", Shorten(name)));
}

StatementPtr Parser::ParseFor() {
  auto made = std::make_unique<Statement>();
  made->kind = StatementKind::kFor;
  made->line = Take().line;
  made->targets.push_back(ParseTarget("in", false));
  if (!TakeName("in")) Fail("'in' is expected");
  made->expressions.push_back(ParseTuple({.with_conditional = false, .end = "recursive"}));
  made->expressions.push_back(TakeName("if") ? ParseExpression() : nullptr);
  if (IsName("recursive")) Fail("recursive loops are not supported");
  ++loops_;
  made->bodies.push_back(ParseStatements({"endfor", "else"}));
  --loops_;
  if (Take().text == "else") {
    made->bodies.push_back(ParseStatements({"endfor"}));
    Take();
  }
  return made;
}

StatementPtr Parser::ParseIf() {
  auto made = std::make_unique<Statement>();
  made->kind = StatementKind::kIf;
  made->line = Take().line;
  while (true) {
    made->expressions.push_back(ParseTuple({.with_conditional = false}));
    made->bodies.push_back(ParseStatements({"elif", "else", "endif"}));
    const std::string end = Take().text;
    if (end == "elif") continue;
    if (end == "else") {
      made->bodies.push_back(ParseStatements({"endif"}));
      Take();
    }
    return made;
  }
}

StatementPtr Parser::ParseSet() {
  auto made = std::make_unique<Statement>();
  made->kind = StatementKind::kSet;
  made->line = Take().line;
  made->targets.push_back(ParseTarget("", true));
  if (TakeOperator("=")) {
    made->expressions.push_back(ParseTuple({}));
    return made;
  }
  made->kind = StatementKind::kSetBlock;
  ExpressionPtr filter;
  while (TakeOperator("|")) filter = ParseFilter(std::move(filter));
  made->expressions.push_back(std::move(filter));
  made->bodies.push_back(ParseStatements({"endset"}));
  Take();
  return made;
}

void Parser::ParseSignature(Statement& statement) {
  ExpectOperator("(");
  while (!IsOperator(")")) {
    if (!statement.parameters.empty()) ExpectOperator(",");
    statement.parameter_names.push_back(ExpectName());
    statement.parameters.push_back(NameId(statement.parameter_names.back()));
    if (TakeOperator("=")) {
      statement.defaults.push_back(ParseExpression());
    } else if (!statement.defaults.empty()) {
      Fail("non-default argument follows default argument");
    }
  }
  ExpectOperator(")");
}

void Parser::ParseFunctionBody(Statement& statement, std::string_view end) {
  const int loops = std::exchange(loops_, 0);
  std::vector<bool> seen(4);
  std::swap(seen, seen_);
  statement.bodies.push_back(ParseStatements({end}));
  Take();
  statement.takes_caller = seen_[kCallerName];
  statement.takes_varargs = seen_[kVarargsName];
  statement.takes_kwargs = seen_[kKwargsName];
  for (size_t i = 0; i < seen.size(); ++i) seen_[i] = seen_[i] || seen[i];
  loops_ = loops;
}

StatementPtr Parser::ParseMacro() {
  auto made = std::make_unique<Statement>();
  made->kind = StatementKind::kMacro;
  made->line = Take().line;
  made->text = ExpectName();
  made->name = NameId(made->text);
  ParseSignature(*made);
  ParseFunctionBody(*made, "endmacro");
  return made;
}

StatementPtr Parser::ParseCallBlock() {
  auto made = std::make_unique<Statement>();
  made->kind = StatementKind::kCallBlock;
  made->line = Take().line;
  made->text = "caller";
  if (IsOperator("(")) ParseSignature(*made);
  made->expressions.push_back(ParseExpression());
  if (made->expressions.front()->kind != ExpressionKind::kCall) Fail("expected call", made->line);
  ParseFunctionBody(*made, "endcall");
  return made;
}

StatementPtr Parser::ParseFilterBlock() {
  auto made = std::make_unique<Statement>();
  made->kind = StatementKind::kFilterBlock;
  made->line = Take().line;
  ExpressionPtr filter = ParseFilter(nullptr);
  while (TakeOperator("|")) filter = ParseFilter(std::move(filter));
  made->expressions.push_back(std::move(filter));
  made->bodies.push_back(ParseStatements({"endfilter"}));
  Take();
  return made;
}

StatementPtr Parser::ParseWith() {
  auto made = std::make_unique<Statement>();
  made->kind = StatementKind::kWith;
  made->line = Take().line;
  while (Now().type != TokenType::kBlockEnd) {
    if (!made->targets.empty()) ExpectOperator(",");
    made->targets.push_back(ParseTarget("", false));
    ExpectOperator("=");
    made->expressions.push_back(ParseExpression());
  }
  made->bodies.push_back(ParseStatements({"endwith"}));
  Take();
  return made;
}

StatementPtr Parser::ParsePrint() {
  auto made = std::make_unique<Statement>();
  made->kind = StatementKind::kPrint;
  made->line = Take().line;
  while (Now().type != TokenType::kBlockEnd) {
    if (!made->expressions.empty()) ExpectOperator(",");
    made->expressions.push_back(ParseExpression());
  }
  return made;
}

StatementPtr Parser::ParseGeneration() {
  auto made = std::make_unique<Statement>();
  made->kind = StatementKind::kScope;
  made->line = Take().line;
  // transformers renders this block in a function of its own, so loops outside do not apply inside.
  const int loops = std::exchange(loops_, 0);
  made->bodies.push_back(ParseStatements({"endgeneration"}));
  Take();
  loops_ = loops;
  return made;
}

StatementPtr Parser::ParseJump(StatementKind kind) {
  auto made = std::make_unique<Statement>();
  made->kind = kind;
  made->line = Now().line;
  if (loops_ == 0) Fail(fmt::format("'{}' outside of a loop", Now().text));
  Take();
  return made;
}

Program Parse(std::string_view source) { return Parser(Tokenize(source)).Run(); }

}  // namespace beamline::jinja

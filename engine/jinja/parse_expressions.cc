// Long because every precedence level has a function.
#include <algorithm>
#include <array>
#include <utility>

#include "base/text.h"
#include "engine/jinja/filters.h"
#include "engine/jinja/parser.h"
#include "engine/jinja/value_tests.h"
#include "fmt/format.h"

namespace beamline::jinja {

ExpressionPtr Parser::Make(ExpressionKind kind, int line, std::string text) const {
  auto made = std::make_unique<Expression>();
  made->kind = kind;
  made->line = line;
  made->text = std::move(text);
  return made;
}

void Parser::Add(Expression& parent, ExpressionPtr operand) const {
  if (operand != nullptr) {
    parent.depth = std::max(parent.depth, operand->depth + 1);
    if (parent.depth > kMostDepth) {
      Fail(fmt::format("nested deeper than {} levels", kMostDepth), parent.line);
    }
  }
  parent.operands.push_back(std::move(operand));
}

ExpressionPtr Parser::ParseExpression(bool with_conditional) {
  const Deeper deeper(*this);
  if (!with_conditional) return ParseOr();
  ExpressionPtr then = ParseOr();
  while (IsName("if")) {
    auto node = Make(ExpressionKind::kConditional, Take().line);
    Add(*node, ParseOr());
    Add(*node, std::move(then));
    Add(*node, TakeName("else") ? ParseExpression() : nullptr);
    then = std::move(node);
  }
  return then;
}

ExpressionPtr Parser::ParseOr() {
  ExpressionPtr left = ParseAnd();
  while (IsName("or")) {
    auto node = Make(ExpressionKind::kOr, Take().line);
    Add(*node, std::move(left));
    Add(*node, ParseAnd());
    left = std::move(node);
  }
  return left;
}

ExpressionPtr Parser::ParseAnd() {
  ExpressionPtr left = ParseNot();
  while (IsName("and")) {
    auto node = Make(ExpressionKind::kAnd, Take().line);
    Add(*node, std::move(left));
    Add(*node, ParseNot());
    left = std::move(node);
  }
  return left;
}

ExpressionPtr Parser::ParseNot() {
  if (!IsName("not")) return ParseCompare();
  const Deeper deeper(*this);
  auto node = Make(ExpressionKind::kNot, Take().line);
  Add(*node, ParseNot());
  return node;
}

ExpressionPtr Parser::ParseCompare() {
  constexpr std::array<std::string_view, 6> kOperators = {"==", "!=", "<", "<=", ">", ">="};
  ExpressionPtr first = ParseSum();
  ExpressionPtr node;
  while (true) {
    std::string text;
    if (Now().type == TokenType::kOperator &&
        std::ranges::find(kOperators, Now().text) != kOperators.end()) {
      text = Take().text;
    } else if (TakeName("in")) {
      text = "in";
    } else if (IsName("not") && Next().type == TokenType::kName && Next().text == "in") {
      Take();
      Take();
      text = "not in";
    } else {
      break;
    }
    if (node == nullptr) {
      node = Make(ExpressionKind::kCompare, first->line);
      Add(*node, std::move(first));
    }
    node->operators.push_back(std::move(text));
    Add(*node, ParseSum());
  }
  return node == nullptr ? std::move(first) : std::move(node);
}

ExpressionPtr Parser::ParseSum() {
  ExpressionPtr left = ParseConcat();
  while (IsOperator("+") || IsOperator("-")) {
    const Token token = Take();
    auto node = Make(ExpressionKind::kArithmetic, token.line, token.text);
    Add(*node, std::move(left));
    Add(*node, ParseConcat());
    left = std::move(node);
  }
  return left;
}

ExpressionPtr Parser::ParseConcat() {
  ExpressionPtr first = ParseProduct();
  if (!IsOperator("~")) return first;
  auto node = Make(ExpressionKind::kConcat, Now().line);
  Add(*node, std::move(first));
  while (TakeOperator("~")) Add(*node, ParseProduct());
  return node;
}

ExpressionPtr Parser::ParseProduct() {
  ExpressionPtr left = ParsePower();
  while (IsOperator("*") || IsOperator("/") || IsOperator("//") || IsOperator("%")) {
    const Token token = Take();
    auto node = Make(ExpressionKind::kArithmetic, token.line, token.text);
    Add(*node, std::move(left));
    Add(*node, ParsePower());
    left = std::move(node);
  }
  return left;
}

ExpressionPtr Parser::ParsePower() {
  ExpressionPtr left = ParseUnary();
  while (IsOperator("**")) {
    auto node = Make(ExpressionKind::kArithmetic, Take().line, "**");
    Add(*node, std::move(left));
    Add(*node, ParseUnary());
    left = std::move(node);
  }
  return left;
}

ExpressionPtr Parser::ParseUnary(bool with_filter) {
  const Deeper deeper(*this);
  ExpressionPtr node;
  if (IsOperator("-") || IsOperator("+")) {
    const Token token = Take();
    node =
        Make(token.text == "-" ? ExpressionKind::kNegative : ExpressionKind::kPositive, token.line);
    Add(*node, ParseUnary(false));
  } else {
    node = ParsePrimary();
  }
  node = ParsePostfix(std::move(node));
  return with_filter ? ParseFilters(std::move(node)) : std::move(node);
}

ExpressionPtr Parser::ParsePrimary(bool with_member) {
  const Token token = Now();
  auto node = Make(ExpressionKind::kConstant, token.line);
  switch (token.type) {
    case TokenType::kName:
      Take();
      if (token.text == "true" || token.text == "True") {
        node->value = Value::Bool(true);
      } else if (token.text == "false" || token.text == "False") {
        node->value = Value::Bool(false);
      } else if (token.text == "none" || token.text == "None") {
        node->value = Value::None();
      } else {
        node->kind = ExpressionKind::kName;
        node->name = NameId(token.text);
        if (with_member && TakeOperator(".")) {
          node->kind = ExpressionKind::kMember;
          node->text = ExpectName();
        }
      }
      return node;
    case TokenType::kString: {
      std::string text;
      while (Now().type == TokenType::kString) text += Take().text;
      node->value = MakeString(std::move(text));
      return node;
    }
    case TokenType::kNumber:
      node->value = Take().value;
      return node;
    default:
      break;
  }
  if (TakeOperator("(")) {
    node = ParseTuple({.in_parentheses = true});
    ExpectOperator(")");
    return node;
  }
  if (IsOperator("[")) return ParseList();
  if (IsOperator("{")) return ParseDict();
  Fail(fmt::format("unexpected {}", token.type == TokenType::kOperator
                                        ? fmt::format("'{}'", token.text)
                                        : "end of the tag"),
       token.line);
}

bool Parser::IsTupleEnd(std::string_view end) const {
  return Now().type == TokenType::kPrintEnd || Now().type == TokenType::kBlockEnd ||
         IsOperator(")") || (!end.empty() && IsName(end));
}

ExpressionPtr Parser::ParseTuple(const TupleRules& rules) {
  const Deeper deeper(*this);
  auto tuple = Make(ExpressionKind::kTuple, Now().line);
  bool is_tuple = false;
  while (true) {
    if (!tuple->operands.empty()) ExpectOperator(",");
    if (IsTupleEnd(rules.end)) break;
    Add(*tuple, rules.targets_only ? ParsePrimary(rules.with_members)
                                   : ParseExpression(rules.with_conditional));
    if (!IsOperator(",")) break;
    is_tuple = true;
  }
  if (is_tuple) return tuple;
  if (!tuple->operands.empty()) return std::move(tuple->operands.front());
  if (!rules.in_parentheses) Fail("an expression is expected");
  return tuple;
}

ExpressionPtr Parser::ParseList() {
  auto node = Make(ExpressionKind::kList, Take().line);
  while (!IsOperator("]")) {
    if (!node->operands.empty()) ExpectOperator(",");
    if (IsOperator("]")) break;
    Add(*node, ParseExpression());
  }
  ExpectOperator("]");
  return node;
}

ExpressionPtr Parser::ParseDict() {
  auto node = Make(ExpressionKind::kDict, Take().line);
  while (!IsOperator("}")) {
    if (!node->operands.empty()) ExpectOperator(",");
    if (IsOperator("}")) break;
    Add(*node, ParseExpression());
    ExpectOperator(":");
    Add(*node, ParseExpression());
  }
  ExpectOperator("}");
  return node;
}

ExpressionPtr Parser::ParsePostfix(ExpressionPtr node) {
  while (true) {
    if (IsOperator(".") || IsOperator("[")) {
      node = ParseSubscript(std::move(node));
    } else if (IsOperator("(")) {
      node = ParseCall(std::move(node));
    } else {
      return node;
    }
  }
}

ExpressionPtr Parser::ParseFilters(ExpressionPtr node) {
  while (true) {
    if (TakeOperator("|")) {
      node = ParseFilter(std::move(node));
    } else if (TakeName("is")) {
      node = ParseTest(std::move(node));
    } else if (IsOperator("(")) {
      node = ParseCall(std::move(node));
    } else {
      return node;
    }
  }
}

ExpressionPtr Parser::ParseSubscript(ExpressionPtr node) {
  const Token token = Take();
  if (token.text == ".") {
    if (Now().type == TokenType::kName) {
      auto attribute = Make(ExpressionKind::kAttribute, token.line, Take().text);
      Add(*attribute, std::move(node));
      return attribute;
    }
    if (Now().type != TokenType::kNumber || !Now().value.is(Kind::kInt)) {
      Fail("expected name or number");
    }
    auto key = Make(ExpressionKind::kConstant, token.line);
    key->value = Take().value;
    auto item = Make(ExpressionKind::kItem, token.line);
    Add(*item, std::move(node));
    Add(*item, std::move(key));
    return item;
  }
  std::vector<ExpressionPtr> keys;
  while (!IsOperator("]")) {
    if (!keys.empty()) ExpectOperator(",");
    keys.push_back(ParseSubscribed());
  }
  ExpectOperator("]");
  auto item = Make(ExpressionKind::kItem, token.line);
  Add(*item, std::move(node));
  if (keys.size() == 1) {
    Add(*item, std::move(keys.front()));
  } else {
    auto tuple = Make(ExpressionKind::kTuple, token.line);
    for (ExpressionPtr& key : keys) Add(*tuple, std::move(key));
    Add(*item, std::move(tuple));
  }
  return item;
}

ExpressionPtr Parser::ParseSubscribed() {
  const auto ends = [this] { return IsOperator("]") || IsOperator(",") || IsOperator(":"); };
  const int line = Now().line;
  ExpressionPtr start = IsOperator(":") ? nullptr : ParseExpression();
  if (!TakeOperator(":")) return start;
  auto slice = Make(ExpressionKind::kSlice, line);
  Add(*slice, std::move(start));
  Add(*slice, ends() ? nullptr : ParseExpression());
  Add(*slice, TakeOperator(":") && !ends() ? ParseExpression() : nullptr);
  return slice;
}

CallArguments Parser::ParseArguments(int* depth) {
  const int line = Now().line;
  ExpectOperator("(");
  CallArguments made;
  const auto ensure = [&](bool holds) {
    if (!holds) Fail("invalid syntax for function call expression", line);
  };
  const auto parse = [&] {
    ExpressionPtr argument = ParseExpression();
    *depth = std::max(*depth, argument->depth + 1);
    return argument;
  };
  bool is_first = true;
  while (!IsOperator(")")) {
    if (!is_first) {
      ExpectOperator(",");
      if (IsOperator(")")) break;
    }
    is_first = false;
    if (TakeOperator("*")) {
      ensure(made.all_positional == nullptr && made.all_named == nullptr);
      made.all_positional = parse();
    } else if (TakeOperator("**")) {
      ensure(made.all_named == nullptr);
      made.all_named = parse();
    } else if (Now().type == TokenType::kName && Next().type == TokenType::kOperator &&
               Next().text == "=") {
      ensure(made.all_named == nullptr);
      std::string name = Take().text;
      Take();
      made.named.emplace_back(std::move(name), parse());
    } else {
      ensure(made.all_positional == nullptr && made.all_named == nullptr && made.named.empty());
      made.positional.push_back(parse());
    }
  }
  ExpectOperator(")");
  return made;
}

ExpressionPtr Parser::ParseCall(ExpressionPtr node) {
  auto call = Make(ExpressionKind::kCall, Now().line);
  call->arguments = ParseArguments(&call->depth);
  Add(*call, std::move(node));
  return call;
}

ExpressionPtr Parser::ParseFilter(ExpressionPtr node) {
  const int line = Now().line;
  auto filter = Make(ExpressionKind::kFilter, line, ExpectName());
  while (TakeOperator(".")) filter->text += "." + ExpectName();
  if (FindFilter(filter->text) == nullptr) {
    Fail(fmt::format("there is no filter '{}'", Shorten(filter->text)), line);
  }
  if (IsOperator("(")) filter->arguments = ParseArguments(&filter->depth);
  Add(*filter, std::move(node));
  return filter;
}

ExpressionPtr Parser::ParseTest(ExpressionPtr node) {
  const int line = Now().line;
  const bool negated = TakeName("not");
  auto test = Make(ExpressionKind::kTest, line, ExpectName());
  while (TakeOperator(".")) test->text += "." + ExpectName();
  if (FindTest(test->text) == nullptr) {
    Fail(fmt::format("there is no test '{}'", Shorten(test->text)), line);
  }
  const bool has_argument = Now().type == TokenType::kName || Now().type == TokenType::kString ||
                            Now().type == TokenType::kNumber || IsOperator("[") || IsOperator("{");
  if (IsOperator("(")) {
    test->arguments = ParseArguments(&test->depth);
  } else if (has_argument && !IsName("else") && !IsName("or") && !IsName("and")) {
    if (IsName("is")) Fail("You cannot chain multiple tests with is");
    ExpressionPtr argument = ParsePostfix(ParsePrimary());
    test->depth = argument->depth + 1;
    test->arguments.positional.push_back(std::move(argument));
  }
  Add(*test, std::move(node));
  if (!negated) return test;
  auto negation = Make(ExpressionKind::kNot, line);
  Add(*negation, std::move(test));
  return negation;
}

}  // namespace beamline::jinja

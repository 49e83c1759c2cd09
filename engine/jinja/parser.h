// The parser's state, shared by expressions and statements. Source: jinja2/parser.py of Jinja 3.1.
#pragma once

#include <algorithm>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "engine/jinja/ast.h"
#include "engine/jinja/lexer.h"

namespace beamline::jinja {

// Every method throws Fault.
class Parser {
 public:
  // Maximum nesting of expressions and statements, and depth of trees from operator chains.
  static constexpr int kMostDepth = 100;

  explicit Parser(std::vector<Token> tokens);
  Program Run();

 protected:
  struct Deeper {
    explicit Deeper(Parser& its_parser);
    ~Deeper() { --parser.depth_; }
    Parser& parser;
  };

  // Tokens.
  const Token& Now() const { return tokens_[position_]; }
  const Token& Next() const { return tokens_[std::min(position_ + 1, tokens_.size() - 1)]; }
  Token Take();
  bool IsName(std::string_view name) const;
  bool IsOperator(std::string_view text) const;
  bool TakeName(std::string_view name);
  bool TakeOperator(std::string_view text);
  void Expect(TokenType type, std::string_view what);
  void ExpectOperator(std::string_view text);
  std::string ExpectName();
  [[noreturn]] void Fail(std::string message, int line = 0) const;
  [[noreturn]] void FailExpected(std::string_view what) const;
  int NameId(std::string_view name);

  // Expressions.
  ExpressionPtr Make(ExpressionKind kind, int line, std::string text = "") const;
  // Adds an operand that is already parsed.
  void Add(Expression& parent, ExpressionPtr operand) const;
  ExpressionPtr ParseExpression(bool with_conditional = true);
  ExpressionPtr ParseOr();
  ExpressionPtr ParseAnd();
  ExpressionPtr ParseNot();
  ExpressionPtr ParseCompare();
  ExpressionPtr ParseSum();
  ExpressionPtr ParseConcat();
  ExpressionPtr ParseProduct();
  ExpressionPtr ParsePower();
  ExpressionPtr ParseUnary(bool with_filter = true);
  ExpressionPtr ParsePrimary(bool with_member = false);
  ExpressionPtr ParseList();
  ExpressionPtr ParseDict();
  ExpressionPtr ParsePostfix(ExpressionPtr node);
  ExpressionPtr ParseFilters(ExpressionPtr node);
  ExpressionPtr ParseSubscript(ExpressionPtr node);
  ExpressionPtr ParseSubscribed();
  ExpressionPtr ParseCall(ExpressionPtr node);
  ExpressionPtr ParseFilter(ExpressionPtr node);
  ExpressionPtr ParseTest(ExpressionPtr node);
  CallArguments ParseArguments(int* depth);

  struct TupleRules {
    bool targets_only = false;
    bool with_conditional = true;
    bool in_parentheses = false;
    bool with_members = false;
    std::string_view end = {};  // a name that ends the tuple
  };
  ExpressionPtr ParseTuple(const TupleRules& rules);
  bool IsTupleEnd(std::string_view end) const;
  ExpressionPtr ParseTarget(std::string_view end, bool with_members);
  void CheckTarget(const Expression& target) const;

  // Statements.
  Body ParseBody(const std::vector<std::string_view>& ends);
  // Parses the statements after a tag's head, up to one of `ends`, which is not consumed.
  Body ParseStatements(const std::vector<std::string_view>& ends);
  StatementPtr ParseStatement();
  StatementPtr ParseFor();
  StatementPtr ParseIf();
  StatementPtr ParseSet();
  StatementPtr ParseMacro();
  StatementPtr ParseCallBlock();
  StatementPtr ParseFilterBlock();
  StatementPtr ParseWith();
  StatementPtr ParsePrint();
  StatementPtr ParseGeneration();
  StatementPtr ParseJump(StatementKind kind);
  void ParseSignature(Statement& statement);
  void ParseFunctionBody(Statement& statement, std::string_view end);

 private:
  std::vector<Token> tokens_;
  size_t position_ = 0;
  int depth_ = 0;
  int loops_ = 0;  // loops around this place in the current function
  std::vector<std::string> names_;
  absl::flat_hash_map<std::string, int> name_ids_;
  std::vector<bool> seen_;  // well-known names used in the function being parsed
};

}  // namespace beamline::jinja

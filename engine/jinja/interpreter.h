// Renders a program: statements, expressions, macros.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "engine/jinja/ast.h"
#include "engine/jinja/run.h"
#include "engine/jinja/value.h"

namespace beamline::jinja {

class Interpreter {
 public:
  // Both must outlive the interpreter.
  Interpreter(const Program& program, Run& run) : program_(program), run_(run) {}

  // Throws Fault.
  std::string Render(const Variables& variables);

  // The line that is being executed.
  int line() const { return line_; }

 private:
  enum class Flow : uint8_t { kOn, kBreak, kContinue };

  using ScopePtr = std::shared_ptr<Scope>;
  static ScopePtr Inner(const ScopePtr& outer);

  // Statements.
  Flow Execute(const Body& body, const ScopePtr& scope);
  Flow Execute(const Statement& statement, const ScopePtr& scope);
  Flow ExecuteIf(const Statement& statement, const ScopePtr& scope);
  Flow ExecuteFor(const Statement& statement, const ScopePtr& scope);
  void ExecuteSet(const Statement& statement, const ScopePtr& scope);
  Flow ExecuteSetBlock(const Statement& statement, const ScopePtr& scope);
  void ExecuteCallBlock(const Statement& statement, const ScopePtr& scope);
  Flow ExecuteFilterBlock(const Statement& statement, const ScopePtr& scope);
  Flow ExecuteWith(const Statement& statement, const ScopePtr& scope);
  void Assign(const Expression& target, const Value& value, Scope& scope);
  void SetVariable(Scope& scope, int name, Value value);
  void Write(std::string_view text);
  // Stores what the body writes in *text.
  Flow Capture(const Body& body, const ScopePtr& scope, std::string* text);

  // Macros.
  Value NewMacro(const Statement& statement, const ScopePtr& scope);
  Value Call(const Value& callee, Args args);
  Value CallMacro(const Value& callee, Args args);
  void BindParameters(const Statement& macro, Args& args, Scope& scope, const ScopePtr& shared);

  // Expressions.
  Value Evaluate(const Expression& expression, Scope& scope);
  Value EvaluateName(const Expression& expression, const Scope& scope);
  Value EvaluateConditional(const Expression& expression, Scope& scope);
  Value EvaluateCompare(const Expression& expression, Scope& scope);
  Value EvaluateConcat(const Expression& expression, Scope& scope);
  Value EvaluateDict(const Expression& expression, Scope& scope);
  Value EvaluateItem(const Expression& expression, Scope& scope);
  // `input`: the text of a filter block, else null.
  Value EvaluateFilter(const Expression& expression, Scope& scope, const Value* input);
  std::vector<Value> EvaluateAll(const std::vector<ExpressionPtr>& expressions, Scope& scope);
  Args EvaluateArguments(const CallArguments& arguments, Scope& scope);

  const Program& program_;
  Run& run_;
  int line_ = 1;
  std::string* output_ = nullptr;
};

}  // namespace beamline::jinja

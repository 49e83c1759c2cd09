#include <memory>
#include <utility>

#include "base/text.h"
#include "engine/jinja/filters.h"
#include "engine/jinja/interpreter.h"
#include "engine/jinja/operators.h"
#include "engine/jinja/value_tests.h"
#include "fmt/format.h"

namespace beamline::jinja {

std::vector<Value> Interpreter::EvaluateAll(const std::vector<ExpressionPtr>& expressions,
                                            Scope& scope) {
  std::vector<Value> values;
  values.reserve(expressions.size());
  for (const ExpressionPtr& expression : expressions) {
    values.push_back(Evaluate(*expression, scope));
  }
  return values;
}

Args Interpreter::EvaluateArguments(const CallArguments& arguments, Scope& scope) {
  Args args;
  args.positional = EvaluateAll(arguments.positional, scope);
  for (const auto& [name, expression] : arguments.named) {
    args.named.emplace_back(name, Evaluate(*expression, scope));
  }
  if (arguments.all_positional != nullptr) {
    for (Value& value : Iterate(run_, Evaluate(*arguments.all_positional, scope))) {
      args.positional.push_back(std::move(value));
    }
  }
  if (arguments.all_named != nullptr) {
    const Value more = Evaluate(*arguments.all_named, scope);
    if (!more.is(Kind::kDict)) run_.Fail("argument after ** must be a mapping");
    for (const auto& [key, value] : more.as<DictObject>().entries) {
      if (!key.is(Kind::kString)) run_.Fail("keywords must be strings");
      run_.Room(sizeof(args.named[0]) + Text(key).size());
      args.named.emplace_back(Text(key), value);
    }
  }
  return args;
}

Value Interpreter::EvaluateName(const Expression& expression, const Scope& scope) {
  size_t looked = 0;
  const Value* const found = scope.Find(expression.name, &looked);
  constexpr size_t kLookedPerStep = 64;
  run_.Step(looked / kLookedPerStep);
  if (found != nullptr) return *found;
  return run_.Undefined(fmt::format("'{}' is undefined",
                                    Shorten(program_.names[static_cast<size_t>(expression.name)])));
}

Value Interpreter::EvaluateCompare(const Expression& expression, Scope& scope) {
  Value left = Evaluate(*expression.operands[0], scope);
  for (size_t i = 0; i < expression.operators.size(); ++i) {
    const std::string& symbol = expression.operators[i];
    Value right = Evaluate(*expression.operands[i + 1], scope);
    line_ = expression.line;
    bool holds = false;
    if (symbol == "==") {
      holds = IsEqual(run_, left, right);
    } else if (symbol == "!=") {
      holds = !IsEqual(run_, left, right);
    } else if (symbol == "<") {
      holds = IsLess(run_, left, right);
    } else if (symbol == ">") {
      holds = IsLess(run_, right, left);
    } else if (symbol == "<=") {
      holds = IsLess(run_, left, right) || IsEqual(run_, left, right);
    } else if (symbol == ">=") {
      holds = IsLess(run_, right, left) || IsEqual(run_, left, right);
    } else {
      holds = Contains(run_, left, right) == (symbol == "in");
    }
    if (!holds) return Value::Bool(false);
    left = std::move(right);
  }
  return Value::Bool(true);
}

Value Interpreter::EvaluateConditional(const Expression& expression, Scope& scope) {
  const auto& operands = expression.operands;
  if (Truth(Evaluate(*operands[0], scope))) return Evaluate(*operands[1], scope);
  if (operands[2] != nullptr) return Evaluate(*operands[2], scope);
  return run_.Undefined(
      fmt::format("the inline if-expression on line {} evaluated to false and no else section was "
                  "defined.",
                  expression.line));
}

Value Interpreter::EvaluateConcat(const Expression& expression, Scope& scope) {
  std::string text;
  for (const ExpressionPtr& operand : expression.operands) {
    const Value value = Evaluate(*operand, scope);
    const std::string piece = value.is(Kind::kString) ? std::string() : ToText(run_, value);
    const std::string& added = value.is(Kind::kString) ? Text(value) : piece;
    run_.Room(text.size() + added.size());
    text += added;
  }
  return run_.String(std::move(text));
}

Value Interpreter::EvaluateDict(const Expression& expression, Scope& scope) {
  auto dict = std::make_shared<DictObject>();
  for (size_t i = 0; i < expression.operands.size(); i += 2) {
    Value key = Evaluate(*expression.operands[i], scope);
    CheckKey(run_, key);
    Value value = Evaluate(*expression.operands[i + 1], scope);
    SetMember(run_, *dict, std::move(key), std::move(value));
  }
  return run_.Dict(std::move(dict));
}

Value Interpreter::EvaluateItem(const Expression& expression, Scope& scope) {
  const Value object = Evaluate(*expression.operands[0], scope);
  const Expression& key = *expression.operands[1];
  if (key.kind != ExpressionKind::kSlice) {
    const Value value = Evaluate(key, scope);
    line_ = expression.line;
    return Item(run_, object, value);
  }
  Value bounds[3];
  for (size_t i = 0; i < 3; ++i) {
    if (key.operands[i] != nullptr) bounds[i] = Evaluate(*key.operands[i], scope);
  }
  line_ = expression.line;
  return Slice(run_, object, bounds[0], bounds[1], bounds[2]);
}

Value Interpreter::EvaluateFilter(const Expression& expression, Scope& scope, const Value* input) {
  Value value;
  if (expression.operands[0] == nullptr) {
    value = *input;
  } else if (input != nullptr) {
    value = EvaluateFilter(*expression.operands[0], scope, input);
  } else {
    value = Evaluate(*expression.operands[0], scope);
  }
  const Args args = EvaluateArguments(expression.arguments, scope);
  line_ = expression.line;
  run_.Step();
  return FindFilter(expression.text)(run_, value, args);
}

Value Interpreter::Evaluate(const Expression& expression, Scope& scope) {
  const Run::Deeper deeper(run_);
  run_.Step();
  const auto operand = [&](size_t i) { return Evaluate(*expression.operands[i], scope); };
  switch (expression.kind) {
    case ExpressionKind::kConstant:
      return expression.value;
    case ExpressionKind::kName:
    case ExpressionKind::kMember:
      return EvaluateName(expression, scope);
    case ExpressionKind::kTuple:
      return run_.Tuple(EvaluateAll(expression.operands, scope));
    case ExpressionKind::kList:
      return run_.List(EvaluateAll(expression.operands, scope));
    case ExpressionKind::kDict:
      return EvaluateDict(expression, scope);
    case ExpressionKind::kConditional:
      return EvaluateConditional(expression, scope);
    case ExpressionKind::kOr: {
      Value left = operand(0);
      return Truth(left) ? left : operand(1);
    }
    case ExpressionKind::kAnd: {
      Value left = operand(0);
      return Truth(left) ? operand(1) : left;
    }
    case ExpressionKind::kNot:
      return Value::Bool(!Truth(operand(0)));
    case ExpressionKind::kNegative:
      return Negative(run_, operand(0));
    case ExpressionKind::kPositive:
      return Arithmetic(run_, "+", Value::Int(0), operand(0));
    case ExpressionKind::kArithmetic: {
      const Value left = operand(0);
      const Value right = operand(1);
      line_ = expression.line;
      return Arithmetic(run_, expression.text, left, right);
    }
    case ExpressionKind::kConcat:
      return EvaluateConcat(expression, scope);
    case ExpressionKind::kCompare:
      return EvaluateCompare(expression, scope);
    case ExpressionKind::kAttribute: {
      const Value object = operand(0);
      line_ = expression.line;
      return Attribute(run_, object, expression.text);
    }
    case ExpressionKind::kItem:
      return EvaluateItem(expression, scope);
    case ExpressionKind::kSlice:
      run_.Fail("a slice stands among other keys");
    case ExpressionKind::kCall: {
      const Value callee = operand(0);
      Args args = EvaluateArguments(expression.arguments, scope);
      line_ = expression.line;
      return Call(callee, std::move(args));
    }
    case ExpressionKind::kFilter:
      return EvaluateFilter(expression, scope, nullptr);
    case ExpressionKind::kTest: {
      const Value value = operand(0);
      const Args args = EvaluateArguments(expression.arguments, scope);
      line_ = expression.line;
      return Value::Bool(FindTest(expression.text)(run_, value, args));
    }
  }
  return {};
}

}  // namespace beamline::jinja

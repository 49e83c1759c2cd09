#include "engine/jinja/interpreter.h"

#include <algorithm>
#include <utility>

#include "base/text.h"
#include "engine/jinja/functions.h"
#include "engine/jinja/operators.h"
#include "fmt/format.h"

namespace beamline::jinja {
namespace {

// Entries per step in linear searches.
constexpr size_t kNamesPerStep = 16;
constexpr size_t kVariablesPerStep = 64;

}  // namespace

Interpreter::ScopePtr Interpreter::Inner(const ScopePtr& outer) {
  auto scope = std::make_shared<Scope>();
  scope->parent = outer.get();
  return scope;
}

std::string Interpreter::Render(const Variables& variables) {
  const auto globals = std::make_shared<Scope>();
  for (size_t i = 0; i < program_.names.size(); ++i) {
    const std::string& name = program_.names[i];
    if (const Native function = FindFunction(name)) {
      globals->Set(static_cast<int>(i), run_.Method(name, function, Value::None()));
    }
    run_.Step(1 + variables.size() / kNamesPerStep);
    for (const auto& [known, value] : variables) {
      if (known == name) globals->Set(static_cast<int>(i), value);
    }
  }
  std::string text;
  output_ = &text;
  Execute(program_.body, Inner(globals));
  return text;
}

void Interpreter::Write(std::string_view text) {
  run_.Touch(text.size());
  run_.CheckOutput(output_->size() + text.size());
  *output_ += text;
}

Interpreter::Flow Interpreter::Execute(const Body& body, const ScopePtr& scope) {
  for (const StatementPtr& statement : body) {
    const Flow flow = Execute(*statement, scope);
    if (flow != Flow::kOn) return flow;
  }
  return Flow::kOn;
}

Interpreter::Flow Interpreter::Execute(const Statement& statement, const ScopePtr& scope) {
  run_.Step();
  line_ = statement.line;
  switch (statement.kind) {
    case StatementKind::kText:
      Write(statement.text);
      return Flow::kOn;
    case StatementKind::kPrint:
      for (const ExpressionPtr& expression : statement.expressions) {
        const Value value = Evaluate(*expression, *scope);
        if (value.is(Kind::kString)) {
          Write(Text(value));
        } else {
          Write(ToText(run_, value));
        }
      }
      return Flow::kOn;
    case StatementKind::kBreak:
      return Flow::kBreak;
    case StatementKind::kContinue:
      return Flow::kContinue;
    case StatementKind::kSet:
      ExecuteSet(statement, scope);
      return Flow::kOn;
    case StatementKind::kMacro:
      SetVariable(*scope, statement.name, NewMacro(statement, scope));
      return Flow::kOn;
    default:
      break;
  }
  const Run::Deeper deeper(run_);
  switch (statement.kind) {
    case StatementKind::kIf:
      return ExecuteIf(statement, scope);
    case StatementKind::kFor:
      return ExecuteFor(statement, scope);
    case StatementKind::kSetBlock:
      return ExecuteSetBlock(statement, scope);
    case StatementKind::kFilterBlock:
      return ExecuteFilterBlock(statement, scope);
    case StatementKind::kWith:
      return ExecuteWith(statement, scope);
    case StatementKind::kScope:
      return Execute(statement.bodies[0], Inner(scope));
    default:
      ExecuteCallBlock(statement, scope);
      return Flow::kOn;
  }
}

Interpreter::Flow Interpreter::ExecuteIf(const Statement& statement, const ScopePtr& scope) {
  for (size_t i = 0; i < statement.expressions.size(); ++i) {
    if (Truth(Evaluate(*statement.expressions[i], *scope))) {
      return Execute(statement.bodies[i], scope);
    }
  }
  if (statement.bodies.size() == statement.expressions.size()) return Flow::kOn;
  return Execute(statement.bodies.back(), scope);
}

Interpreter::Flow Interpreter::ExecuteFor(const Statement& statement, const ScopePtr& scope) {
  const Value sequence = Evaluate(*statement.expressions[0], *scope);
  std::vector<Value> items = Iterate(run_, sequence);
  const Expression& target = *statement.targets[0];
  if (statement.expressions[1] != nullptr) {
    std::vector<Value> chosen;
    for (Value& item : items) {
      run_.Step();
      Scope inner;
      inner.parent = scope.get();
      Assign(target, item, inner);
      if (Truth(Evaluate(*statement.expressions[1], inner))) chosen.push_back(std::move(item));
    }
    items = std::move(chosen);
  }
  if (items.empty()) {
    return statement.bodies.size() > 1 ? Execute(statement.bodies[1], Inner(scope)) : Flow::kOn;
  }
  const auto loop = std::make_shared<LoopObject>();
  const Value list = run_.List(std::move(items));
  loop->items = std::static_pointer_cast<ListObject>(list.object);
  loop->depth = list.object->depth + 1;
  const size_t count = loop->items->items.size();
  for (size_t i = 0; i < count; ++i) {
    run_.Step();
    loop->index0 = static_cast<int64_t>(i);
    const ScopePtr inner = Inner(scope);
    inner->Set(kLoopName, {Kind::kLoop, loop});
    Assign(target, loop->items->items[i], *inner);
    if (Execute(statement.bodies[0], inner) == Flow::kBreak) break;
  }
  return Flow::kOn;
}

void Interpreter::Assign(const Expression& target, const Value& value, Scope& scope) {
  if (target.kind == ExpressionKind::kName) return SetVariable(scope, target.name, value);
  if (target.kind == ExpressionKind::kMember) {
    size_t looked = 0;
    const Value* owner = scope.Find(target.name, &looked);
    run_.Step(looked / kVariablesPerStep);
    if (owner == nullptr || !owner->is(Kind::kNamespace)) {
      run_.Fail("cannot assign attribute on non-namespace object");
    }
    if (target.text.starts_with('_')) {
      run_.Fail(
          fmt::format("Chat templates cannot store underscore-prefixed attributes on a "
                      "namespace, but got '{}'. Please rename the attribute.",
                      Shorten(target.text)));
    }
    auto& members = *owner->as<NamespaceObject>().members;
    CountMembers(run_, members);
    const auto found =
        std::ranges::find_if(members, [&](const auto& one) { return one.first == target.text; });
    if (found != members.end()) {
      found->second = value;
    } else {
      run_.Spend(sizeof(members[0]) + target.text.size());
      members.emplace_back(target.text, value);
    }
    return;
  }
  if (value.is(Kind::kUndefined)) FailUndefined(run_, value);
  const std::vector<Value> values = Iterate(run_, value);
  if (values.size() != target.operands.size()) {
    run_.Fail(
        fmt::format("{} values to unpack; {} are expected", values.size(), target.operands.size()));
  }
  for (size_t i = 0; i < values.size(); ++i) Assign(*target.operands[i], values[i], scope);
}

void Interpreter::SetVariable(Scope& scope, int name, Value value) {
  run_.Step(scope.variables.size() / kVariablesPerStep);
  scope.Set(name, std::move(value));
}

void Interpreter::ExecuteSet(const Statement& statement, const ScopePtr& scope) {
  Assign(*statement.targets[0], Evaluate(*statement.expressions[0], *scope), *scope);
}

Interpreter::Flow Interpreter::Capture(const Body& body, const ScopePtr& scope, std::string* text) {
  std::string* const outer = std::exchange(output_, text);
  const Flow flow = Execute(body, scope);
  output_ = outer;
  return flow;
}

Interpreter::Flow Interpreter::ExecuteSetBlock(const Statement& statement, const ScopePtr& scope) {
  std::string text;
  const Flow flow = Capture(statement.bodies[0], Inner(scope), &text);
  if (flow != Flow::kOn) return flow;
  Value value = run_.String(std::move(text));
  if (statement.expressions[0] != nullptr) {
    value = EvaluateFilter(*statement.expressions[0], *scope, &value);
  }
  Assign(*statement.targets[0], value, *scope);
  return Flow::kOn;
}

Interpreter::Flow Interpreter::ExecuteFilterBlock(const Statement& statement,
                                                  const ScopePtr& scope) {
  std::string text;
  const ScopePtr inner = Inner(scope);
  const Flow flow = Capture(statement.bodies[0], inner, &text);
  if (flow != Flow::kOn) return flow;
  const Value value = run_.String(std::move(text));
  Write(ToText(run_, EvaluateFilter(*statement.expressions[0], *inner, &value)));
  return Flow::kOn;
}

Interpreter::Flow Interpreter::ExecuteWith(const Statement& statement, const ScopePtr& scope) {
  const ScopePtr inner = Inner(scope);
  // All values are evaluated in the outer scope.
  std::vector<Value> values = EvaluateAll(statement.expressions, *scope);
  for (size_t i = 0; i < values.size(); ++i) Assign(*statement.targets[i], values[i], *inner);
  return Execute(statement.bodies[0], inner);
}

Value Interpreter::NewMacro(const Statement& statement, const ScopePtr& scope) {
  run_.Keep(scope);
  return run_.Macro(statement, *scope);
}

void Interpreter::ExecuteCallBlock(const Statement& statement, const ScopePtr& scope) {
  const Expression& call = *statement.expressions[0];
  const Value callee = Evaluate(*call.operands[0], *scope);
  Args args = EvaluateArguments(call.arguments, *scope);
  args.named.emplace_back("caller", NewMacro(statement, scope));
  Write(ToText(run_, Call(callee, std::move(args))));
}

Value Interpreter::Call(const Value& callee, Args args) {
  run_.Step();
  if (callee.is(Kind::kUndefined)) FailUndefined(run_, callee);
  if (!callee.is(Kind::kCallable)) {
    run_.Fail(fmt::format("'{}' object is not callable", TypeName(callee)));
  }
  const Run::Deeper deeper(run_);
  auto& object = callee.as<CallableObject>();
  if (object.macro != nullptr) return CallMacro(callee, std::move(args));
  if (object.native != nullptr) return object.native(run_, object.self, args);
  if (object.name != "joiner") run_.Fail(fmt::format("'{}' is not callable", object.name));
  return object.next++ == 0 ? run_.String("") : object.self;
}

void Interpreter::BindParameters(const Statement& macro, Args& args, Scope& scope,
                                 const ScopePtr& shared) {
  const size_t count = macro.parameters.size();
  const size_t first_default = count - macro.defaults.size();
  const auto take_named = [&](std::string_view name) {
    run_.Step(args.named.size() / kNamesPerStep);
    const auto found =
        std::ranges::find_if(args.named, [&](const auto& one) { return one.first == name; });
    if (found == args.named.end()) return Value(Kind::kUndefined, nullptr);
    Value value = std::move(found->second);
    args.named.erase(found);
    return value;
  };
  for (size_t i = 0; i < count; ++i) {
    Value value =
        i < args.positional.size() ? args.positional[i] : take_named(macro.parameter_names[i]);
    const bool missing = value.is(Kind::kUndefined) && value.object == nullptr;
    if (missing && i >= first_default) {
      value = Evaluate(*macro.defaults[i - first_default], *shared);
    } else if (missing) {
      value = run_.Undefined(
          fmt::format("parameter '{}' was not provided", Shorten(macro.parameter_names[i])));
    }
    SetVariable(scope, macro.parameters[i], std::move(value));
  }
  run_.Step(count / kNamesPerStep);
  const bool has_caller =
      std::ranges::find(macro.parameter_names, "caller") != macro.parameter_names.end();
  if (macro.takes_caller && !has_caller && macro.kind == StatementKind::kMacro) {
    Value caller = take_named("caller");
    if (caller.object == nullptr) caller = run_.Undefined("No caller defined");
    scope.Set(kCallerName, std::move(caller));
  }
}

Value Interpreter::CallMacro(const Value& callee, Args args) {
  const auto& object = callee.as<CallableObject>();
  const Statement& macro = *object.macro;
  const auto scope = std::make_shared<Scope>();
  scope->parent = object.scope;
  BindParameters(macro, args, *scope, scope);
  const size_t count = macro.parameters.size();
  if (macro.takes_kwargs) {
    auto rest = std::make_shared<DictObject>();
    for (auto& [name, value] : args.named)
      SetMember(run_, *rest, run_.String(name), std::move(value));
    scope->Set(kKwargsName, run_.Dict(std::move(rest)));
  } else if (!args.named.empty()) {
    run_.Fail(fmt::format("macro '{}' takes no keyword argument '{}'", Shorten(macro.text),
                          Shorten(args.named.front().first)));
  }
  if (macro.takes_varargs) {
    std::vector<Value> rest;
    for (size_t i = count; i < args.positional.size(); ++i) rest.push_back(args.positional[i]);
    scope->Set(kVarargsName, run_.Tuple(std::move(rest)));
  } else if (args.positional.size() > count) {
    run_.Fail(
        fmt::format("macro '{}' takes not more than {} argument(s)", Shorten(macro.text), count));
  }
  const int line = line_;
  std::string text;
  Capture(macro.bodies[0], scope, &text);
  line_ = line;
  return run_.String(std::move(text));
}

}  // namespace beamline::jinja

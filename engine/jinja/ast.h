// The syntax tree of a template.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "engine/jinja/value.h"

namespace beamline::jinja {

struct Expression;
struct Statement;
using ExpressionPtr = std::unique_ptr<Expression>;
using StatementPtr = std::unique_ptr<Statement>;
using Body = std::vector<StatementPtr>;

enum class ExpressionKind : uint8_t {
  kConstant,
  kName,
  kMember,  // of a namespace; assignment target
  kTuple,
  kList,
  kDict,         // operands: key, value, key, value ...
  kConditional,  // operands: condition, then, else (may be null)
  kOr,
  kAnd,
  kNot,
  kNegative,
  kPositive,
  kArithmetic,  // text: the operator
  kConcat,
  kCompare,    // operands: one more than operators
  kAttribute,  // text: its name
  kItem,       // operands: object, key
  kSlice,      // operands: start, stop, step, each may be null
  kCall,       // operands[0]: the callee
  kFilter,     // operands[0]: the input, null in filter blocks; text: its name
  kTest,       // text: its name
};

// The arguments inside the parentheses of a call.
struct CallArguments {
  std::vector<ExpressionPtr> positional;
  std::vector<std::pair<std::string, ExpressionPtr>> named;
  ExpressionPtr all_positional;  // *sequence
  ExpressionPtr all_named;       // **mapping
};

struct Expression {
  ExpressionKind kind = ExpressionKind::kConstant;
  int line = 0;
  int depth = 1;  // of the tree below it
  int name = -1;  // of names: index in Program::names
  std::string text;
  Value value;  // of a constant
  std::vector<ExpressionPtr> operands;
  std::vector<std::string> operators;  // of a comparison
  CallArguments arguments;
};

enum class StatementKind : uint8_t {
  kText,
  kPrint,
  kIf,  // conditions[i] belongs to bodies[i]; one more body: else
  kFor,
  kSet,
  kSetBlock,
  kMacro,
  kCallBlock,
  kFilterBlock,
  kWith,
  kScope,  // generation
  kBreak,
  kContinue,
};

struct Statement {
  StatementKind kind = StatementKind::kText;
  int line = 0;
  std::string text;  // of text; of a macro: its name
  int name = -1;     // of a macro
  // if: the conditions. for: the sequence, and the condition for its items (may be null). set and
  // print: the value. with: the values. call: the call. Set and filter blocks: the filter (may be
  // null).
  std::vector<ExpressionPtr> expressions;
  std::vector<ExpressionPtr> targets;  // for, set: one; with: one per value
  std::vector<Body> bodies;
  // Only for macros and call blocks.
  std::vector<int> parameters;
  std::vector<std::string> parameter_names;
  std::vector<ExpressionPtr> defaults;  // of the last parameters
  bool takes_caller = false;
  bool takes_varargs = false;
  bool takes_kwargs = false;
};

// Names with a predefined meaning.
enum WellKnownName : int { kLoopName, kCallerName, kVarargsName, kKwargsName };

struct Program {
  std::vector<std::string> names;
  Body body;
};

// Throws Fault.
Program Parse(std::string_view source);

}  // namespace beamline::jinja

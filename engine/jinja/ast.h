// A template as its parser understands it.
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
  kMember,  // of a namespace, to be set
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
  kCall,       // operands[0]: what is called
  kFilter,     // operands[0]: of what; null in filter blocks. text: its name
  kTest,       // text: its name
};

// What stands between the parentheses of a call.
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
  int name = -1;  // of names: which
  std::string text;
  Value value;  // of a constant
  std::vector<ExpressionPtr> operands;
  std::vector<std::string> operators;  // of a comparison
  CallArguments arguments;
};

enum class StatementKind : uint8_t {
  kText,
  kPrint,
  kIf,  // conditions[i] goes with bodies[i]; one more body: else
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
  std::string text;  // of text; of a macro its name
  int name = -1;     // of a macro
  // if: conditions; for: the sequence, and what its items must be (may be null); set and print: the
  // value; with: the values; call: the call; a block's filter (may be null).
  std::vector<ExpressionPtr> expressions;
  std::vector<ExpressionPtr> targets;  // for, set: one; with: each value's
  std::vector<Body> bodies;
  // Of macros and call blocks.
  std::vector<int> parameters;
  std::vector<std::string> parameter_names;
  std::vector<ExpressionPtr> defaults;  // of the last parameters
  bool takes_caller = false;
  bool takes_varargs = false;
  bool takes_kwargs = false;
};

// The names that the language itself gives to something.
enum WellKnownName : int { kLoopName, kCallerName, kVarargsName, kKwargsName };

struct Program {
  std::vector<std::string> names;
  Body body;
};

// Throws Fault.
Program Parse(std::string_view source);

}  // namespace beamline::jinja

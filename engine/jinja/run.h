// The state of one rendering: limits, memory accounting, and creation of accounted values.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "engine/jinja/lexer.h"
#include "engine/jinja/template.h"
#include "engine/jinja/value.h"

namespace beamline::jinja {

// Variables by name index. Each loop iteration, macro call and the like has its own scope.
struct Scope {
  Scope* parent = nullptr;
  std::vector<std::pair<int, Value>> variables;

  void Set(int name, Value value);
  // Searches this scope and the outer ones; null if not found. Adds the number of searched
  // variables and scopes to `looked`.
  const Value* Find(int name, size_t* looked) const;
};

// Thrown when the rendering is stopped from outside.
struct Stopped {
  absl::Status status;
};

class Run {
 public:
  explicit Run(const RenderLimits& limits, int64_t now = -1) : limits_(limits), now_(now) {}

  size_t steps() const { return steps_; }  // so far

  const RenderLimits& limits() const { return limits_; }
  int64_t now() const { return now_; }  // seconds since 1970; below 0: use the clock

  [[noreturn]] void Fail(std::string message) const { throw Fault{std::move(message)}; }

  // Counts work: steps, or bytes read or written. Throws Fault if the limit is exceeded. Every few
  // thousand steps it checks the thread's StopCheck and throws Stopped if that says so.
  void Step(size_t steps = 1) {
    steps_ += steps;
    if (steps_ >= next_look_) Look();
  }
  void Touch(size_t bytes) { Step(bytes / kBytesPerStep); }

  // Create new values. Each counts as work, and as memory while it exists.
  Value String(std::string text, bool safe = false);
  Value List(std::vector<Value> items) { return Sequence(Kind::kList, std::move(items)); }
  Value Tuple(std::vector<Value> items) { return Sequence(Kind::kTuple, std::move(items)); }
  Value Iterator(std::vector<Value> items) { return Sequence(Kind::kIterator, std::move(items)); }
  Value View(std::string_view name, std::vector<Value> items);
  Value Undefined(std::string message);
  Value Dict(std::shared_ptr<DictObject> dict);
  Value Method(std::string_view name, Native native, const Value& self);
  Value Macro(const Statement& macro, Scope& scope);
  Value NewNamespace();
  // Accounts for memory that an object uses later.
  void Hold(Object& object, size_t bytes);

  // Throws unless `bytes` more may be allocated; call before allocating.
  void Room(size_t bytes);

  // Throws if the output would exceed its limit.
  void CheckOutput(size_t bytes) const;

  // Accounts for memory that is used until the rendering ends.
  void Spend(size_t bytes);

  // Keeps a scope until the rendering ends, because a macro refers to it.
  void Keep(std::shared_ptr<Scope> scope);

  // Limits the nesting of calls and expressions.
  struct Deeper {
    explicit Deeper(Run& its_run) : run(its_run) {
      if (++run.depth_ > kMostDepth) {
        --run.depth_;
        run.Fail("the template calls itself too deeply");
      }
    }
    ~Deeper() { --run.depth_; }
    Run& run;
  };

 private:
  static constexpr size_t kBytesPerStep = 32;
  static constexpr size_t kStepsPerLook = 4096;  // a few hundred microseconds
  static constexpr int kMostDepth = 600;
  static constexpr int kMostValueDepth = 200;

  void Look();
  Value Sequence(Kind kind, std::vector<Value> items);
  void CheckDepth(const Object& object) const;

  const RenderLimits limits_;
  const int64_t now_;
  Meter meter_;
  size_t steps_ = 0;
  size_t next_look_ = 0;
  int depth_ = 0;
  // Namespaces may refer to each other; these pointers do not own.
  std::deque<std::vector<std::pair<std::string, Value>>> namespaces_;
  std::vector<std::shared_ptr<Scope>> kept_;
};

}  // namespace beamline::jinja

// One rendering: its bounds, what it holds, and the making of values that count.
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

// Variables by their names' numbers. A loop's iteration, a macro's call and the like have their
// own.
struct Scope {
  Scope* parent = nullptr;
  std::vector<std::pair<int, Value>> variables;

  void Set(int name, Value value);
  // Here or further out; null: nowhere. Adds to `looked` how many variables and scopes it looked
  // at.
  const Value* Find(int name, size_t* looked) const;
};

// The rendering was stopped from outside.
struct Stopped {
  absl::Status status;
};

class Run {
 public:
  explicit Run(const RenderLimits& limits, int64_t now = -1) : limits_(limits), now_(now) {}

  size_t steps() const { return steps_; }  // so far

  const RenderLimits& limits() const { return limits_; }
  int64_t now() const { return now_; }  // in seconds since 1970; below 0: ask the clock

  [[noreturn]] void Fail(std::string message) const { throw Fault{std::move(message)}; }

  // Counts work: steps, or bytes that are read or written. Throws Fault when it is too much, and
  // Stopped, every some thousand steps, when a StopCheck of this thread says so.
  void Step(size_t steps = 1) {
    steps_ += steps;
    if (steps_ >= next_look_) Look();
  }
  void Touch(size_t bytes) { Step(bytes / kBytesPerStep); }

  // New values. Each counts as work and as memory, until it is gone.
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
  // What an object comes to hold later.
  void Hold(Object& object, size_t bytes);

  // Throws unless so much more may be held: asked before it is made.
  void Room(size_t bytes);

  // The end of what may be printed.
  void CheckOutput(size_t bytes) const;

  // Memory that is taken for as long as the rendering lasts.
  void Spend(size_t bytes);

  // A scope that lives as long as the rendering, as a macro refers to it.
  void Keep(std::shared_ptr<Scope> scope);

  // Of calls and expressions within each other.
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
  static constexpr size_t kStepsPerLook = 4096;  // some hundred microseconds
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
  // May refer to each other, by pointers that own nothing.
  std::deque<std::vector<std::pair<std::string, Value>>> namespaces_;
  std::vector<std::shared_ptr<Scope>> kept_;
};

}  // namespace beamline::jinja

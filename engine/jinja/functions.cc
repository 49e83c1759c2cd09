#include "engine/jinja/functions.h"

#include <algorithm>
#include <chrono>
#include <ctime>
#include <iterator>
#include <memory>
#include <string>

#include "base/text.h"
#include "base/utf8.h"
#include "engine/jinja/arguments.h"
#include "engine/jinja/operators.h"
#include "fmt/format.h"

namespace beamline::jinja {
namespace {

Value Range(Run& run, const Value&, const Args& args) {
  constexpr int64_t kMost = 100000;  // limit of the sandbox
  const Bound bound(run, "range", args, {"start", "stop", "step"}, 1);
  auto range = std::make_shared<RangeObject>();
  range->stop = bound.Whole(0, 0);
  if (bound.has(1)) {
    range->start = range->stop;
    range->stop = bound.Whole(1, 0);
    range->step = bound.Whole(2, 1);
  }
  if (range->step == 0) run.Fail("range() arg 3 must not be zero");
  // Differences between numbers of this size cannot overflow.
  constexpr int64_t kFar = int64_t{1} << 61;
  for (const int64_t end : {range->start, range->stop, range->step}) {
    if (end > kFar || end < -kFar) run.Fail("an argument of range() is too large");
  }
  if (range->size() > kMost) {
    run.Fail(fmt::format("Range too big. The sandbox blocks ranges larger than {}.", kMost));
  }
  return {Kind::kRange, std::move(range)};
}

// Members for dict() and namespace(): the pairs of a mapping or sequence, then the named arguments.
std::shared_ptr<DictObject> Members(Run& run, const Args& args, std::string_view function) {
  auto dict = std::make_shared<DictObject>();
  if (args.positional.size() > 1) {
    run.Fail(
        fmt::format("{} expected at most 1 argument, got {}", function, args.positional.size()));
  }
  if (!args.positional.empty()) {
    const Value& given = args.positional[0];
    if (given.is(Kind::kDict)) {
      for (const auto& [key, value] : given.as<DictObject>().entries) {
        SetMember(run, *dict, key, value);
      }
    } else {
      for (const Value& pair : Iterate(run, given)) {
        const std::vector<Value> both = Iterate(run, pair);
        if (both.size() != 2) run.Fail("a pair is expected in a dict");
        CheckKey(run, both[0]);
        SetMember(run, *dict, both[0], both[1]);
      }
    }
  }
  for (const auto& [name, value] : args.named) SetMember(run, *dict, run.String(name), value);
  return dict;
}

Value Dict(Run& run, const Value&, const Args& args) {
  return run.Dict(Members(run, args, "dict"));
}

Value Namespace(Run& run, const Value&, const Args& args) {
  const auto members = Members(run, args, "namespace");
  const Value made = run.NewNamespace();
  for (const auto& [key, value] : members->entries) {
    const std::string name = ToText(run, key);
    if (name.starts_with('_')) {
      run.Fail(
          fmt::format("Chat templates cannot store underscore-prefixed attributes on a "
                      "namespace, but got '{}'. Please rename the attribute.",
                      Shorten(name)));
    }
    auto& held = *made.as<NamespaceObject>().members;
    run.Spend(sizeof(held[0]) + name.size());
    held.emplace_back(name, value);
  }
  return made;
}

Value RaiseException(Run& run, const Value&, const Args& args) {
  const Bound bound(run, "raise_exception", args, {"message"}, 1);
  throw Fault{.message = bound[0].is(Kind::kNone) ? std::string("None") : ToText(run, bound[0]),
              .raised = true};
}

Value StrftimeNow(Run& run, const Value&, const Args& args) {
  const Bound bound(run, "strftime_now", args, {"format"}, 1);
  return run.String(FormatTime(run, bound.Text(0, ""), run.now()));
}

Value CycleNext(Run& run, const Value& self, const Args& args) {
  const Bound bound(run, "next", args, {});
  auto& cycler = self.as<CallableObject>();
  const std::vector<Value>& items = Items(cycler.self);
  const Value& item = items[cycler.next];
  cycler.next = (cycler.next + 1) % items.size();
  return item;
}

Value Cycler(Run& run, const Value&, const Args& args) {
  if (args.positional.empty()) run.Fail("at least one item has to be provided");
  return run.Method("cycler", nullptr, run.Tuple(args.positional));
}

Value Joiner(Run& run, const Value&, const Args& args) {
  const Bound bound(run, "joiner", args, {"sep"});
  return run.Method("joiner", nullptr, bound.has(0) ? bound[0] : run.String(", "));
}

struct FunctionEntry {
  std::string_view name;
  Native function;
};

constexpr FunctionEntry kFunctions[] = {
    {"range", Range},
    {"dict", Dict},
    {"namespace", Namespace},
    {"raise_exception", RaiseException},
    {"strftime_now", StrftimeNow},
    {"cycler", Cycler},
    {"joiner", Joiner},
};

}  // namespace

Native FindFunction(std::string_view name) {
  const auto found =
      std::ranges::find_if(kFunctions, [&](const FunctionEntry& one) { return one.name == name; });
  return found == std::end(kFunctions) ? nullptr : found->function;
}

bool StatefulAttribute(Run& run, const Value& value, std::string_view name, Value* found) {
  auto& object = value.as<CallableObject>();
  if (object.name != "cycler") return false;
  if (name == "next") {
    *found = run.Method("next", CycleNext, value);
  } else if (name == "current") {
    *found = Items(object.self)[object.next];
  } else {
    return false;
  }
  return true;
}

std::string FormatTime(Run& run, const std::string& format, int64_t now) {
  const std::time_t seconds =
      now >= 0 ? static_cast<std::time_t>(now)
               : std::chrono::system_clock::to_time_t(std::chrono::system_clock::now());
  std::tm local = {};
  localtime_r(&seconds, &local);
  constexpr size_t kMostFormat = 200;
  if (format.size() > kMostFormat) run.Fail("a format of a time is too long");
  if (format.empty()) return "";
  std::string made(64 * kMostFormat, '\0');
  run.Touch(made.size());
  // With a leading space, an empty result differs from one that does not fit.
  made.resize(std::strftime(made.data(), made.size(), (" " + format).c_str(), &local));
  if (made.empty() || !IsValidUtf8(made)) run.Fail("a format of a time has no result");
  return made.substr(1);
}

}  // namespace beamline::jinja

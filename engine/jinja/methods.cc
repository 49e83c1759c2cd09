#include "engine/jinja/methods.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <utility>

#include "engine/jinja/arguments.h"
#include "engine/jinja/operators.h"
#include "engine/jinja/text_methods.h"
#include "fmt/format.h"

namespace beamline::jinja {
namespace {

Value Get(Run& run, const Value& self, const Args& args) {
  const Bound bound(run, "get", args, {"key", "default"}, 1);
  CheckKey(run, bound[0]);
  const Value* found = Lookup(run, self.as<DictObject>(), bound[0]);
  return found == nullptr ? bound[1] : *found;
}

Value ItemsOf(Run& run, const Value& self, const Args& args) {
  const Bound bound(run, "items", args, {});
  std::vector<Value> items;
  for (const auto& [key, value] : self.as<DictObject>().entries) {
    items.push_back(run.Tuple({key, value}));
  }
  return run.View("dict_items", std::move(items));
}

Value KeysOf(Run& run, const Value& self, const Args& args) {
  const Bound bound(run, "keys", args, {});
  return run.View("dict_keys", Iterate(run, self));
}

Value ValuesOf(Run& run, const Value& self, const Args& args) {
  const Bound bound(run, "values", args, {});
  std::vector<Value> values;
  for (const auto& [key, value] : self.as<DictObject>().entries) values.push_back(value);
  return run.View("dict_values", std::move(values));
}

Value CopyOf(Run& run, const Value& self, const Args& args) {
  const Bound bound(run, "copy", args, {});
  return self;
}

Value CountItem(Run& run, const Value& self, const Args& args) {
  const Bound bound(run, "count", args, {"value"}, 1);
  return Value::Int(std::ranges::count_if(
      Items(self), [&](const Value& item) { return IsEqual(run, item, bound[0]); }));
}

Value IndexOf(Run& run, const Value& self, const Args& args) {
  const Bound bound(run, "index", args, {"value"}, 1);
  const std::vector<Value>& items = Items(self);
  for (size_t i = 0; i < items.size(); ++i) {
    if (IsEqual(run, items[i], bound[0])) return Value::Int(static_cast<int64_t>(i));
  }
  run.Fail("the value is not in the list");
}

Value IsInteger(Run& run, const Value& self, const Args& args) {
  const Bound bound(run, "is_integer", args, {});
  return Value::Bool(self.real == std::floor(self.real) && std::isfinite(self.real));
}

Value Cycle(Run& run, const Value& self, const Args& args) {
  if (args.positional.empty()) run.Fail("no items for cycling given");
  const auto count = static_cast<int64_t>(args.positional.size());
  return args.positional[static_cast<size_t>(self.as<LoopObject>().index0 % count)];
}

struct Entry {
  std::string_view name;
  Native native;
};

constexpr Entry kDictMethods[] = {
    {"get", Get}, {"items", ItemsOf}, {"keys", KeysOf}, {"values", ValuesOf}, {"copy", CopyOf}};
constexpr std::string_view kDictChanges[] = {"clear", "pop", "popitem", "setdefault", "update"};
constexpr Entry kListMethods[] = {{"count", CountItem}, {"index", IndexOf}, {"copy", CopyOf}};
constexpr std::string_view kListChanges[] = {"append", "clear",  "pop",  "reverse",
                                             "insert", "extend", "sort", "remove"};
constexpr Entry kTupleMethods[] = {{"count", CountItem}, {"index", IndexOf}};
constexpr Entry kFloatMethods[] = {{"is_integer", IsInteger}};

template <typename Entries>
MethodKind Find(Run& run, const Entries& entries, const Value& self, std::string_view name,
                Value* found) {
  const auto entry =
      std::ranges::find_if(entries, [&](const Entry& one) { return one.name == name; });
  if (entry == std::end(entries)) return MethodKind::kNone;
  *found = run.Method(entry->name, entry->native, self);
  return MethodKind::kFound;
}

}  // namespace

MethodKind FindMethod(Run& run, const Value& value, std::string_view name, Value* found) {
  switch (value.kind) {
    case Kind::kString:
      if (const Native native = FindTextMethod(name)) {
        *found = run.Method(name, native, value);
        return MethodKind::kFound;
      }
      if (IsOtherTextMethod(name)) {
        run.Fail(fmt::format("the method '{}' of str is not supported", name));
      }
      return MethodKind::kNone;
    case Kind::kDict:
      if (std::ranges::find(kDictChanges, name) != std::end(kDictChanges)) {
        return MethodKind::kChanges;
      }
      return Find(run, kDictMethods, value, name, found);
    case Kind::kList:
      if (std::ranges::find(kListChanges, name) != std::end(kListChanges)) {
        return MethodKind::kChanges;
      }
      return Find(run, kListMethods, value, name, found);
    case Kind::kTuple:
      return Find(run, kTupleMethods, value, name, found);
    case Kind::kFloat:
      return Find(run, kFloatMethods, value, name, found);
    default:
      return MethodKind::kNone;
  }
}

bool LoopAttribute(Run& run, const Value& loop, std::string_view name, Value* found) {
  const auto& object = loop.as<LoopObject>();
  const int64_t index0 = object.index0;
  const auto size = static_cast<int64_t>(object.items->items.size());
  const auto item = [&](int64_t i, const char* missing) {
    return i >= 0 && i < size ? object.items->items[static_cast<size_t>(i)]
                              : run.Undefined(missing);
  };
  if (name == "index") {
    *found = Value::Int(index0 + 1);
  } else if (name == "index0") {
    *found = Value::Int(index0);
  } else if (name == "revindex") {
    *found = Value::Int(size - index0);
  } else if (name == "revindex0") {
    *found = Value::Int(size - index0 - 1);
  } else if (name == "first") {
    *found = Value::Bool(index0 == 0);
  } else if (name == "last") {
    *found = Value::Bool(index0 + 1 == size);
  } else if (name == "length") {
    *found = Value::Int(size);
  } else if (name == "depth") {
    *found = Value::Int(1);
  } else if (name == "depth0") {
    *found = Value::Int(0);
  } else if (name == "previtem") {
    *found = item(index0 - 1, "there is no previous item");
  } else if (name == "nextitem") {
    *found = item(index0 + 1, "there is no next item");
  } else if (name == "cycle") {
    *found = run.Method("cycle", Cycle, loop);
  } else if (name == "changed") {
    run.Fail("loop.changed is not supported");
  } else {
    return false;
  }
  return true;
}

}  // namespace beamline::jinja

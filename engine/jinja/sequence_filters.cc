#include <algorithm>
#include <functional>
#include <iterator>
#include <memory>
#include <optional>
#include <utility>

#include "base/utf8.h"
#include "engine/jinja/arguments.h"
#include "engine/jinja/characters.h"
#include "engine/jinja/filters.h"
#include "engine/jinja/methods.h"
#include "engine/jinja/operators.h"
#include "engine/jinja/value_tests.h"
#include "fmt/format.h"

namespace beamline::jinja {
namespace {

using Getter = std::function<Value(const Value&)>;

Value IgnoreCase(Run& run, const Value& value) {
  if (!value.is(Kind::kString)) return value;
  run.Room(4 * Text(value).size());
  return run.String(Lower(Text(value)));
}

std::vector<std::string_view> SplitAt(Run& run, std::string_view text, char separator) {
  run.Room((1 + static_cast<size_t>(std::ranges::count(text, separator))) *
           sizeof(std::string_view));
  run.Touch(text.size());
  std::vector<std::string_view> parts;
  for (size_t begin = 0; begin <= text.size();) {
    const size_t end = std::min(text.find(separator, begin), text.size());
    parts.push_back(text.substr(begin, end - begin));
    begin = end + 1;
  }
  return parts;
}

// Splits "address.city.0" into its keys.
std::vector<Value> Path(Run& run, const Value& attribute) {
  if (attribute.is(Kind::kNone)) return {};
  if (!attribute.is(Kind::kString)) return {attribute};
  std::vector<Value> path;
  for (const std::string_view part : SplitAt(run, Text(attribute), '.')) {
    run.Step();
    int64_t index = 0;
    const bool is_index = ParseIndex(part, &index);
    path.push_back(is_index ? Value::Int(index) : run.String(std::string(part)));
  }
  return path;
}

// The getter for a filter's `attribute`; None: the item itself.
Getter AttributeGetter(Run& run, const Value& attribute, std::optional<Value> otherwise = {}) {
  return [&run, path = Path(run, attribute), otherwise](const Value& item) {
    Value value = item;
    for (const Value& key : path) {
      value = Item(run, value, key);
      if (otherwise.has_value() && value.is(Kind::kUndefined)) value = *otherwise;
    }
    return value;
  };
}

Args Rest(const Args& args, size_t first) {
  Args rest = args;
  rest.positional.erase(
      rest.positional.begin(),
      rest.positional.begin() + static_cast<ptrdiff_t>(std::min(first, rest.positional.size())));
  return rest;
}

std::string NameArgument(Run& run, const Args& args, size_t i, std::string_view what) {
  if (i >= args.positional.size() || !args.positional[i].is(Kind::kString)) {
    run.Fail(fmt::format("{} is expected", what));
  }
  run.Touch(Text(args.positional[i]).size());
  return Text(args.positional[i]);
}

Value Map(Run& run, const Value& self, const Args& args) {
  if (!Truth(self)) return run.Iterator({});  // also for 0, as in Jinja
  Getter get;
  if (args.positional.empty()) {
    const Bound bound(run, "map", args, {"attribute", "default"}, 1);
    get = AttributeGetter(run, bound[0],
                          bound[1].is(Kind::kNone) ? std::nullopt : std::optional(bound[1]));
  } else {
    const std::string name = NameArgument(run, args, 0, "the name of a filter");
    const Native filter = FindFilter(name);
    if (filter == nullptr) run.Fail(fmt::format("there is no filter '{}'", name));
    get = [&run, filter, rest = Rest(args, 1)](const Value& item) {
      return filter(run, item, rest);
    };
  }
  std::vector<Value> made;
  for (const Value& item : Iterate(run, self)) {
    run.Step();
    made.push_back(get(item));
  }
  return run.Iterator(std::move(made));
}

// Implements select, reject, selectattr and rejectattr.
Value Choose(Run& run, const Value& self, const Args& args, bool by_attribute, bool keeps) {
  if (!Truth(self)) return run.Iterator({});
  size_t first = 0;
  Getter get = [](const Value& item) { return item; };
  if (by_attribute) {
    if (args.positional.empty()) run.Fail("an attribute is expected");
    get = AttributeGetter(run, args.positional[0]);
    first = 1;
  }
  Test test = nullptr;
  const Args rest = Rest(args, first + 1);
  if (args.positional.size() > first) {
    const std::string name = NameArgument(run, args, first, "the name of a test");
    test = FindTest(name);
    if (test == nullptr) run.Fail(fmt::format("there is no test '{}'", name));
  }
  std::vector<Value> chosen;
  for (const Value& item : Iterate(run, self)) {
    run.Step();
    const Value value = get(item);
    const bool holds = test == nullptr ? Truth(value) : test(run, value, rest);
    if (holds == keeps) chosen.push_back(item);
  }
  return run.Iterator(std::move(chosen));
}

Value Select(Run& run, const Value& self, const Args& args) {
  return Choose(run, self, args, false, true);
}
Value Reject(Run& run, const Value& self, const Args& args) {
  return Choose(run, self, args, false, false);
}
Value SelectAttr(Run& run, const Value& self, const Args& args) {
  return Choose(run, self, args, true, true);
}
Value RejectAttr(Run& run, const Value& self, const Args& args) {
  return Choose(run, self, args, true, false);
}

Value ListOf(Run& run, const Value& self, const Args& args) {
  const Bound bound(run, "list", args, {});
  return run.List(Iterate(run, self));
}

Value First(Run& run, const Value& self, const Args& args) {
  const Bound bound(run, "first", args, {});
  if (self.is(Kind::kIterator)) {
    auto& iterator = self.as<ListObject>();
    if (iterator.next < iterator.items.size()) return iterator.items[iterator.next++];
    return run.Undefined("No first item, sequence was empty.");
  }
  const std::vector<Value> items = Iterate(run, self);
  if (!items.empty()) return items.front();
  return run.Undefined("No first item, sequence was empty.");
}

Value Last(Run& run, const Value& self, const Args& args) {
  const Bound bound(run, "last", args, {});
  if (self.is(Kind::kIterator)) run.Fail("'generator' object is not reversible");
  const std::vector<Value> items = Iterate(run, self);
  if (!items.empty()) return items.back();
  return run.Undefined("No last item, sequence was empty.");
}

Value LengthOf(Run& run, const Value& self, const Args& args) {
  const Bound bound(run, "length", args, {});
  return Value::Int(Length(run, self));
}

Value JoinFilter(Run& run, const Value& self, const Args& args) {
  const Bound bound(run, "join", args, {"d", "attribute"});
  const std::string separator = bound.has(0) ? ToText(run, bound[0]) : "";
  const Getter get = AttributeGetter(run, bound[1]);
  std::string made;
  bool is_first = true;
  for (const Value& item : Iterate(run, self)) {
    run.Step();
    const std::string text = ToText(run, get(item));
    if (made.size() + separator.size() + text.size() > made.capacity()) {
      run.Room(2 * (made.size() + separator.size() + text.size()));
    }
    if (!is_first) made += separator;
    made += text;
    is_first = false;
  }
  return run.String(std::move(made));
}

void SortBy(Run& run, std::vector<std::pair<Value, Value>>& keyed, bool descending) {
  // As in Python, equal items keep their order in both directions.
  std::stable_sort(keyed.begin(), keyed.end(), [&](const auto& a, const auto& b) {
    return descending ? IsLess(run, b.first, a.first) : IsLess(run, a.first, b.first);
  });
}

Value Sort(Run& run, const Value& self, const Args& args) {
  const Bound bound(run, "sort", args, {"reverse", "case_sensitive", "attribute"});
  std::vector<Getter> getters;
  if (bound[2].is(Kind::kString)) {
    for (const std::string_view part : SplitAt(run, Text(bound[2]), ',')) {
      getters.push_back(AttributeGetter(run, run.String(std::string(part))));
    }
  } else {
    getters.push_back(AttributeGetter(run, bound[2]));
  }
  std::vector<std::pair<Value, Value>> keyed;
  for (const Value& item : Iterate(run, self)) {
    run.Step();
    std::vector<Value> keys;
    for (const Getter& get : getters) {
      const Value key = get(item);
      keys.push_back(bound.IsTrue(1) ? key : IgnoreCase(run, key));
    }
    keyed.emplace_back(run.List(std::move(keys)), item);
  }
  SortBy(run, keyed, bound.IsTrue(0));
  std::vector<Value> sorted;
  for (auto& [key, item] : keyed) sorted.push_back(std::move(item));
  return run.List(std::move(sorted));
}

Value DictSort(Run& run, const Value& self, const Args& args) {
  const Bound bound(run, "dictsort", args, {"case_sensitive", "by", "reverse"});
  const std::string by = bound.Text(1, "key");
  if (by != "key" && by != "value") {
    run.Fail("You can only sort by either \"key\" or \"value\"");
  }
  if (self.is(Kind::kUndefined)) FailUndefined(run, self);
  if (!self.is(Kind::kDict)) run.Fail("dictsort sorts dicts only");
  std::vector<std::pair<Value, Value>> keyed;
  for (const auto& [key, value] : self.as<DictObject>().entries) {
    const Value& sorted_by = by == "key" ? key : value;
    keyed.emplace_back(bound.IsTrue(0) ? sorted_by : IgnoreCase(run, sorted_by),
                       run.Tuple({key, value}));
  }
  SortBy(run, keyed, bound.IsTrue(2));
  std::vector<Value> sorted;
  for (auto& [key, item] : keyed) sorted.push_back(std::move(item));
  return run.List(std::move(sorted));
}

Value Unique(Run& run, const Value& self, const Args& args) {
  const Bound bound(run, "unique", args, {"case_sensitive", "attribute"});
  const Getter get = AttributeGetter(run, bound[1]);
  const auto seen = std::make_shared<DictObject>();
  std::vector<Value> made;
  for (const Value& item : Iterate(run, self)) {
    Value key = get(item);
    if (!bound.IsTrue(0)) key = IgnoreCase(run, key);
    CheckKey(run, key);
    if (Lookup(run, *seen, key) != nullptr) continue;
    SetMember(run, *seen, std::move(key), Value::None());
    made.push_back(item);
  }
  return run.Iterator(std::move(made));
}

Value Reverse(Run& run, const Value& self, const Args& args) {
  const Bound bound(run, "reverse", args, {});
  if (self.is(Kind::kString)) {
    const std::string& text = Text(self);
    run.Touch(text.size());
    std::string made;
    for (size_t end = text.size(); end > 0;) {
      size_t begin = 0;
      ReadCharBefore(text, end, &begin);
      made.append(text, begin, end - begin);
      end = begin;
    }
    return run.String(std::move(made));
  }
  std::vector<Value> items = Iterate(run, self);
  std::ranges::reverse(items);
  return self.is(Kind::kIterator) ? run.List(std::move(items)) : run.Iterator(std::move(items));
}

Value ItemsFilter(Run& run, const Value& self, const Args& args) {
  const Bound bound(run, "items", args, {});
  std::vector<Value> items;
  if (self.is(Kind::kUndefined)) return run.Iterator({});
  if (!self.is(Kind::kDict)) run.Fail("Can only get item pairs from a mapping.");
  for (const auto& [key, value] : self.as<DictObject>().entries) {
    items.push_back(run.Tuple({key, value}));
  }
  return run.Iterator(std::move(items));
}

Value Batch(Run& run, const Value& self, const Args& args) {
  const Bound bound(run, "batch", args, {"linecount", "fill_with"}, 1);
  const int64_t size = bound.Whole(0, 1);
  std::vector<Value> batches;
  std::vector<Value> batch;
  for (const Value& item : Iterate(run, self)) {
    if (static_cast<int64_t>(batch.size()) == size) {
      batches.push_back(run.List(std::move(batch)));
      batch.clear();
    }
    batch.push_back(item);
  }
  if (!batch.empty()) {
    if (!bound[1].is(Kind::kNone)) {
      while (static_cast<int64_t>(batch.size()) < size) {
        run.Step();
        run.Room(sizeof(Value) * batch.size());
        batch.push_back(bound[1]);
      }
    }
    batches.push_back(run.List(std::move(batch)));
  }
  return run.Iterator(std::move(batches));
}

Value Sum(Run& run, const Value& self, const Args& args) {
  const Bound bound(run, "sum", args, {"attribute", "start"});
  const Getter get = AttributeGetter(run, bound[0]);
  Value sum = bound.has(1) ? bound[1] : Value::Int(0);
  if (sum.is(Kind::kString)) run.Fail("sum() can't sum strings");
  for (const Value& item : Iterate(run, self)) sum = Arithmetic(run, "+", sum, get(item));
  return sum;
}

Value Extreme(Run& run, const Value& self, const Args& args, bool largest) {
  const Bound bound(run, "min", args, {"case_sensitive", "attribute"});
  const Getter get = AttributeGetter(run, bound[1]);
  const auto key_of = [&](const Value& item) {
    const Value key = get(item);
    return bound.IsTrue(0) ? key : IgnoreCase(run, key);
  };
  const std::vector<Value> items = Iterate(run, self);
  if (items.empty()) return run.Undefined("No aggregated item, sequence was empty.");
  size_t best = 0;
  Value best_key = key_of(items[0]);
  for (size_t i = 1; i < items.size(); ++i) {
    Value key = key_of(items[i]);
    if (largest ? IsLess(run, best_key, key) : IsLess(run, key, best_key)) {
      best = i;
      best_key = std::move(key);
    }
  }
  return items[best];
}

Value Min(Run& run, const Value& self, const Args& args) { return Extreme(run, self, args, false); }
Value Max(Run& run, const Value& self, const Args& args) { return Extreme(run, self, args, true); }

struct SequenceEntry {
  std::string_view name;
  Native filter;
};

constexpr SequenceEntry kSequenceFilters[] = {
    {"map", Map},
    {"select", Select},
    {"reject", Reject},
    {"list", ListOf},
    {"selectattr", SelectAttr},
    {"rejectattr", RejectAttr},
    {"first", First},
    {"last", Last},
    {"length", LengthOf},
    {"count", LengthOf},
    {"join", JoinFilter},
    {"sort", Sort},
    {"dictsort", DictSort},
    {"unique", Unique},
    {"reverse", Reverse},
    {"items", ItemsFilter},
    {"batch", Batch},
    {"sum", Sum},
    {"min", Min},
    {"max", Max},
};

}  // namespace

Native FindSequenceFilter(std::string_view name) {
  const auto found = std::ranges::find_if(
      kSequenceFilters, [&](const SequenceEntry& one) { return one.name == name; });
  return found == std::end(kSequenceFilters) ? nullptr : found->filter;
}

}  // namespace beamline::jinja

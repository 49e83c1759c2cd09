#include <algorithm>
#include <utility>

#include "base/text.h"
#include "base/utf8.h"
#include "engine/jinja/functions.h"
#include "engine/jinja/methods.h"
#include "engine/jinja/operators.h"
#include "fmt/format.h"

namespace beamline::jinja {
namespace {

// The value's description in Jinja's error messages.
std::string Owner(const Value& value) {
  if (value.is(Kind::kNone)) return "None";
  return fmt::format("{} object", TypeName(value));
}

Value NoAttribute(Run& run, const Value& value, std::string_view name) {
  return run.Undefined(fmt::format("'{}' has no attribute '{}'", Owner(value), Shorten(name)));
}

// Finds an attribute of the object itself, methods first; false if there is none.
bool OwnAttribute(Run& run, const Value& value, std::string_view name, Value* found) {
  const auto unsafe = [&] {
    *found = run.Undefined(fmt::format("access to attribute '{}' of '{}' object is unsafe.",
                                       Shorten(name), TypeName(value)));
    return true;
  };
  switch (value.kind) {
    case Kind::kNamespace:
      CountMembers(run, *value.as<NamespaceObject>().members);
      for (const auto& [known, held] : *value.as<NamespaceObject>().members) {
        if (known == name) {
          *found = held;
          return true;
        }
      }
      return false;
    case Kind::kLoop:
      return LoopAttribute(run, value, name, found);
    case Kind::kCallable:
      return StatefulAttribute(run, value, name, found);
    default:
      break;
  }
  if (name.starts_with("__") && name.ends_with("__")) return unsafe();
  switch (FindMethod(run, value, name, found)) {
    case MethodKind::kNone:
      return false;
    case MethodKind::kChanges:
      return unsafe();
    case MethodKind::kFound:
      return true;
  }
  return false;
}

// Index of item `index` of `size`, counted from the end if negative; -1: out of range.
int64_t Place(int64_t index, int64_t size) {
  if (index < 0) index += size;
  return index >= 0 && index < size ? index : -1;
}

// Byte offset of each character, and of the end.
std::vector<size_t> CharacterOffsets(Run& run, const std::string& text) {
  run.Room(text.size() * sizeof(size_t));
  std::vector<size_t> offsets;
  for (size_t i = 0; i < text.size(); i += CharLength(text[i])) offsets.push_back(i);
  offsets.push_back(text.size());
  return offsets;
}

Value CharacterAt(Run& run, const StringObject& object, int64_t index, bool* found) {
  const int64_t place = Place(index, CountCharacters(run, object));
  *found = place >= 0;
  if (place < 0) return {};
  size_t begin = static_cast<size_t>(place);
  size_t length = 1;
  if (!object.ascii) {
    begin = 0;
    for (int64_t i = 0; i < place; ++i) begin += CharLength(object.text[begin]);
    length = CharLength(object.text[begin]);
  }
  return run.String(object.text.substr(begin, length));
}

// Python's value[key]; false if Python raises an error.
bool OwnItem(Run& run, const Value& value, const Value& key, Value* found) {
  bool has = false;
  switch (value.kind) {
    case Kind::kDict: {
      if (key.is(Kind::kList) || key.is(Kind::kDict)) return false;
      const Value* held = Lookup(run, value.as<DictObject>(), key);
      if (held != nullptr) *found = *held;
      return held != nullptr;
    }
    case Kind::kList:
    case Kind::kTuple: {
      if (!key.is_whole()) return false;
      const int64_t place = Place(key.whole, static_cast<int64_t>(Items(value).size()));
      if (place >= 0) *found = Items(value)[static_cast<size_t>(place)];
      return place >= 0;
    }
    case Kind::kString:
      if (!key.is_whole()) return false;
      *found = CharacterAt(run, value.as<StringObject>(), key.whole, &has);
      return has;
    case Kind::kRange: {
      if (!key.is_whole()) return false;
      const auto& range = value.as<RangeObject>();
      const int64_t place = Place(key.whole, range.size());
      if (place >= 0) *found = Value::Int(range.start + place * range.step);
      return place >= 0;
    }
    default:
      return false;
  }
}

// The bounds of a slice as Python adjusts them.
struct SliceBounds {
  int64_t start = 0;
  int64_t stop = 0;
  int64_t step = 1;
};

SliceBounds Adjust(Run& run, const Value& start, const Value& stop, const Value& step,
                   int64_t size) {
  SliceBounds bounds;
  if (!step.is(Kind::kNone)) bounds.step = Whole(run, step, "a slice's step");
  if (bounds.step == 0) run.Fail("slice step cannot be zero");
  const bool back = bounds.step < 0;
  const auto clamp = [&](const Value& value, int64_t otherwise) {
    if (value.is(Kind::kNone)) return otherwise;
    int64_t index = Whole(run, value, "a slice's bound");
    if (index < 0) index = index < -size ? (back ? -1 : 0) : index + size;
    return std::min(index, back ? size - 1 : size);
  };
  bounds.start = clamp(start, back ? size - 1 : 0);
  bounds.stop = clamp(stop, back ? -1 : size);
  return bounds;
}

template <typename Take>
void ForSlice(Run& run, const SliceBounds& bounds, int64_t size, Take take) {
  // A step larger than the size takes at most one item, like a step of the size.
  const int64_t step = std::clamp(bounds.step, -size - 1, size + 1);
  for (int64_t i = bounds.start; step > 0 ? i < bounds.stop : i > bounds.stop; i += step) {
    run.Step();
    take(static_cast<size_t>(i));
  }
}

Value SliceText(Run& run, const Value& value, const Value& start, const Value& stop,
                const Value& step) {
  const auto& object = value.as<StringObject>();
  const std::string& text = object.text;
  const std::vector<size_t> offsets =
      object.ascii ? std::vector<size_t>() : CharacterOffsets(run, text);
  const int64_t size = static_cast<int64_t>(object.ascii ? text.size() : offsets.size() - 1);
  const SliceBounds bounds = Adjust(run, start, stop, step, size);
  const auto at = [&](int64_t i) {
    return object.ascii ? static_cast<size_t>(i) : offsets[static_cast<size_t>(i)];
  };
  if (bounds.step == 1) {
    if (bounds.start >= bounds.stop) return run.String("", object.safe);
    const size_t begin = at(bounds.start);
    return run.String(text.substr(begin, at(bounds.stop) - begin), object.safe);
  }
  std::string made;
  ForSlice(run, bounds, size, [&](size_t i) {
    const size_t begin = at(static_cast<int64_t>(i));
    made += text.substr(begin, at(static_cast<int64_t>(i) + 1) - begin);
  });
  return run.String(std::move(made), object.safe);
}

}  // namespace

bool HasLength(const Value& value) {
  switch (value.kind) {
    case Kind::kUndefined:
    case Kind::kString:
    case Kind::kList:
    case Kind::kTuple:
    case Kind::kDict:
    case Kind::kRange:
    case Kind::kView:
      return true;
    default:
      return false;
  }
}

int64_t CountCharacters(Run& run, const StringObject& text) {
  if (text.ascii) return static_cast<int64_t>(text.text.size());
  run.Touch(text.text.size());
  return std::ranges::count_if(text.text, [](char c) { return !IsContinuationByte(c); });
}

int64_t Length(Run& run, const Value& value) {
  switch (value.kind) {
    case Kind::kUndefined:
      return 0;
    case Kind::kString:
      return CountCharacters(run, value.as<StringObject>());
    case Kind::kList:
    case Kind::kTuple:
    case Kind::kView:
      return static_cast<int64_t>(Items(value).size());
    case Kind::kDict:
      return static_cast<int64_t>(value.as<DictObject>().entries.size());
    case Kind::kRange:
      return value.as<RangeObject>().size();
    case Kind::kLoop:
      return static_cast<int64_t>(value.as<LoopObject>().items->items.size());
    default:
      run.Fail(fmt::format("object of type '{}' has no len()", TypeName(value)));
  }
}

bool IsIterable(const Value& value) {
  return HasLength(value) || value.is(Kind::kIterator) || value.is(Kind::kLoop);
}

std::vector<Value> Iterate(Run& run, const Value& value) {
  std::vector<Value> items;
  switch (value.kind) {
    case Kind::kUndefined:
      return items;
    case Kind::kList:
    case Kind::kTuple:
    case Kind::kView:
      run.Room(Items(value).size() * sizeof(Value));
      return Items(value);
    case Kind::kIterator: {
      auto& iterator = value.as<ListObject>();
      run.Room((iterator.items.size() - iterator.next) * sizeof(Value));
      items.assign(iterator.items.begin() + static_cast<ptrdiff_t>(iterator.next),
                   iterator.items.end());
      iterator.next = iterator.items.size();
      return items;
    }
    case Kind::kDict:
      run.Room(value.as<DictObject>().entries.size() * sizeof(Value));
      for (const auto& [key, held] : value.as<DictObject>().entries) items.push_back(key);
      return items;
    case Kind::kRange: {
      const auto& range = value.as<RangeObject>();
      run.Room(static_cast<size_t>(range.size()) * sizeof(Value));
      for (int64_t i = 0; i < range.size(); ++i) {
        items.push_back(Value::Int(range.start + i * range.step));
      }
      return items;
    }
    case Kind::kString: {
      const std::string& text = Text(value);
      for (size_t i = 0; i < text.size();) {
        const size_t length = CharLength(text[i]);
        run.Step();
        items.push_back(run.String(text.substr(i, length)));
        i += length;
      }
      return items;
    }
    default:
      run.Fail(fmt::format("'{}' object is not iterable", TypeName(value)));
  }
}

void CheckKey(Run& run, const Value& key) {
  if (key.is(Kind::kList) || key.is(Kind::kDict)) {
    run.Fail(fmt::format("unhashable type: '{}'", TypeName(key)));
  }
}

void SetMember(Run& run, DictObject& dict, Value key, Value value) {
  run.Step();
  if (key.is(Kind::kString)) run.Touch(Text(key).size());
  dict.Set(std::move(key), std::move(value));
}

const Value* Lookup(Run& run, const DictObject& dict, const Value& key) {
  run.Step();
  if (key.is(Kind::kString)) {
    run.Touch(Text(key).size());
    return dict.Find(Text(key));
  }
  for (const auto& [known, held] : dict.entries) {
    if (IsEqual(run, known, key)) return &held;
  }
  return nullptr;
}

Value Attribute(Run& run, const Value& value, std::string_view name) {
  if (value.is(Kind::kUndefined)) FailUndefined(run, value);
  run.Step();
  Value found;
  if (OwnAttribute(run, value, name, &found)) return found;
  if (value.is(Kind::kDict)) {
    run.Touch(name.size());
    if (const Value* held = value.as<DictObject>().Find(name)) return *held;
  }
  return NoAttribute(run, value, name);
}

Value Item(Run& run, const Value& value, const Value& key) {
  if (value.is(Kind::kUndefined)) FailUndefined(run, value);
  run.Step();
  Value found;
  if (OwnItem(run, value, key, &found)) return found;
  if (!key.is(Kind::kString)) {
    return run.Undefined(
        fmt::format("{} has no element {}", Owner(value), Shorten(Repr(run, key))));
  }
  if (OwnAttribute(run, value, Text(key), &found)) return found;
  return NoAttribute(run, value, Text(key));
}

Value Slice(Run& run, const Value& value, const Value& start, const Value& stop,
            const Value& step) {
  if (value.is(Kind::kUndefined)) FailUndefined(run, value);
  if (value.is(Kind::kString)) return SliceText(run, value, start, stop, step);
  if (!value.is(Kind::kList) && !value.is(Kind::kTuple) && !value.is(Kind::kRange)) {
    run.Fail(fmt::format("'{}' object is not subscriptable by a slice", TypeName(value)));
  }
  const std::vector<Value> items = Iterate(run, value);
  const auto size = static_cast<int64_t>(items.size());
  std::vector<Value> taken;
  ForSlice(run, Adjust(run, start, stop, step, size), size,
           [&](size_t i) { taken.push_back(items[i]); });
  return value.is(Kind::kTuple) ? run.Tuple(std::move(taken)) : run.List(std::move(taken));
}

}  // namespace beamline::jinja

#include "engine/jinja/value.h"

#include <algorithm>
#include <cmath>

#include "base/utf8.h"

namespace beamline::jinja {
namespace {

// The whole number that a key is equal to (1, 1.0 and true are equal); false if there is none.
bool WholeKey(const Value& key, int64_t& whole) {
  if (key.is_whole()) {
    whole = key.whole;
    return true;
  }
  if (!key.is(Kind::kFloat) || key.real != std::floor(key.real) || std::abs(key.real) > 0x1p62) {
    return false;
  }
  whole = static_cast<int64_t>(key.real);
  return true;
}

}  // namespace

const Value* DictObject::Find(std::string_view key) const {
  const auto found = by_text_.find(key);
  return found == by_text_.end() ? nullptr : &entries[found->second].second;
}

void DictObject::Set(Value key, Value value) {
  depth = std::max(depth, 1 + std::max(key.object == nullptr ? 0 : key.object->depth,
                                       value.object == nullptr ? 0 : value.object->depth));
  int64_t whole = 0;
  size_t* place = nullptr;
  bool is_new = true;
  if (key.is(Kind::kString)) {
    const auto [found, added] = by_text_.try_emplace(Text(key), entries.size());
    place = &found->second;
    is_new = added;
  } else if (WholeKey(key, whole)) {
    const auto [found, added] = by_whole_.try_emplace(whole, entries.size());
    place = &found->second;
    is_new = added;
  }
  if (!is_new) {
    entries[*place].second = std::move(value);
    return;
  }
  entries.emplace_back(std::move(key), std::move(value));
}

int64_t RangeObject::size() const {
  if (step > 0) return start < stop ? (stop - start - 1) / step + 1 : 0;
  return start > stop ? (start - stop - 1) / -step + 1 : 0;
}

Value MakeString(std::string text) {
  auto object = std::make_shared<StringObject>();
  object->ascii = IsAscii(text);
  object->text = std::move(text);
  return {Kind::kString, std::move(object)};
}

Value MakeList(std::vector<Value> items) {
  auto object = std::make_shared<ListObject>();
  for (const Value& item : items) {
    if (item.object != nullptr) object->depth = std::max(object->depth, item.object->depth);
  }
  ++object->depth;
  object->items = std::move(items);
  return {Kind::kList, std::move(object)};
}

std::string_view TypeName(const Value& value) {
  switch (value.kind) {
    case Kind::kUndefined:
      return "Undefined";
    case Kind::kNone:
      return "None";
    case Kind::kBool:
      return "bool";
    case Kind::kInt:
      return "int";
    case Kind::kFloat:
      return "float";
    case Kind::kString:
      return "str";
    case Kind::kList:
      return "list";
    case Kind::kTuple:
      return "tuple";
    case Kind::kDict:
      return "dict";
    case Kind::kRange:
      return "range";
    case Kind::kIterator:
      return "generator";
    case Kind::kView:
      return value.as<ListObject>().name;
    case Kind::kNamespace:
      return "namespace";
    case Kind::kLoop:
      return "loop";
    case Kind::kCallable:
      return value.as<CallableObject>().macro != nullptr ? "macro" : "function";
  }
  return "";
}

}  // namespace beamline::jinja

// The values that a template computes with: those Python types that Jinja has. Values share their
// content, which is immutable, as in the immutable sandbox of transformers. Namespaces, loops and
// iterators do change; they belong to one rendering.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"

namespace beamline::jinja {

class Run;
struct Scope;
struct Statement;
struct Args;

enum class Kind : uint8_t {
  kUndefined,
  kNone,
  kBool,
  kInt,
  kFloat,
  kString,
  kList,
  kTuple,
  kDict,
  kRange,
  kIterator,  // of filters like map: can be iterated once
  kView,      // of a dict: its items(), keys() or values()
  kNamespace,
  kLoop,
  kCallable,
};

// Bytes held by the values of one rendering.
struct Meter {
  size_t live = 0;
};

// The object of a value. If there is a meter, it has counted `bytes` for this object.
struct Object {
  Object() = default;
  Object(const Object&) = delete;
  Object& operator=(const Object&) = delete;
  virtual ~Object() {
    if (meter != nullptr) meter->live -= bytes;
  }

  Meter* meter = nullptr;
  size_t bytes = 0;
  int depth = 0;  // nesting depth of containers
};

struct Value {
  Value() = default;
  Value(Kind its_kind, std::shared_ptr<Object> its_object)
      : kind(its_kind), object(std::move(its_object)) {}

  static Value None() { return {}; }
  static Value Bool(bool value) {
    Value made;
    made.kind = Kind::kBool;
    made.whole = value ? 1 : 0;
    return made;
  }
  static Value Int(int64_t value) {
    Value made;
    made.kind = Kind::kInt;
    made.whole = value;
    return made;
  }
  static Value Float(double value) {
    Value made;
    made.kind = Kind::kFloat;
    made.real = value;
    return made;
  }

  bool is(Kind other) const { return kind == other; }
  bool is_number() const {
    return kind == Kind::kBool || kind == Kind::kInt || kind == Kind::kFloat;
  }
  // A bool is also a whole number.
  bool is_whole() const { return kind == Kind::kBool || kind == Kind::kInt; }
  double as_double() const { return is_whole() ? static_cast<double>(whole) : real; }

  template <typename T>
  T& as() const {
    return static_cast<T&>(*object);
  }

  Kind kind = Kind::kNone;
  union {
    int64_t whole = 0;
    double real;
  };
  std::shared_ptr<Object> object;
};

struct UndefinedObject final : Object {
  std::string message;  // the error message of operations on it
};

struct StringObject final : Object {
  std::string text;  // UTF-8
  bool ascii = true;
  bool safe = false;  // Python's Markup: text added to it is escaped
};

// For lists, tuples, iterators and views.
struct ListObject : Object {
  std::vector<Value> items;
  std::string_view name;  // of a view: its type name in Python
  size_t next = 0;        // of an iterator: index of the next item
};

// Keeps the order of insertion.
struct DictObject final : Object {
  // Null if there is none.
  const Value* Find(std::string_view key) const;
  // Replaces the value of an equal key.
  void Set(Value key, Value value);

  std::vector<std::pair<Value, Value>> entries;

 private:
  absl::flat_hash_map<std::string_view, size_t> by_text_;
  absl::flat_hash_map<int64_t, size_t> by_whole_;
};

struct RangeObject final : Object {
  int64_t start = 0;
  int64_t stop = 0;
  int64_t step = 1;
  int64_t size() const;
};

struct NamespaceObject final : Object {
  std::vector<std::pair<std::string, Value>>* members = nullptr;  // owned by the rendering
};

struct LoopObject final : Object {
  std::shared_ptr<ListObject> items;
  int64_t index0 = 0;
  int64_t depth0 = 0;
};

// The arguments of a call.
struct Args {
  std::vector<Value> positional;
  std::vector<std::pair<std::string, Value>> named;
};

using Native = Value (*)(Run& run, const Value& self, const Args& args);

struct CallableObject final : Object {
  std::string name;
  Native native = nullptr;
  Value self;  // of a method: its object; of a cycler: its items
  size_t next = 0;
  // Only for macros.
  const Statement* macro = nullptr;
  Scope* scope = nullptr;  // where it was defined
};

// --- Without a rendering: constants and what a template is given
// ------------------------------------

Value MakeString(std::string text);
Value MakeList(std::vector<Value> items);

inline const std::string& Text(const Value& value) { return value.as<StringObject>().text; }
inline const std::vector<Value>& Items(const Value& value) { return value.as<ListObject>().items; }

// The type name in Python: "str", "dict".
std::string_view TypeName(const Value& value);

}  // namespace beamline::jinja

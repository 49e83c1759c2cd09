// Python's operators, and its conversion of values to text.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "engine/jinja/run.h"
#include "engine/jinja/value.h"

namespace beamline::jinja {

bool Truth(const Value& value);
bool IsEqual(Run& run, const Value& a, const Value& b);
// Throws if Python defines no order.
bool IsLess(Run& run, const Value& a, const Value& b);
bool Contains(Run& run, const Value& item, const Value& container);

// "+", "-", "*", "/", "//", "%", "**".
Value Arithmetic(Run& run, std::string_view symbol, const Value& a, const Value& b);
Value Negative(Run& run, const Value& value);

// str() and repr().
std::string ToText(Run& run, const Value& value);
std::string Repr(Run& run, const Value& value);
std::string FloatText(double value);
// The text of a string; for other values, that of str(). Used by text filters.
std::string SoftText(Run& run, const Value& value);

// len(); throws if the value has none.
int64_t Length(Run& run, const Value& value);
bool HasLength(const Value& value);
int64_t CountCharacters(Run& run, const StringObject& text);
// The items that a loop visits. An iterator returns its remaining items and is empty afterwards.
std::vector<Value> Iterate(Run& run, const Value& value);
bool IsIterable(const Value& value);

// value.name and value[key] as in Jinja; undefined if there is none.
Value Attribute(Run& run, const Value& value, std::string_view name);
Value Item(Run& run, const Value& value, const Value& key);
Value Slice(Run& run, const Value& value, const Value& start, const Value& stop, const Value& step);
// A dict's value; null if there is none. Throws if the key is not hashable.
const Value* Lookup(Run& run, const DictObject& dict, const Value& key);
void CheckKey(Run& run, const Value& key);
// Sets a member of a dict under construction; the cost of hashing the key is counted.
void SetMember(Run& run, DictObject& dict, Value key, Value value);

// Counts the cost of a linear search in a namespace's members.
inline void CountMembers(Run& run, const std::vector<std::pair<std::string, Value>>& members) {
  constexpr size_t kMembersPerStep = 16;
  run.Step(members.size() / kMembersPerStep);
}

// Throws the error for an operation on this undefined value.
[[noreturn]] void FailUndefined(Run& run, const Value& value);

// A whole number from an argument.
int64_t Whole(Run& run, const Value& value, std::string_view what);

// Whether the text consists of digits only and fits into 64 bits.
bool ParseIndex(std::string_view text, int64_t* index);

// Escapes text for HTML, as for text that is added to safe text.
std::string Escape(std::string_view text);

}  // namespace beamline::jinja

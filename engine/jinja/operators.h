// What Python's operators do to values, and how it writes them.
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
// Throws where Python has no order.
bool IsLess(Run& run, const Value& a, const Value& b);
bool Contains(Run& run, const Value& item, const Value& container);

// "+", "-", "*", "/", "//", "%", "**".
Value Arithmetic(Run& run, std::string_view symbol, const Value& a, const Value& b);
Value Negative(Run& run, const Value& value);

// str() and repr().
std::string ToText(Run& run, const Value& value);
std::string Repr(Run& run, const Value& value);
std::string FloatText(double value);
// The text of a string, what str() makes of others: what filters of texts take.
std::string SoftText(Run& run, const Value& value);

// len(); throws where there is none.
int64_t Length(Run& run, const Value& value);
bool HasLength(const Value& value);
int64_t CountCharacters(Run& run, const StringObject& text);
// What a loop over the value goes through. Of an iterator what is left of it, which is gone then.
std::vector<Value> Iterate(Run& run, const Value& value);
bool IsIterable(const Value& value);

// value.name and value[key], as Jinja looks them up; undefined where there is none.
Value Attribute(Run& run, const Value& value, std::string_view name);
Value Item(Run& run, const Value& value, const Value& key);
Value Slice(Run& run, const Value& value, const Value& start, const Value& stop, const Value& step);
// Of a dict; null when there is none. Throws where the key cannot be one.
const Value* Lookup(Run& run, const DictObject& dict, const Value& key);
void CheckKey(Run& run, const Value& key);
// Puts a member into a dict that is being made; hashing its key counts.
void SetMember(Run& run, DictObject& dict, Value key, Value value);

// Counts the looking through a namespace's members, which have no index.
inline void CountMembers(Run& run, const std::vector<std::pair<std::string, Value>>& members) {
  constexpr size_t kMembersPerStep = 16;
  run.Step(members.size() / kMembersPerStep);
}

// Throws what an operation on this undefined value says.
[[noreturn]] void FailUndefined(Run& run, const Value& value);

// A whole number of an argument.
int64_t Whole(Run& run, const Value& value, std::string_view what);

// Whether the text is a number of digits alone, of 64 bits.
bool ParseIndex(std::string_view text, int64_t* index);

// What safe text is added to.
std::string Escape(std::string_view text);

}  // namespace beamline::jinja

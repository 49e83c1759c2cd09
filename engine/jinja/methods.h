// The methods of Python's strings, lists, dicts and numbers.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "engine/jinja/run.h"
#include "engine/jinja/value.h"

namespace beamline::jinja {

enum class MethodKind : uint8_t { kNone, kFound, kChanges };

// Finds the method with this name and binds it to the value. kChanges: the method changes its
// object, which the sandbox does not allow. Throws for unsupported methods.
MethodKind FindMethod(Run& run, const Value& value, std::string_view name, Value* found);

// Looks up loop.index and the like.
bool LoopAttribute(Run& run, const Value& loop, std::string_view name, Value* found);

// Cost of operations that look up each word or character: many times the cost of copying.
inline constexpr size_t kStepsPerCharacter = 2;

// Removes the characters in `characters` (null: white space) at the ends of `text`.
enum class StripSides : uint8_t { kBoth, kLeft, kRight };
std::string Strip(Run& run, std::string_view text, const std::string* characters,
                  StripSides sides = StripSides::kBoth);
// Replaces at most `count` occurrences, all if it is negative.
std::string Replace(Run& run, std::string_view text, std::string_view old_text,
                    std::string_view new_text, int64_t count);

}  // namespace beamline::jinja

// The methods of Python's strings, lists, dicts and numbers.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "engine/jinja/run.h"
#include "engine/jinja/value.h"

namespace beamline::jinja {

enum class MethodKind : uint8_t { kNone, kFound, kChanges };

// The method of this name, bound to the value. kChanges: there is one, which the sandbox does not
// let a template call. Throws of methods that are not supported.
MethodKind FindMethod(Run& run, const Value& value, std::string_view name, Value* found);

// loop.index and the like.
bool LoopAttribute(Run& run, const Value& loop, std::string_view name, Value* found);

// Of changes that look each word or character up by itself: many times what copying it takes.
inline constexpr size_t kStepsPerCharacter = 2;

// Of `text`: without the characters at its ends that are in `characters`; without these, white
// space.
enum class StripSides : uint8_t { kBoth, kLeft, kRight };
std::string Strip(Run& run, std::string_view text, const std::string* characters,
                  StripSides sides = StripSides::kBoth);
// At most `count` of them where it is not negative.
std::string Replace(Run& run, std::string_view text, std::string_view old_text,
                    std::string_view new_text, int64_t count);

}  // namespace beamline::jinja

// Binds the arguments of a call to parameter names.
#pragma once

#include <initializer_list>
#include <string>
#include <string_view>
#include <vector>

#include "engine/jinja/run.h"
#include "engine/jinja/value.h"

namespace beamline::jinja {

class Bound {
 public:
  // Throws if one of the first `required` is missing, or if an argument is unknown.
  Bound(Run& run, std::string_view function, const Args& args,
        std::initializer_list<std::string_view> names, size_t required = 0);

  bool has(size_t i) const { return values_[i] != nullptr; }
  // The argument, or None.
  const Value& operator[](size_t i) const;
  bool IsTrue(size_t i) const;
  int64_t Whole(size_t i, int64_t otherwise) const;
  std::string Text(size_t i, std::string_view otherwise) const;

 private:
  Run& run_;
  const std::string_view function_;
  std::vector<const Value*> values_;
};

}  // namespace beamline::jinja

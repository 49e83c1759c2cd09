#include "engine/jinja/arguments.h"

#include <algorithm>

#include "base/text.h"
#include "engine/jinja/operators.h"
#include "fmt/format.h"

namespace beamline::jinja {

Bound::Bound(Run& run, std::string_view function, const Args& args,
             std::initializer_list<std::string_view> names, size_t required)
    : run_(run), function_(function), values_(names.size(), nullptr) {
  if (args.positional.size() > names.size()) {
    run.Fail(fmt::format("{}() takes at most {} arguments ({} given)", function, names.size(),
                         args.positional.size()));
  }
  for (size_t i = 0; i < args.positional.size(); ++i) values_[i] = &args.positional[i];
  for (const auto& [name, value] : args.named) {
    const auto place = static_cast<size_t>(std::ranges::find(names, name) - names.begin());
    if (place == names.size()) {
      run.Fail(
          fmt::format("{}() got an unexpected keyword argument '{}'", function, Shorten(name)));
    }
    if (values_[place] != nullptr) {
      run.Fail(fmt::format("{}() got multiple values for argument '{}'", function, name));
    }
    values_[place] = &value;
  }
  for (size_t i = 0; i < required; ++i) {
    if (values_[i] == nullptr) {
      run.Fail(fmt::format("{}() is missing its argument '{}'", function, names.begin()[i]));
    }
  }
}

const Value& Bound::operator[](size_t i) const {
  static const Value kNone;
  return values_[i] == nullptr ? kNone : *values_[i];
}

bool Bound::IsTrue(size_t i) const { return has(i) && Truth(*values_[i]); }

int64_t Bound::Whole(size_t i, int64_t otherwise) const {
  if (!has(i)) return otherwise;
  return jinja::Whole(run_, *values_[i], fmt::format("an argument of {}()", function_));
}

std::string Bound::Text(size_t i, std::string_view otherwise) const {
  if (!has(i)) return std::string(otherwise);
  const Value& value = *values_[i];
  if (value.is(Kind::kUndefined)) FailUndefined(run_, value);
  if (value.is(Kind::kString)) {
    run_.Touch(jinja::Text(value).size());
    return jinja::Text(value);
  }
  run_.Fail(fmt::format("an argument of {}() is of type {}; a str is expected", function_,
                        TypeName(value)));
}

}  // namespace beamline::jinja

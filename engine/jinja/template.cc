#include "engine/jinja/template.h"

#include <algorithm>
#include <utility>

#include "base/text.h"
#include "base/utf8.h"
#include "engine/jinja/ast.h"
#include "engine/jinja/interpreter.h"
#include "engine/jinja/lexer.h"
#include "engine/jinja/run.h"
#include "fmt/format.h"

namespace beamline::jinja {
namespace {

absl::Status AtLine(const Fault& fault, int line) {
  constexpr size_t kMostMessage = 400;
  return absl::InvalidArgumentError(fmt::format("line {}: {}", fault.line > 0 ? fault.line : line,
                                                Shorten(fault.message, kMostMessage)));
}

}  // namespace

struct Template::Parts {
  Program program;
};

Template::Template(std::unique_ptr<Parts> parts) : parts_(std::move(parts)) {}
Template::Template(Template&&) noexcept = default;
Template& Template::operator=(Template&&) noexcept = default;
Template::~Template() = default;

absl::StatusOr<Template> Template::Parse(std::string_view source) {
  if (source.size() > kMostBytes) {
    return absl::InvalidArgumentError(
        fmt::format("it has {} bytes; accepted: at most {}", source.size(), kMostBytes));
  }
  try {
    auto parts = std::make_unique<Parts>();
    parts->program = jinja::Parse(source);
    return Template(std::move(parts));
  } catch (const Fault& fault) {
    return AtLine(fault, 1);
  }
}

absl::StatusOr<std::string> Template::Render(const Variables& variables, const RenderLimits& limits,
                                             int64_t now) const {
  Run run(limits, now);
  Interpreter interpreter(parts_->program, run);
  try {
    return interpreter.Render(variables);
  } catch (const Stopped& stopped) {
    return stopped.status;
  } catch (const Fault& fault) {
    if (!fault.raised) return AtLine(fault, interpreter.line());
    constexpr size_t kMostRaised = 1000;
    size_t end = std::min(fault.message.size(), kMostRaised);
    while (end < fault.message.size() && IsContinuationByte(fault.message[end])) --end;
    absl::Status status = absl::InvalidArgumentError(fault.message.substr(0, end));
    status.SetPayload(kRaisedPayload, absl::Cord());
    return status;
  }
}

bool Template::Mentions(std::string_view name) const {
  return std::ranges::find(parts_->program.names, name) != parts_->program.names.end();
}

}  // namespace beamline::jinja

// Templates in the language of Jinja, as far as chat templates go, with the semantics of Jinja 3.1
// in the immutable sandbox that transformers renders them in. Neither a template nor what it is
// given needs to be trusted: parsing and rendering are bounded in depth, steps and memory.
#pragma once

#include <cstddef>
#include <cstdint>
#include <ctime>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "engine/jinja/value.h"

namespace beamline::jinja {

struct RenderLimits {
  size_t steps = 5'000'000;         // about a second
  size_t memory_bytes = 64U << 20;  // of values at any time
  size_t output_bytes = 16U << 20;
};

using Variables = std::vector<std::pair<std::string, Value>>;

// The payload of an error that the template's own raise_exception has raised: its message is that
// of the status, as the template has it. Other errors begin with "line N: ".
inline constexpr char kRaisedPayload[] = "beamline.raised";

// Thread safe; immutable after parsing.
class Template {
 public:
  static constexpr size_t kMostBytes = size_t{1} << 20;

  // INVALID_ARGUMENT, "line N: ...", when it is not in the language, or uses a tag, filter or test
  // that is not known.
  static absl::StatusOr<Template> Parse(std::string_view source);

  Template(Template&&) noexcept;
  Template& operator=(Template&&) noexcept;
  ~Template();

  // INVALID_ARGUMENT when it cannot be computed, or takes more than the limits. What it reads and
  // writes counts, whatever reads it: a step for 32 bytes. A StopCheck of the thread
  // (base/stop_check.h) ends it with its status. `now`: what strftime_now tells, in seconds since
  // 1970; below 0: the time.
  absl::StatusOr<std::string> Render(const Variables& variables, const RenderLimits& limits = {},
                                     int64_t now = -1) const;

  // Whether the text of the template mentions a variable of this name.
  bool Mentions(std::string_view name) const;

 private:
  struct Parts;
  explicit Template(std::unique_ptr<Parts> parts);
  std::unique_ptr<const Parts> parts_;
};

// --- What a template is given
// -----------------------------------------------------------------------

// Of a JSON text: each takes up to some 150 bytes of memory.
inline constexpr size_t kMostJsonValues = size_t{1} << 18;

// A JSON value, the members of objects in their order. Faults (syntax, depth, too many values,
// names twice in one object, whole numbers beyond 64 bits) are INVALID_ARGUMENT with what is wrong.
absl::StatusOr<Value> ParseJsonValue(std::string_view text);

Value MakeDict(Variables members);

}  // namespace beamline::jinja

// Jinja templates, as far as chat templates need them, with the semantics of Jinja 3.1 in the
// immutable sandbox that transformers uses. Templates and their inputs need not be trusted: parsing
// and rendering are limited in depth, steps and memory.
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
  size_t memory_bytes = 64U << 20;  // live values at any time
  size_t output_bytes = 16U << 20;
};

using Variables = std::vector<std::pair<std::string, Value>>;

// Payload of an error raised by the template's raise_exception; the status message is then the
// template's message. Other errors begin with "line N: ".
inline constexpr char kRaisedPayload[] = "beamline.raised";

// Thread safe; immutable after parsing.
class Template {
 public:
  static constexpr size_t kMostBytes = size_t{1} << 20;

  // INVALID_ARGUMENT, "line N: ...", if the syntax is invalid or a tag, filter or test is unknown.
  static absl::StatusOr<Template> Parse(std::string_view source);

  Template(Template&&) noexcept;
  Template& operator=(Template&&) noexcept;
  ~Template();

  // INVALID_ARGUMENT if the template fails or exceeds the limits. All bytes read and written count:
  // one step per 32 bytes. A StopCheck of the thread (base/stop_check.h) ends the rendering with
  // its status. `now`: time for strftime_now, in seconds since 1970; below 0: the current time.
  absl::StatusOr<std::string> Render(const Variables& variables, const RenderLimits& limits = {},
                                     int64_t now = -1) const;

  // Whether the template's text mentions a variable with this name.
  bool Mentions(std::string_view name) const;

 private:
  struct Parts;
  explicit Template(std::unique_ptr<Parts> parts);
  std::unique_ptr<const Parts> parts_;
};

// --- What a template is given
// -----------------------------------------------------------------------

// Maximum values of a JSON text; each takes up to about 150 bytes of memory.
inline constexpr size_t kMostJsonValues = size_t{1} << 18;

// Parses a JSON value; members of objects keep their order. INVALID_ARGUMENT for faults: syntax,
// depth, too many values, duplicate names in an object, whole numbers beyond 64 bits.
absl::StatusOr<Value> ParseJsonValue(std::string_view text);

Value MakeDict(Variables members);

}  // namespace beamline::jinja

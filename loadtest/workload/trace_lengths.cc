#include "loadtest/workload/trace_lengths.h"

#include <algorithm>
#include <limits>

#include "base/text.h"
#include "fmt/format.h"

namespace beamline::loadtest {
namespace {

int32_t OrMost(int32_t limit) { return limit > 0 ? limit : std::numeric_limits<int32_t>::max(); }

// The nearest lengths that the class's model accepts.
TraceEntry Fitted(const RequestClass& of, TraceEntry entry) {
  const int32_t most_total = std::max(2, OrMost(of.max_total_tokens));
  int32_t most_prompt = OrMost(of.max_input_tokens);
  if (of.prompt_takes_positions) most_prompt = std::min(most_prompt, most_total - 1);
  entry.prompt_tokens = std::clamp(entry.prompt_tokens, 1, most_prompt);
  const int32_t taken = of.prompt_takes_positions ? entry.prompt_tokens : 0;
  entry.output_tokens = std::clamp(entry.output_tokens, 1, most_total - taken);
  return entry;
}

std::string Limits(const RequestClass& of) {
  std::string text = "at least 1 of each";
  if (of.max_input_tokens > 0) text += fmt::format(", prompts of at most {}", of.max_input_tokens);
  if (of.max_total_tokens > 0) {
    text +=
        fmt::format(", {} of at most {}", of.prompt_takes_positions ? "both together" : "answers",
                    of.max_total_tokens);
  }
  return text;
}

}  // namespace

absl::StatusOr<LongLengths> ParseLongLengths(const std::string& what, const std::string& text) {
  if (text == "refuse") return LongLengths::kRefuse;
  if (text == "clip") return LongLengths::kClip;
  return absl::InvalidArgumentError(
      fmt::format("{} is '{}'; accepted: refuse, clip", what, Shorten(text)));
}

absl::Status CheckTraceWorkload(const Workload& workload) {
  if (workload.num_distinct > 0) {
    return absl::InvalidArgumentError(
        fmt::format("distinct is {}; accepted with --trace: 0, every request is its own",
                    workload.num_distinct));
  }
  for (const RequestClass& of : workload.classes) {
    if (of.kind != Kind::kGenerate && of.kind != Kind::kGenerateStream) {
      return absl::InvalidArgumentError(
          fmt::format("{}: kind is '{}'; accepted with --trace: generate, generate_stream", of.name,
                      KindName(of.kind)));
    }
  }
  return absl::OkStatus();
}

absl::StatusOr<int64_t> FitTrace(const std::string& what, const RequestFactory& factory,
                                 LongLengths lengths, Trace& trace) {
  int64_t num_changed = 0;
  for (size_t i = 0; i < trace.size(); ++i) {
    TraceEntry& entry = trace[i];
    const RequestClass& of = factory.workload().classes[factory.ClassOf(i)];
    const TraceEntry fitted = Fitted(of, entry);
    if (fitted.prompt_tokens == entry.prompt_tokens &&
        fitted.output_tokens == entry.output_tokens) {
      continue;
    }
    if (lengths == LongLengths::kRefuse) {
      return absl::InvalidArgumentError(fmt::format(
          "{}:{}: {} prompt and {} output tokens; accepted of {}: {}; --trace-lengths clip cuts "
          "them",
          what, entry.line, entry.prompt_tokens, entry.output_tokens, of.name, Limits(of)));
    }
    entry = fitted;
    ++num_changed;
  }
  return num_changed;
}

}  // namespace beamline::loadtest

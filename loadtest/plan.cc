#include "loadtest/plan.h"

#include <memory>
#include <utility>
#include <variant>
#include <vector>

#include "base/build_info.h"
#include "base/file.h"
#include "base/json.h"
#include "base/standard_streams.h"
#include "fmt/format.h"
#include "google/protobuf/util/json_util.h"
#include "loadtest/load.h"
#include "loadtest/output_files.h"
#include "loadtest/report/result_json.h"
#include "loadtest/traffic/server_models.h"
#include "loadtest/workload/arrivals.h"

namespace beamline::loadtest {
namespace {

using nlohmann::json;
using std::chrono::nanoseconds;

constexpr char kSchema[] = "beamline.plan/1";

double Seconds(nanoseconds time) { return std::chrono::duration<double>(time).count(); }

// Fails for texts that are not UTF-8: the library would silently leave them out of the JSON.
absl::StatusOr<json> MessageToJson(const google::protobuf::Message& message) {
  google::protobuf::util::JsonPrintOptions options;
  options.preserve_proto_field_names = true;
  std::string text;
  const auto status = google::protobuf::util::MessageToJsonString(message, &text, options);
  if (!status.ok()) return absl::InvalidArgumentError(status.message().ToString());
  const std::unique_ptr<google::protobuf::Message> copy(message.New());
  if (!google::protobuf::util::JsonStringToMessage(text, copy.get()).ok() ||
      copy->ByteSizeLong() != message.ByteSizeLong()) {
    return absl::InvalidArgumentError("a plan cannot hold it; accepted: texts of UTF-8");
  }
  return ParseJson(text, "request");
}

std::vector<const google::protobuf::Message*> Messages(const RequestBody& body) {
  std::vector<const google::protobuf::Message*> messages;
  const auto add = [&](const auto& one_or_many) {
    if constexpr (requires { one_or_many.size(); }) {
      for (const auto& message : one_or_many) messages.push_back(&message);
    } else {
      messages.push_back(&one_or_many);
    }
  };
  std::visit(add, body);
  return messages;
}

absl::Status CheckHasTimes(const TrafficOptions& options) {
  if (!options.arrivals) {
    return absl::InvalidArgumentError(
        "--concurrency is for runs, where answers decide when requests are sent; accepted: an open "
        "loop, by --rate or --phase");
  }
  if (options.batching.size > 0) {
    return absl::InvalidArgumentError(
        "--batching is for runs, where answers decide when requests are sent; accepted: none");
  }
  return absl::OkStatus();
}

json HeadToJson(const Load& load) {
  json classes = json::array();
  for (const ClassName& of : ClassNames(load.workload)) {
    classes.push_back({{"name", of.name}, {"kind", of.kind}});
  }
  json models = json::array();
  for (const v1::Model& model : load.models) models.push_back(DescribeModel(model));
  const LoadDescription description = DescribeLoad(load);
  return {{"schema", kSchema},
          {"beamline", ThisBuild().version},
          {"models", std::move(models)},
          {"load", LoadToJson(description)},
          {"asked_per_s", description.asked_per_s},
          {"timeout_s", Seconds(load.options.timeout)},
          {"drain_s", Seconds(load.options.drain)},
          {"classes", std::move(classes)}};
}

}  // namespace

absl::StatusOr<json> PlannedRequest(const Request& request, const std::string& class_name,
                                    nanoseconds intended) {
  json messages = json::array();
  for (const google::protobuf::Message* const message : Messages(request.body)) {
    auto object = MessageToJson(*message);
    if (!object.ok()) {
      return absl::InvalidArgumentError(fmt::format("request {} of '{}': {}", request.index,
                                                    class_name,
                                                    std::string(object.status().message())));
    }
    messages.push_back(*std::move(object));
  }
  json line = {{"index", request.index},
               {"time_s", Seconds(intended)},
               {"class", class_name},
               {"kind", KindName(request.kind)},
               {"requests", std::move(messages)}};
  if (request.cancel_after) line["cancel_after_ms"] = request.cancel_after->count();
  if (request.deadline) line["deadline_ms"] = request.deadline->count();
  return line;
}

absl::Status PlanLoadTest(const RunFlags& flags) {
  if (const absl::Status status = CheckOutputs({{"--out", flags.plan_file}}); !status.ok()) {
    return status;
  }
  const auto load = PrepareLoad(flags);
  if (!load.ok()) return load.status();
  const TrafficOptions& options = load->options;
  if (const absl::Status status = CheckHasTimes(options); !status.ok()) return status;
  const auto dump = [](const json& line) {
    return line.dump(-1, ' ', false, json::error_handler_t::replace) + "\n";
  };
  std::string text = dump(HeadToJson(*load));
  const RequestFactory factory(load->workload, flags.seed, load->trace.get());
  Arrivals arrivals(*options.arrivals);
  for (uint64_t index = 0; options.num_requests == 0 || index < options.num_requests; ++index) {
    const nanoseconds intended = arrivals.Next();
    if (intended >= options.duration) break;
    const Request request = factory.Make(index);
    const auto line =
        PlannedRequest(request, load->workload.classes[request.class_index].name, intended);
    if (!line.ok()) return line.status();
    text += dump(*line);
  }
  if (!flags.plan_file.empty()) return WriteFile("--out", flags.plan_file, text);
  Print(text);
  return absl::OkStatus();
}

}  // namespace beamline::loadtest

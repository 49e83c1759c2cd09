#include "loadtest/traffic/server_models.h"

#include <algorithm>
#include <cctype>
#include <chrono>
#include <string_view>
#include <utility>

#include "base/text.h"
#include "beamline/v1/models.grpc.pb.h"
#include "fmt/format.h"
#include "fmt/ranges.h"
#include "loadtest/traffic/status_name.h"

namespace beamline::loadtest {
namespace {

constexpr std::chrono::seconds kTimeout{10};

bool CanDo(const v1::Model& model, Kind kind) {
  const bool is_there =
      model.state() == v1::MODEL_STATE_READY ||
      model.state() == v1::MODEL_STATE_UNSPECIFIED;  // older servers do not send it
  if (!is_there) return false;
  if (kind == Kind::kTokenize) return true;
  if (kind == Kind::kRerank && model.reranks()) return true;
  if (model.task() == v1::TASK_CLASSIFY) {  // older servers do not send `reranks`
    return kind == Kind::kClassify || (kind == Kind::kRerank && model.labels_size() == 1);
  }
  if (model.task() == v1::TASK_CLASSIFY_TOKENS) return kind == Kind::kClassifyTokens;
  const bool encodes = kind == Kind::kEncode || kind == Kind::kEncodeMany;
  if (kind == Kind::kFillMask) return !model.mask_token().empty();
  if (model.task() == v1::TASK_ENCODE) return encodes;
  return IsGeneration(kind) || kind == Kind::kScore;
}

// Checked here once; the server would report the same error for every request.
absl::StatusOr<const v1::Model*> Resolve(const std::vector<v1::Model>& models,
                                         const RequestClass& of) {
  std::vector<std::string> names;  // suitable models
  const v1::Model* named = nullptr;
  const v1::Model* last = nullptr;
  for (const v1::Model& model : models) {
    // Among several versions, the one that the server would choose.
    const auto rank = [&of](const v1::Model& version) {
      return std::pair(CanDo(version, of.kind), version.version());
    };
    const bool is_meant =
        of.model == model.name() || of.model == fmt::format("{}@{}", model.name(), model.version());
    if (is_meant && (named == nullptr || rank(model) > rank(*named))) {
      named = &model;
    }
    if (!CanDo(model, of.kind)) continue;
    const bool is_new = std::ranges::find(names, model.name()) == names.end();
    if (is_new) names.push_back(model.name());
    if (is_new || model.version() > last->version()) last = &model;
  }
  const std::string accepted = names.empty() ? "none, the server has no model for it"
                                             : fmt::format("{}", fmt::join(names, ", "));
  if (of.model.empty()) {
    if (names.size() == 1) return last;
    const std::string message =
        fmt::format("{}: no model is named; accepted: {}", of.name, accepted);
    return names.empty() ? absl::NotFoundError(message) : absl::InvalidArgumentError(message);
  }
  if (named == nullptr) {
    return absl::NotFoundError(fmt::format("{}: model is '{}'; accepted: {}{}", of.name,
                                           Shorten(of.model), accepted,
                                           DidYouMean(of.model, names)));
  }
  if (!CanDo(*named, of.kind)) {
    return absl::InvalidArgumentError(fmt::format(
        "{}: model is '{}', which cannot do it; accepted: {}", of.name, of.model, accepted));
  }
  return named;
}

}  // namespace

absl::StatusOr<v1::ListModelsResponse> ListModels(const std::shared_ptr<grpc::Channel>& channel) {
  grpc::ClientContext context;
  context.set_deadline(std::chrono::system_clock::now() + kTimeout);
  v1::ListModelsResponse response;
  const auto status = v1::Models::NewStub(channel)->ListModels(&context, {}, &response);
  if (!status.ok()) {
    return absl::Status(
        static_cast<absl::StatusCode>(status.error_code()),
        fmt::format("ListModels: {}: {}", StatusName(status.error_code()), status.error_message()));
  }
  return response;
}

std::string DescribeModel(const v1::Model& model) {
  std::string devices;
  for (const v1::Replica& replica : model.replicas()) devices += ", " + replica.device();
  constexpr std::string_view kPrefix = "DATA_TYPE_";
  std::string type = v1::DataType_Name(model.data_type());
  if (type.starts_with(kPrefix)) type.erase(0, kPrefix.size());
  for (char& c : type) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return fmt::format("{}: {}, {}, {} parameters{}", model.name(), model.architecture(), type,
                     model.num_parameters(), devices);
}

absl::Status ResolveModels(const std::vector<v1::Model>& models, Workload& workload) {
  for (RequestClass& of : workload.classes) {
    const auto model = Resolve(models, of);
    if (!model.ok()) return model.status();
    // Prompts and continuations use the same range of ids.
    of.vocab_size = (*model)->vocab_size();
    if ((*model)->input_vocab_size() > 0) {
      of.vocab_size = std::min(of.vocab_size, (*model)->input_vocab_size());
    }
    of.mask_token = (*model)->mask_token();
    of.max_input_tokens = (*model)->max_input_tokens();
    of.max_total_tokens = (*model)->max_total_tokens();
    of.prompt_takes_positions = (*model)->num_encoder_layers() == 0;
    if (of.prompt.tokens && of.vocab_size < 1) {
      return absl::InvalidArgumentError(
          fmt::format("{}: the server does not tell the model's vocabulary size", of.name));
    }
  }
  return absl::OkStatus();
}

}  // namespace beamline::loadtest

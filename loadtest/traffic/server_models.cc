#include "loadtest/traffic/server_models.h"

#include <algorithm>
#include <chrono>

#include "base/text.h"
#include "beamline/v1/models.grpc.pb.h"
#include "fmt/format.h"
#include "loadtest/traffic/status_name.h"

namespace beamline::loadtest {
namespace {

constexpr std::chrono::seconds kTimeout{10};

bool Serves(const v1::Model& model, const RequestClass& of) {
  if (!of.model.empty()) return model.name() == of.model;
  const bool encodes = of.kind == Kind::kEncode || of.kind == Kind::kEncodeMany;
  return encodes == (model.task() == v1::TASK_ENCODE);
}

}  // namespace

absl::StatusOr<std::vector<v1::Model>> ListModels(const std::shared_ptr<grpc::Channel>& channel) {
  grpc::ClientContext context;
  context.set_deadline(std::chrono::system_clock::now() + kTimeout);
  v1::ListModelsResponse response;
  const auto status = v1::Models::NewStub(channel)->ListModels(&context, {}, &response);
  if (!status.ok()) {
    return absl::Status(
        static_cast<absl::StatusCode>(status.error_code()),
        fmt::format("ListModels: {}: {}", StatusName(status.error_code()), status.error_message()));
  }
  return std::vector<v1::Model>(response.models().begin(), response.models().end());
}

std::string DescribeModel(const v1::Model& model) {
  std::string devices;
  for (const v1::Replica& replica : model.replicas()) devices += ", " + replica.device();
  return fmt::format("{}: {}, {}, {} parameters{}", model.name(), model.architecture(),
                     v1::DataType_Name(model.data_type()), model.num_parameters(), devices);
}

absl::Status ResolveVocabularies(const std::vector<v1::Model>& models, Workload& workload) {
  for (RequestClass& of : workload.classes) {
    if (!of.prompt.tokens) continue;
    int num_found = 0;
    for (const v1::Model& model : models) {
      if (!Serves(model, of)) continue;
      ++num_found;
      // Prompts and continuations are drawn from the same ids.
      of.vocab_size = model.vocab_size();
      if (model.input_vocab_size() > 0) {
        of.vocab_size = std::min(of.vocab_size, model.input_vocab_size());
      }
    }
    if (num_found == 0) {
      std::vector<std::string> names;
      for (const v1::Model& model : models) names.push_back(model.name());
      return absl::NotFoundError(fmt::format("{}: the server has no model \"{}\"{}", of.name,
                                             of.model, DidYouMean(of.model, names)));
    }
    if (num_found > 1) {
      return absl::InvalidArgumentError(
          fmt::format("{}: the server has several models, name one in \"model\"", of.name));
    }
    if (of.vocab_size < 1) {
      return absl::InvalidArgumentError(
          fmt::format("{}: the server does not tell the model's vocabulary size", of.name));
    }
  }
  return absl::OkStatus();
}

}  // namespace beamline::loadtest

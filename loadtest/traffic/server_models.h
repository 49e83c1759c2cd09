// Queries the models of the server under test.
#pragma once

#include <grpcpp/channel.h>

#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "beamline/v1/models.pb.h"
#include "loadtest/workload/workload.h"

namespace beamline::loadtest {

// Every version of every model, in the server's order, and the server's own version.
absl::StatusOr<v1::ListModelsResponse> ListModels(const std::shared_ptr<grpc::Channel>& channel);

// "write-en: GPT2LMHeadModel, float32, 12345678 parameters, cpu".
std::string DescribeModel(const v1::Model& model);

// Finds the model of each class of requests and sets the class's model limits (workload.h). An
// empty model name selects the only suitable model. NOT_FOUND if there is none, INVALID_ARGUMENT if
// the named one is not suitable or several are.
absl::Status ResolveModels(const std::vector<v1::Model>& models, Workload& workload);

}  // namespace beamline::loadtest

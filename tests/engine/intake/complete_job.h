// What a request becomes before a replica sees it, of the demo models and, by "classifiers/NAME",
// of those in tests/golden.
#pragma once

#include <gtest/gtest.h>

#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <utility>

#include "engine/intake/tokenize_job.h"
#include "engine/loading/loaded_model.h"
#include "tests/engine/demo_engine.h"

namespace beamline {

inline const LoadedModel& Loaded(std::string_view name) {
  static std::map<std::string, std::unique_ptr<LoadedModel>> models;
  auto& model = models[std::string(name)];
  if (model == nullptr) {
    ModelOptions options = Demo(std::string(name));
    if (name.starts_with("classifiers/")) {
      options.folder = BEAMLINE_SOURCE_DIR "/tests/golden/" + std::string(name);
    }
    options.device = "cpu";
    auto loaded = LoadedModel::Load(options, {.cpu = {.num_threads = 1}});
    EXPECT_TRUE(loaded.ok()) << loaded.status();
    model = *std::move(loaded);
  }
  return *model;
}

// The job of a request, or the error that it meets before or while it is tokenized.
template <typename Intake>
absl::StatusOr<std::unique_ptr<typename Intake::Job>> CompleteJob(
    typename Intake::Request request, std::shared_ptr<typename Intake::Sink> sink) {
  const LoadedModel& model = Loaded(request.model);
  auto intake = Intake::Check(std::move(request), model);
  if (!intake.ok()) return intake.status();
  auto job = intake->Start(Acceptance(), std::move(sink));
  if (absl::Status status = TokenizeJob(*intake, *job); !status.ok()) return status;
  return job;
}

}  // namespace beamline

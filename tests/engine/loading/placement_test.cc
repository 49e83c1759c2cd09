// Which device and which cores each replica gets, and which wishes cannot be met.
#include "engine/loading/placement.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <string>
#include <vector>

#include "base/field_error.h"
#include "engine/loading/model_options_check.h"
#include "fmt/format.h"
#include "fmt/ranges.h"
#include "kernels/cpu/cpu_count.h"
#include "kernels/cuda_loader.h"

namespace beamline::placement_test {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

ModelOptions Options(const std::string& device, const std::string& replicas,
                     const std::string& devices = "") {
  ModelOptions options;
  options.name = "m";
  options.folder = "f";
  options.device = device;
  options.replicas = replicas;
  options.devices = devices;
  return options;
}

std::vector<std::string> Devices(const ModelOptions& options) {
  const auto placements = PlaceReplicas(options, 0);
  EXPECT_TRUE(placements.ok()) << placements.status();
  std::vector<std::string> devices;
  if (!placements.ok()) return devices;
  for (const ReplicaPlacement& placement : *placements) {
    devices.push_back(fmt::format("{}", fmt::join(placement.devices, " ")));
  }
  return devices;
}

ModelOptions OnRanks(ModelOptions options, int32_t num_ranks) {
  options.tensor_parallel = num_ranks;
  return options;
}

ModelOptions OnStages(ModelOptions options, int32_t num_stages, int32_t num_ranks = 1) {
  options.pipeline_parallel = num_stages;
  return OnRanks(options, num_ranks);
}

TEST(SplitListTest, WordsWithAndWithoutSpaces) {
  EXPECT_THAT(SplitList(""), IsEmpty());
  EXPECT_THAT(SplitList("cuda:0,cuda:1 , cuda:2"), ElementsAre("cuda:0", "cuda:1", "cuda:2"));
  EXPECT_THAT(SplitList("a,,b"), ElementsAre("a", "", "b"));
}

TEST(PlaceReplicasTest, OneUnlessMoreAreAskedFor) {
  EXPECT_THAT(Devices(Options("cpu", "")), ElementsAre("cpu"));
  EXPECT_THAT(Devices(Options("cpu", "auto")), ElementsAre("cpu"));
  EXPECT_THAT(Devices(Options("", "")), ElementsAre("auto"));
  EXPECT_THAT(Devices(Options("cuda:1", "1")), ElementsAre("cuda:1"));
  EXPECT_THAT(Devices(Options("", "", "cpu")), ElementsAre("cpu"));
}

TEST(PlaceReplicasTest, OneForEachGpuThatIsNamed) {
  EXPECT_THAT(Devices(Options("", "", "cuda:2, cuda:0")), ElementsAre("cuda:2", "cuda:0"));
  EXPECT_THAT(Devices(Options("", "auto", "cuda,cuda:1")), ElementsAre("cuda:0", "cuda:1"));
  EXPECT_THAT(Devices(Options("", "1", "cuda:2, cuda:0")), ElementsAre("cuda:2"));
}

TEST(PlaceReplicasTest, EachReplicaGetsADeviceForEachRank) {
  EXPECT_THAT(Devices(OnRanks(Options("cpu", ""), 3)), ElementsAre("cpu cpu cpu"));
  EXPECT_THAT(Devices(OnRanks(Options("", "2", "cpu"), 2)), ElementsAre("cpu cpu", "cpu cpu"));
  EXPECT_THAT(Devices(OnRanks(Options("", "", "cpu"), 2)), ElementsAre("cpu cpu"));
  const std::string four = "cuda:3, cuda:1, cuda, cuda:2";
  EXPECT_THAT(Devices(OnRanks(Options("", "", four), 4)),
              ElementsAre("cuda:3 cuda:1 cuda:0 cuda:2"));
  EXPECT_THAT(Devices(OnRanks(Options("", "auto", four), 2)),
              ElementsAre("cuda:3 cuda:1", "cuda:0 cuda:2"));
  EXPECT_THAT(Devices(OnRanks(Options("", "1", four), 2)), ElementsAre("cuda:3 cuda:1"));
  EXPECT_THAT(Devices(OnRanks(Options("", "1", four), 3)), ElementsAre("cuda:3 cuda:1 cuda:0"));
}

TEST(PlaceReplicasTest, EachStageGetsADeviceForEachOfItsRanks) {
  EXPECT_THAT(Devices(OnStages(Options("cpu", ""), 2)), ElementsAre("cpu cpu"));
  EXPECT_THAT(Devices(OnStages(Options("", "2", "cpu"), 2, 2)),
              ElementsAre("cpu cpu cpu cpu", "cpu cpu cpu cpu"));
  const std::string four = "cuda:3, cuda:1, cuda, cuda:2";
  EXPECT_THAT(Devices(OnStages(Options("", "", four), 4)),
              ElementsAre("cuda:3 cuda:1 cuda:0 cuda:2"));
  EXPECT_THAT(Devices(OnStages(Options("", "auto", four), 2)),
              ElementsAre("cuda:3 cuda:1", "cuda:0 cuda:2"));
  EXPECT_THAT(Devices(OnStages(Options("", "1", four), 2, 2)),
              ElementsAre("cuda:3 cuda:1 cuda:0 cuda:2"));
}

// What a replica is loaded by gives it the same devices.
TEST(PlaceReplicasTest, OptionsThereAreThoseOfTheReplica) {
  for (const ModelOptions& options :
       {OnRanks(Options("", "2", "cuda:3, cuda:1, cuda, cuda:2"), 2),
        OnStages(Options("", "2", "cuda:3, cuda:1, cuda, cuda:2"), 2),
        Options("", "", "cuda:2,cuda:1"), OnRanks(Options("cpu", "2"), 2),
        OnStages(Options("cpu", "2"), 2)}) {
    const auto placements = PlaceReplicas(options, 2);
    ASSERT_TRUE(placements.ok()) << placements.status();
    ASSERT_EQ(placements->size(), 2u);
    for (const ReplicaPlacement& placement : *placements) {
      const ModelOptions there = OptionsThere(options, placement);
      EXPECT_TRUE(CheckModelOptions(there).ok()) << CheckModelOptions(there);
      const auto again = PlaceReplicas(there, 1);
      ASSERT_TRUE(again.ok()) << again.status();
      EXPECT_EQ(again->front().devices, placement.devices);
    }
  }
}

TEST(PlaceReplicasTest, OnTheCpuTheyShareItsCores) {
  const int cpus = cpu::AvailableCpus();
  for (const auto& options : {Options("cpu", "2"), Options("", "2", "cpu")}) {
    for (const int threads : {0, 1, 2, 5}) {
      const auto placements = PlaceReplicas(options, threads);
      ASSERT_TRUE(placements.ok()) << placements.status();
      ASSERT_EQ(placements->size(), 2u);
      int total = 0;
      std::set<int> cores;
      size_t num_cores = 0;
      for (const ReplicaPlacement& placement : *placements) {
        EXPECT_THAT(placement.devices, ElementsAre("cpu"));
        EXPECT_GE(placement.cpu.num_threads, 1);
        total += placement.cpu.num_threads;
        num_cores += placement.cpu.cores.size();
        cores.insert(placement.cpu.cores.begin(), placement.cpu.cores.end());
      }
      EXPECT_EQ(total, std::max(2, threads > 0 ? threads : cpus));
      EXPECT_EQ(cores.size(), num_cores);  // none twice
    }
  }
  EXPECT_THAT(PlaceReplicas(Options("cpu", "1"), 3)->front().cpu.cores, IsEmpty());
  EXPECT_EQ(PlaceReplicas(Options("cpu", "1"), 3)->front().cpu.num_threads, 3);
}

TEST(PlaceReplicasTest, WithoutAGpuAutoIsTheCpu) {
  const auto gpus = CountCudaDevices();
  if (gpus.ok() && *gpus > 0) {
    const std::string more = std::to_string(*gpus + 1);
    EXPECT_THAT(std::string(PlaceReplicas(Options("auto", more), 0).status().message()),
                HasSubstr(", the GPUs that are there"));
  } else {
    EXPECT_THAT(Devices(Options("auto", "2")), ElementsAre("cpu", "cpu"));
  }
}

TEST(PlaceReplicasTest, WhatCannotBeIsRefusedByName) {
  const struct {
    ModelOptions options;
    std::string field, text;
  } cases[] = {
      {Options("", "", "cpu, cuda:0"), "devices",
       "devices is 'cpu, cuda:0'; accepted: cpu, or GPUs as cuda:0, cuda:1, each once"},
      {Options("", "", "cpu,cpu"), "devices", "devices is 'cpu,cpu'; accepted: "},
      {Options("", "", "cuda,cuda:0"), "devices", "devices is 'cuda,cuda:0'; accepted: "},
      {Options("", "", "auto"), "devices", "devices is 'auto'; accepted: "},
      {Options("", "", "cuda:0,"), "devices", "devices is 'cuda:0,'; accepted: "},
      {Options("", "", ","), "devices", "devices is ','; accepted: "},
      {Options("cpu", "", "cuda:0"), "devices",
       "devices is 'cuda:0'; accepted: no list where device is given, which is 'cpu'"},
      {Options("", "3", "cuda:0,cuda:1"), "replicas",
       "replicas is '3'; accepted: 1 to 2, the GPUs that devices names"},
      {Options("cuda:1", "2"), "replicas",
       "replicas is '2'; accepted: 1, as device is 'cuda:1'; devices names several GPUs"},
      {OnRanks(Options("", "", "cuda:0,cuda:1"), 4), "tensor_parallel",
       "tensor_parallel is 4; accepted: 1 to 2, the GPUs that devices names"},
      {OnRanks(Options("", "2", "cuda:0,cuda:1,cuda:2"), 2), "replicas",
       "replicas is '2'; accepted: 1, the GPUs that devices names, 2 for each replica"},
      {OnRanks(Options("", "", "cuda:0,cuda:1,cuda:2"), 2), "devices",
       "devices is 'cuda:0,cuda:1,cuda:2'; accepted: 2 GPUs for each replica, as "
       "tensor_parallel is 2"},
      {OnStages(Options("", "", "cuda:0,cuda:1"), 4), "pipeline_parallel",
       "pipeline_parallel is 4; accepted: 1 to 2, the GPUs that devices names"},
      {OnStages(Options("", "", "cuda:0,cuda:1,cuda:2"), 2, 2), "pipeline_parallel",
       "pipeline_parallel is 2; accepted: 1, the GPUs that devices names, 2 for each stage"},
      {OnStages(Options("", "", "cuda:0,cuda:1,cuda:2,cuda:3,cuda:4"), 2, 2), "devices",
       "devices is 'cuda:0,cuda:1,cuda:2,cuda:3,cuda:4'; accepted: 4 GPUs for each replica, as "
       "tensor_parallel is 2 and pipeline_parallel 2"},
      {OnStages(Options("cuda:1", ""), 2), "pipeline_parallel",
       "pipeline_parallel is 2; accepted: 1, as device is 'cuda:1'; devices names several GPUs"},
      {OnRanks(Options("cuda:1", ""), 2), "tensor_parallel",
       "tensor_parallel is 2; accepted: 1, as device is 'cuda:1'; devices names several GPUs"},
      {OnRanks(Options("cuda", "2"), 2), "replicas",
       "replicas is '2'; accepted: 1, as device is 'cuda'; devices names several GPUs"},
  };
  for (const auto& one : cases) {
    SCOPED_TRACE(one.text);
    const absl::Status status = PlaceReplicas(one.options, 0).status();
    EXPECT_THAT(std::string(status.message()), HasSubstr(one.text));
    const auto fault = GetFieldFault(status);
    ASSERT_TRUE(fault.has_value());
    EXPECT_EQ(fault->field, one.field);
  }
  for (const char* replicas : {"0", "65", "-1", "two", "1 ", "1.5"}) {
    const absl::Status status = CheckModelOptions(Options("cpu", replicas));
    EXPECT_EQ(std::string(status.message()),
              std::string("replicas is '") + replicas + "'; accepted: auto, 1 to 64");
  }
}

}  // namespace
}  // namespace beamline::placement_test

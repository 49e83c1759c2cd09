// The settings of a model by name, with ranges and help texts. Loading validates options with this
// table. The server's flags and config file, the benchmarks and the operating guide take names,
// ranges and help texts from here, and defaults from ModelOptions.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <variant>

#include "engine/api/model.h"
#include "kernels/tensor.h"

namespace beamline {

struct ModelSetting {
  using Member =
      std::variant<std::string ModelOptions::*, int32_t ModelOptions::*, int64_t ModelOptions::*,
                   bool ModelOptions::*, std::optional<DType> ModelOptions::*>;

  std::string_view name;
  Member member;
  std::string_view help;
  int64_t min = 0;  // of numbers
  int64_t max = 0;
  std::span<const std::string_view> choices = {};  // of strings; empty: any; N: a number from 0; "A
                                                   // to B": a number in this range
  bool may_be_empty = false;                       // of strings with choices
  bool is_list = false;                            // of strings: a comma-separated list
};

// Types that a model can compute in (other DTypes are for storage and indices).
inline constexpr std::array kComputeTypes = {DType::kFloat32, DType::kBFloat16, DType::kFloat16};

// Types that matrices may have in memory, and that products may multiply.
inline constexpr std::array kWeightTypes = {DType::kFloat32, DType::kBFloat16, DType::kFloat16,
                                            DType::kInt8};

inline constexpr std::array<std::string_view, 4> kWeightChoices = {"float32", "bfloat16", "float16",
                                                                   "int8"};
inline constexpr std::array<std::string_view, 3> kCacheChoices = {"float32", "bfloat16", "float16"};

inline constexpr int32_t kMostVersion = 1 << 30;
inline constexpr std::array<std::string_view, 4> kDeviceChoices = {"auto", "cpu", "cuda", "cuda:N"};
inline constexpr std::array<std::string_view, 2> kListedDeviceChoices = {"cpu", "cuda:N"};
inline constexpr std::array<std::string_view, 2> kReplicasChoices = {"auto", "1 to 64"};
inline constexpr std::array<std::string_view, 3> kWarmUpChoices = {"auto", "true", "false"};

inline constexpr std::array kModelSettings = {
    ModelSetting{.name = "name", .member = &ModelOptions::name, .help = "as requests name it"},
    ModelSetting{.name = "version",
                 .member = &ModelOptions::version,
                 .help = "of the models of one name the highest answers those who name none",
                 .min = 1,
                 .max = kMostVersion},
    ModelSetting{
        .name = "folder", .member = &ModelOptions::folder, .help = "a Hugging Face checkpoint"},
    ModelSetting{
        .name = "dtype",
        .member = &ModelOptions::dtype,
        .help =
            "what to compute in: of weights, compute and cache those that are not set; auto: on a "
            "GPU the checkpoint's own type, on a CPU float32 with weights as they are stored"},
    ModelSetting{.name = "weights",
                 .member = &ModelOptions::weights,
                 .help = "the type of matrices in memory; int8: quantised as they load, on a CPU; "
                         "without: dtype",
                 .choices = kWeightChoices,
                 .may_be_empty = true},
    ModelSetting{.name = "compute",
                 .member = &ModelOptions::compute,
                 .help = "the type that products multiply; int8: rows are quantised too, on a CPU; "
                         "without: dtype",
                 .choices = kWeightChoices,
                 .may_be_empty = true},
    ModelSetting{.name = "cache",
                 .member = &ModelOptions::cache,
                 .help = "the type of cached keys and values; without: the one of activations, "
                         "float32 on a CPU",
                 .choices = kCacheChoices,
                 .may_be_empty = true},
    ModelSetting{.name = "device",
                 .member = &ModelOptions::device,
                 .help = "where it runs; without: as the server's device",
                 .choices = kDeviceChoices,
                 .may_be_empty = true},
    ModelSetting{.name = "replicas",
                 .member = &ModelOptions::replicas,
                 .help = "copies that answer beside each other; auto: one for each GPU of devices; "
                         "without: as the server's replicas",
                 .choices = kReplicasChoices,
                 .may_be_empty = true},
    ModelSetting{.name = "devices",
                 .member = &ModelOptions::devices,
                 .help = "instead of device: cpu, or the GPUs of the replicas, cuda:0,cuda:1; one "
                         "for each rank",
                 .choices = kListedDeviceChoices,
                 .may_be_empty = true,
                 .is_list = true},
    ModelSetting{.name = "max_model_len",
                 .member = &ModelOptions::max_model_len,
                 .help = "tokens of a sequence at most, prompt and answer together, within "
                         "the checkpoint's positions where it has some; 0: these",
                 .min = 0,
                 .max = 1 << 20},
    ModelSetting{.name = "max_batch_tokens",
                 .member = &ModelOptions::max_batch_tokens,
                 .help = "most tokens of a step; longer prompts are computed in pieces",
                 .min = 16,
                 .max = 1 << 20},
    ModelSetting{.name = "max_gap_ms",
                 .member = &ModelOptions::max_gap_ms,
                 .help = "how long running sequences may wait for a step with prompts in it, which "
                         "are cut for it; 0: as long as max_batch_tokens tokens take",
                 .min = 0,
                 .max = 60000},
    // 65535 is the largest grid size of a GPU in the dimensions used for sequences.
    ModelSetting{.name = "max_sequences",
                 .member = &ModelOptions::max_sequences,
                 .help = "sequences that may run at once",
                 .min = 1,
                 .max = 65535},
    ModelSetting{.name = "cache_bytes",
                 .member = &ModelOptions::cache_bytes,
                 .help = "key/value cache; 0: sized for max_sequences",
                 .min = 0,
                 .max = int64_t{1} << 50},
    ModelSetting{.name = "prefix_cache",
                 .member = &ModelOptions::prefix_cache,
                 .help = "shares the cached beginnings of prompts between requests"},
    ModelSetting{.name = "speculative_tokens",
                 .member = &ModelOptions::speculative_tokens,
                 .help = "most tokens that a greedy sequence guesses at a step; 0: none",
                 .min = 0,
                 .max = 16},
    ModelSetting{.name = "deterministic",
                 .member = &ModelOptions::deterministic,
                 .help = "a request's answer has the same bits alone and in any batch, on a GPU "
                         "too, at some cost; on one GPU without ranks"},
    ModelSetting{.name = "tensor_parallel",
                 .member = &ModelOptions::tensor_parallel,
                 .help = "ranks that compute the model together, each a part of every layer; a "
                         "GPU for each, or threads",
                 .min = 1,
                 .max = 8},
    ModelSetting{.name = "pipeline_parallel",
                 .member = &ModelOptions::pipeline_parallel,
                 .help = "stages that compute the model one behind the other, each some of the "
                         "layers, on tensor_parallel ranks",
                 .min = 1,
                 .max = 8},
    ModelSetting{.name = "max_queued_requests",
                 .member = &ModelOptions::max_queued_requests,
                 .help = "accepted and not yet running; more are RESOURCE_EXHAUSTED",
                 .min = 1,
                 .max = 1 << 20},
    ModelSetting{.name = "max_queued_tokens",
                 .member = &ModelOptions::max_queued_tokens,
                 .help = "to be read, of requests that wait; more are RESOURCE_EXHAUSTED; 0: what "
                         "256 full steps read, and eight of the longest inputs at least",
                 .min = 0,
                 .max = int64_t{1} << 50},
    ModelSetting{.name = "warm_up",
                 .member = &ModelOptions::warm_up,
                 .help = "whether loading runs the usual steps once; auto: on a GPU",
                 .choices = kWarmUpChoices},
    ModelSetting{.name = "rerank_template",
                 .member = &ModelOptions::rerank_template,
                 .help = "what a model that writes reads to judge a document, with {query} and "
                         "{document} in it: it serves Rerank"},
    ModelSetting{.name = "rerank_tokens",
                 .member = &ModelOptions::rerank_tokens,
                 .help = "the two tokens that may follow rerank_template, of a document that "
                         "answers the query first: yes,no",
                 .is_list = true},
};

}  // namespace beamline

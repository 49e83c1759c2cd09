#include "engine/checkpoint/other_formats.h"

#include <array>
#include <set>
#include <string_view>
#include <vector>

#include "fmt/format.h"

namespace beamline {
namespace {

struct Format {
  std::string_view ending;  // suffix of a file's name, or the whole name of a file or folder
  std::string_view advice;
};

// Maximum names read from a folder; a checkpoint has some dozens.
constexpr size_t kMostNames = 10000;

constexpr std::string_view kConvert =
    "is not read, convert it to safetensors (save_pretrained of transformers writes that)";
constexpr std::string_view kConvertHere =
    "is not read, convert it to safetensors: tools/convert_weights FOLDER";
constexpr std::string_view kOriginal = "is not read, take the checkpoint that it was made of";

// The first match is reported; ordered by how close the folder is to a usable checkpoint.
constexpr std::array<Format, 18> kFormats = {{
    {"adapter_model.safetensors", "is an adapter, merge it into its base model"},
    {"adapter_model.bin", "is an adapter, merge it into its base model"},
    {"0_Transformer", "is where old versions of sentence-transformers put the model, save it anew"},
    {"snapshots", "is there: name the folder of a revision in it"},  // of the download cache
    {"model_index.json", "is of diffusers, whose pipelines are not served"},
    {".safetensors", "is there: weights are read from model.safetensors or by its index"},
    {".bin", kConvertHere},
    {".bin.index.json", kConvertHere},
    {".h5", kConvert},
    {".msgpack", kConvert},
    {".pt", kConvert},
    {".pth", kConvert},
    {".ckpt", kConvert},
    {".ot", kConvert},
    {".gguf", kOriginal},
    {".onnx", kOriginal},
    {"onnx", kOriginal},
    {"openvino_model.xml", kOriginal},
}};

}  // namespace

std::string OtherFormatsIn(const CheckpointPath& folder) {
  const std::vector<std::string> listed = folder.List(kMostNames);
  const std::set<std::string> names(listed.begin(), listed.end());
  for (const Format& format : kFormats) {
    for (const std::string& name : names) {
      const bool whole = !format.ending.starts_with('.');
      if (whole ? name != format.ending : !name.ends_with(format.ending)) continue;
      // Files that optimizers and trainers leave beside many checkpoints.
      if (name == "training_args.bin" || name == "optimizer.pt" || name == "scheduler.pt") continue;
      return fmt::format("; {} {}", name, format.advice);
    }
  }
  return "";
}

}  // namespace beamline

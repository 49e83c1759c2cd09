// The server's configuration file of any bytes. What it says is what --print-config would say, and
// what that says is read as the same.
#include <cstdint>
#include <string>
#include <string_view>

#include "base/check.h"
#include "server/config/config_file.h"
#include "server/config/server_config.h"
#include "tests/engine/checkpoint/checkpoint_folder.h"
#include "tests/fuzz/checks.h"

namespace beamline {
namespace {

template <typename Options>
void CheckRanges(Options& options) {
  for (const Setting& setting : Settings(options)) {
    const auto check = [&setting](auto value) {
      BEAMLINE_CHECK(static_cast<double>(value) >= setting.min);
      BEAMLINE_CHECK(static_cast<double>(value) <= setting.max);
    };
    if (const auto* number = std::get_if<int32_t*>(&setting.value)) check(**number);
    if (const auto* number = std::get_if<int64_t*>(&setting.value)) check(**number);
    if (const auto* number = std::get_if<double*>(&setting.value)) check(**number);
  }
}

void CheckConfigOf(ServerConfig config, const TemporaryFolder& folder) {
  CheckRanges(config);
  for (ModelOptions& model : config.models) CheckRanges(model);
  if (const absl::Status status = CheckConfig(config); !status.ok()) {
    CheckRefusal(status, "");
    return;
  }
  const std::string printed = PrintConfig(config);
  if (config.models.empty()) return;  // the demo models come before it is printed
  folder.Write("printed.yaml", printed);
  ServerConfig again;
  const absl::Status status = LoadConfigFile(folder.path() + "/printed.yaml", again);
  if (!status.ok()) std::fprintf(stderr, "%s\n%s", status.ToString().c_str(), printed.c_str());
  BEAMLINE_CHECK(status.ok());
  BEAMLINE_CHECK(PrintConfig(again) == printed);
}

}  // namespace
}  // namespace beamline

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace beamline;
  static const TemporaryFolder folder;
  const std::string path = folder.path() + "/server.yaml";
  folder.Write("server.yaml", AsText(data, size));
  ServerConfig config;
  const absl::Status status = LoadConfigFile(path, config);
  if (status.ok()) {
    CheckConfigOf(config, folder);
  } else {
    CheckRefusal(status, path);
  }
  return 0;
}

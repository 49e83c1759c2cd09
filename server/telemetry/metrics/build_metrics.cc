#include "server/telemetry/metrics/build_metrics.h"

#include <string>
#include <utility>

#include "base/build_info.h"
#include "server/telemetry/metrics/families.h"

namespace beamline {

void CollectBuildMetrics(std::vector<prometheus::MetricFamily>& families) {
  const BuildInfo& build = ThisBuild();
  auto info = GaugeFamily("beamline_build_info", "1 for the build of the server");
  AddValue(info,
           {{"version", std::string(build.version)},
            {"revision", std::string(build.revision)},
            {"build_type", std::string(build.build_type)},
            {"compiler", std::string(build.compiler)},
            {"cuda", build.cuda ? "true" : "false"}},
           1);
  families.push_back(std::move(info));
}

}  // namespace beamline

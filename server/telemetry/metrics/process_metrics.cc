#include "server/telemetry/metrics/process_metrics.h"

#include <sys/resource.h>
#include <unistd.h>

#include <fstream>
#include <sstream>
#include <string>

#include "server/net/descriptors.h"
#include "server/telemetry/metrics/families.h"

namespace beamline {
namespace {

// The used fields of /proc/self/stat, in clock ticks, pages and bytes (man proc).
struct ProcessStat {
  double cpu_ticks = 0;
  double threads = 0;
  double start_ticks = 0;  // since boot
  double virtual_bytes = 0;
  double resident_pages = 0;
};

ProcessStat ReadStat() {
  std::ifstream file("/proc/self/stat");
  std::string text((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
  ProcessStat stat;
  const size_t name_end = text.rfind(')');  // the second field may contain spaces
  if (name_end == std::string::npos) return stat;
  std::istringstream fields(text.substr(name_end + 1));
  std::string field;
  for (int number = 3; fields >> field; ++number) {
    if (number == 14 || number == 15) stat.cpu_ticks += std::stod(field);  // utime, stime
    if (number == 20) stat.threads = std::stod(field);
    if (number == 22) stat.start_ticks = std::stod(field);
    if (number == 23) stat.virtual_bytes = std::stod(field);
    if (number == 24) stat.resident_pages = std::stod(field);
  }
  return stat;
}

// Seconds since 1970 at which the machine booted.
double BootTime() {
  std::ifstream file("/proc/stat");
  std::string word;
  while (file >> word) {
    double seconds = 0;
    if (word == "btime" && file >> seconds) return seconds;
  }
  return 0;
}

}  // namespace

void CollectProcessMetrics(std::vector<prometheus::MetricFamily>& families) {
  static const double ticks_per_second = static_cast<double>(sysconf(_SC_CLK_TCK));
  static const double page_bytes = static_cast<double>(sysconf(_SC_PAGESIZE));
  static const double boot_time = BootTime();
  const ProcessStat stat = ReadStat();
  const auto add = [&families](prometheus::MetricFamily family, double value) {
    AddValue(family, {}, value);
    families.push_back(std::move(family));
  };
  add(CounterFamily("process_cpu_seconds_total", "CPU time, user and system"),
      stat.cpu_ticks / ticks_per_second);
  add(GaugeFamily("process_resident_memory_bytes", "Memory in RAM"),
      stat.resident_pages * page_bytes);
  add(GaugeFamily("process_virtual_memory_bytes", "Address space"), stat.virtual_bytes);
  add(GaugeFamily("process_threads", "Threads"), stat.threads);
  add(GaugeFamily("process_open_fds", "Open file descriptors"),
      static_cast<double>(CountOpenDescriptors()));
  rlimit limit{};
  if (getrlimit(RLIMIT_NOFILE, &limit) == 0) {
    add(GaugeFamily("process_max_fds", "Most file descriptors that may be open"),
        static_cast<double>(limit.rlim_cur));
  }
  add(GaugeFamily("process_start_time_seconds", "Start, in seconds since the epoch"),
      boot_time + stat.start_ticks / ticks_per_second);
}

}  // namespace beamline

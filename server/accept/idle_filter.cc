#include "server/accept/idle_filter.h"

#include <dlfcn.h>

#include <cinttypes>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <fstream>
#include <string>
#include <string_view>
#include <typeinfo>

#include "absl/status/status.h"

namespace beamline {
namespace {

// gRPC's own, none of whose headers is installed: src/core/lib/channel/channel_stack.h of 1.51.
struct CallElement {
  const void* filter;
  void* connection;  // the filter itself, grpc_core::MaxAgeFilter
  void* call_data;
};
struct ChannelFilter {
  void (*start_batch)(CallElement*, void* batch);
  void* make_call_promise;
  void* start_transport_op;
  size_t sizeof_call_data;
  absl::Status (*init_call)(CallElement*, const void* arguments);
  void (*set_pollset)(CallElement*, void* polling);
  void (*destroy_call)(CallElement*, const void* final_info, void* then);
  size_t sizeof_connection_data;
  void* connection_functions[4];
  const char* name;
};

using Count = void (*)(void* filter);
Count increase = nullptr;
Count decrease = nullptr;

absl::Status InitCall(CallElement* element, const void* /*arguments*/) {
  increase(element->connection);
  return absl::OkStatus();
}

void DestroyCall(CallElement* element, const void* /*final_info*/, void* /*then*/) {
  decrease(element->connection);
}

template <typename Pointer>
Pointer Find(const std::string& symbol) {
  return reinterpret_cast<Pointer>(dlsym(RTLD_DEFAULT, symbol.c_str()));
}

// Of memory of this process: a gRPC that was compiled otherwise may have what it never changes in
// pages that nobody may write to.
bool MayBeWrittenTo(const void* memory) {
  const auto address = reinterpret_cast<uintptr_t>(memory);
  std::ifstream maps("/proc/self/maps");
  for (std::string line; std::getline(maps, line);) {
    uintptr_t begin = 0, end = 0;
    char mode[5] = {};
    const int found =
        std::sscanf(line.c_str(), "%" SCNxPTR "-%" SCNxPTR " %4s", &begin, &end, mode);
    if (found == 3 && begin <= address && address < end) return mode[1] == 'w';
  }
  return false;
}

// Whether each place of the filter holds what it has in the gRPC that the structs are of, and
// functions give the absl::Status of this program.
bool IsKnown(const ChannelFilter& filter) {
  const std::string kPrefix = "_ZN9grpc_core21promise_filter_detail";
  const std::string methods =
      kPrefix + "30CallDataFilterWithFlagsMethodsINS0_8CallDataILNS_14FilterEndpointE1EEELh0EE";
  const auto holds = [](auto* function, const std::string& symbol) {
    return function != nullptr && reinterpret_cast<void*>(function) == Find<void*>(symbol);
  };
  const std::string status = typeid(absl::Status).name();
  return holds(filter.start_batch, kPrefix +
                                       "19BaseCallDataMethods27StartTransportStreamOpBatch"
                                       "EP17grpc_call_elementP30"
                                       "grpc_transport_stream_op_batch") &&
         holds(filter.init_call,
               methods + "12InitCallElemEP17grpc_call_elementPK22grpc_call_element_args") &&
         holds(filter.set_pollset, kPrefix +
                                       "19BaseCallDataMethods22SetPollsetOrPollsetSet"
                                       "EP17grpc_call_elementP19grpc_polling_entity") &&
         holds(filter.destroy_call,
               methods +
                   "15DestroyCallElemEP17grpc_call_elementPK20grpc_call_final_infoP12"
                   "grpc_closure") &&
         Find<void*>(kPrefix + "14ServerCallData24RecvInitialMetadataReadyE" + status) != nullptr &&
         filter.name != nullptr && std::string_view(filter.name) == "max_age";
}

bool Thin() {
  auto* const filter = Find<ChannelFilter*>("_ZN9grpc_core12MaxAgeFilter7kFilterE");
  increase = Find<Count>("_ZN9grpc_core17ChannelIdleFilter17IncreaseCallCountEv");
  decrease = Find<Count>("_ZN9grpc_core17ChannelIdleFilter17DecreaseCallCountEv");
  const auto pass_on = Find<decltype(filter->start_batch)>(
      "_Z17grpc_call_next_opP17grpc_call_elementP30grpc_transport_stream_op_batch");
  const auto ignore = Find<decltype(filter->set_pollset)>(
      "_Z49grpc_call_stack_ignore_set_pollset_or_pollset_setP17grpc_call_elementP19"
      "grpc_polling_entity");
  if (filter == nullptr || increase == nullptr || decrease == nullptr || pass_on == nullptr ||
      ignore == nullptr || !IsKnown(*filter) || !MayBeWrittenTo(filter)) {
    return false;
  }
  filter->start_batch = pass_on;
  filter->sizeof_call_data = 0;
  filter->init_call = InitCall;
  filter->set_pollset = ignore;
  filter->destroy_call = DestroyCall;
  return true;
}

}  // namespace

bool ThinIdleFilter() {
  static const bool is_thin = Thin();
  return is_thin;
}

}  // namespace beamline

// Facts about a message type, computed once per thread and cached, because reflection looks names
// up.
#pragma once

#include <memory>

#include "absl/container/flat_hash_map.h"
#include "google/protobuf/descriptor.h"

namespace beamline {

// Fact: constructed from a const Descriptor&. The constructor may call ByType for other types.
template <typename Fact>
const Fact& ByType(const google::protobuf::Descriptor& type) {
  thread_local absl::flat_hash_map<const google::protobuf::Descriptor*, std::unique_ptr<const Fact>>
      facts;
  if (const auto known = facts.find(&type); known != facts.end()) return *known->second;
  auto fact = std::make_unique<const Fact>(type);
  return *(facts[&type] = std::move(fact));
}

}  // namespace beamline

// What is worked out of a message type once in a thread, and then known: reflection looks names up.
#pragma once

#include <memory>

#include "absl/container/flat_hash_map.h"
#include "google/protobuf/descriptor.h"

namespace beamline {

// Fact: of a const Descriptor&; it may ask for facts of other types meanwhile.
template <typename Fact>
const Fact& ByType(const google::protobuf::Descriptor& type) {
  thread_local absl::flat_hash_map<const google::protobuf::Descriptor*, std::unique_ptr<const Fact>>
      facts;
  if (const auto known = facts.find(&type); known != facts.end()) return *known->second;
  auto fact = std::make_unique<const Fact>(type);
  return *(facts[&type] = std::move(fact));
}

}  // namespace beamline

// A certificate for a connection of this process to itself (self_check.h).
#pragma once

#include <optional>
#include <string>

namespace beamline {

struct TestCertificate {
  std::string certificate, key;  // PEM
};

// One that is signed by itself, for some minutes. None where OpenSSL makes none.
std::optional<TestCertificate> MakeTestCertificate();

}  // namespace beamline

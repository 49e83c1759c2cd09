// How an identity file writes a token.
#pragma once

#include <array>
#include <string>

#include "fmt/format.h"
#include "openssl/sha.h"

namespace beamline {

inline std::string HashOf(const std::string& token) {
  std::array<unsigned char, SHA256_DIGEST_LENGTH> hash;
  SHA256(reinterpret_cast<const unsigned char*>(token.data()), token.size(), hash.data());
  std::string text = "sha256:";
  for (const unsigned char byte : hash) text += fmt::format("{:02x}", byte);
  return text;
}

}  // namespace beamline

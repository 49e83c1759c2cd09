// What holds of every answer to hostile input. A check that fails stops the process, as the fuzzer
// wants it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "absl/status/status.h"
#include "engine/text/tokenizer.h"

namespace beamline {

inline std::string_view AsText(const uint8_t* data, size_t size) {
  return {reinterpret_cast<const char*>(data), size};
}

// An error is the input's and not the program's, and its line, as a program prints it, still holds
// `part`: a file's name, most often.
void CheckRefusal(const absl::Status& status, std::string_view part);

// A tokenizer of any files and a text of any bytes: ids lie within the vocabulary, offsets within
// the text and on its characters, truncation keeps what it says, and what is decoded is UTF-8, the
// same at once and token by token. A text may be refused for its bytes or for what a normalizer
// would make of it.
void CheckTokenizer(const Tokenizer& tokenizer, std::string_view text);

}  // namespace beamline

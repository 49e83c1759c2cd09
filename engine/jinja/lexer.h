// Splits a template into tokens by the rules of Jinja's lexer, with trim_blocks and lstrip_blocks
// set as in transformers.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "engine/jinja/value.h"

namespace beamline::jinja {

enum class TokenType : uint8_t {
  kData,
  kPrintBegin,
  kPrintEnd,
  kBlockBegin,
  kBlockEnd,
  kName,
  kString,
  kNumber,
  kOperator,
  kEnd,
};

struct Token {
  TokenType type = TokenType::kEnd;
  int line = 1;
  std::string text;  // data and strings: their value
  Value value;       // numbers: their value
};

// An error in a template, or in what it computes.
struct Fault {
  std::string message;
  int line = 0;         // 0: the line being rendered
  bool raised = false;  // by the template's raise_exception
};

// Throws Fault.
std::vector<Token> Tokenize(std::string_view source);

// White space as defined by Python.
bool IsSpace(char32_t c);

}  // namespace beamline::jinja

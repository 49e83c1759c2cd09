// A template's text as tokens, by the rules of Jinja's lexer with trim_blocks and lstrip_blocks, as
// transformers sets them.
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
  std::string text;  // of data and strings what they stand for
  Value value;       // of a number
};

// What is wrong with a template, or with what it computes.
struct Fault {
  std::string message;
  int line = 0;         // 0: where the rendering is
  bool raised = false;  // by the template's own raise_exception
};

// Throws Fault.
std::vector<Token> Tokenize(std::string_view source);

// White space as Python has it.
bool IsSpace(char32_t c);

}  // namespace beamline::jinja

// Python's json.dumps, and JSON parsing.
#include <algorithm>
#include <cmath>
#include <memory>
#include <utility>

#include "absl/container/flat_hash_set.h"
#include "base/json.h"
#include "base/text.h"
#include "base/utf8.h"
#include "engine/jinja/operators.h"
#include "engine/jinja/text_format.h"
#include "fmt/format.h"

namespace beamline::jinja {
namespace {

std::string JsonQuoted(std::string_view text, bool ascii) {
  std::string made = "\"";
  for (size_t i = 0; i < text.size();) {
    const size_t begin = i;
    const char32_t c = ReadChar(text, &i);
    constexpr std::string_view kEscaped = "\"\\\n\r\t\b\f";
    constexpr std::string_view kLetters = "\"\\nrtbf";
    const size_t place = c < 0x80 ? kEscaped.find(static_cast<char>(c)) : std::string_view::npos;
    if (place != std::string_view::npos) {
      made.push_back('\\');
      made.push_back(kLetters[place]);
    } else if (c < 0x20 || (ascii && c >= 0x7F && c < 0x10000)) {
      made += fmt::format("\\u{:04x}", static_cast<uint32_t>(c));
    } else if (ascii && c >= 0x10000) {
      const auto rest = static_cast<uint32_t>(c) - 0x10000;
      made += fmt::format("\\u{:04x}\\u{:04x}", 0xD800 + (rest >> 10), 0xDC00 + (rest & 0x3FF));
    } else {
      made += text.substr(begin, i - begin);
    }
  }
  made.push_back('"');
  return made;
}

std::string JsonFloat(double value) {
  if (std::isnan(value)) return "NaN";
  if (std::isinf(value)) return value < 0 ? "-Infinity" : "Infinity";
  return FloatText(value);
}

class JsonWriter {
 public:
  JsonWriter(Run& run, const JsonStyle& style) : run_(run), style_(style) {}

  void Write(const Value& value) {
    const Run::Deeper deeper(run_);
    switch (value.kind) {
      case Kind::kNone:
        return Add("null");
      case Kind::kBool:
        return Add(value.whole != 0 ? "true" : "false");
      case Kind::kInt:
        return Add(fmt::to_string(value.whole));
      case Kind::kFloat:
        return Add(JsonFloat(value.real));
      case Kind::kString:
        run_.Touch(Text(value).size());
        return Add(JsonQuoted(Text(value), style_.ascii));
      case Kind::kList:
      case Kind::kTuple:
        return List(Items(value));
      case Kind::kDict:
        return Dict(value.as<DictObject>());
      default:
        run_.Fail(fmt::format("Object of type {} is not JSON serializable", TypeName(value)));
    }
  }

  std::string Take() { return std::move(text_); }

 private:
  void Add(std::string_view text) {
    run_.Step();
    run_.Touch(text.size());
    text_ += text;
    run_.CheckOutput(text_.size());
  }

  void Line() {
    if (!style_.has_indent) return;
    Add("\n");
    for (int i = 0; i < level_; ++i) Add(style_.indent);
  }

  void List(const std::vector<Value>& items) {
    if (items.empty()) return Add("[]");
    Add("[");
    ++level_;
    for (size_t i = 0; i < items.size(); ++i) {
      if (i > 0) Add(style_.item_separator);
      Line();
      Write(items[i]);
    }
    --level_;
    Line();
    Add("]");
  }

  std::string KeyText(const Value& key) {
    switch (key.kind) {
      case Kind::kString:
        return Text(key);
      case Kind::kFloat:
        return JsonFloat(key.real);
      case Kind::kBool:
        return key.whole != 0 ? "true" : "false";
      case Kind::kNone:
        return "null";
      case Kind::kInt:
        return fmt::to_string(key.whole);
      default:
        run_.Fail(fmt::format("keys must be str, int, float, bool or None, not {}", TypeName(key)));
    }
  }

  void Dict(const DictObject& dict) {
    if (dict.entries.empty()) return Add("{}");
    std::vector<size_t> order(dict.entries.size());
    for (size_t i = 0; i < order.size(); ++i) order[i] = i;
    if (style_.sorts_keys) {
      std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) {
        return IsLess(run_, dict.entries[a].first, dict.entries[b].first);
      });
    }
    Add("{");
    ++level_;
    for (size_t i = 0; i < order.size(); ++i) {
      const auto& [key, value] = dict.entries[order[i]];
      if (i > 0) Add(style_.item_separator);
      Line();
      Add(JsonQuoted(KeyText(key), style_.ascii));
      Add(style_.key_separator);
      Write(value);
    }
    --level_;
    Line();
    Add("}");
  }

  Run& run_;
  const JsonStyle& style_;
  int level_ = 0;
  std::string text_;
};

// Builds a value from the events of the JSON parser.
class ValueReader final : public nlohmann::json_sax<nlohmann::json> {
 public:
  const std::string& fault() const { return fault_; }
  Value Take() { return std::move(value_); }

  bool null() override { return Put(Value::None()); }
  bool boolean(bool value) override { return Put(Value::Bool(value)); }
  bool number_integer(number_integer_t value) override { return Put(Value::Int(value)); }
  bool number_unsigned(number_unsigned_t value) override {
    if (value > uint64_t{INT64_MAX}) return Fail(fmt::format("the number {} is too large", value));
    return Put(Value::Int(static_cast<int64_t>(value)));
  }
  bool number_float(number_float_t value, const string_t& text) override {
    if (text.find_first_of(".eE") == std::string::npos) {
      return Fail(fmt::format("the number {} is too large", Shorten(text)));
    }
    return Put(Value::Float(value));
  }
  bool string(string_t& text) override { return Put(MakeString(std::move(text))); }
  bool binary(binary_t&) override { return false; }
  bool start_object(size_t) override { return Open(true); }
  bool end_object() override { return Close(); }
  bool start_array(size_t) override { return Open(false); }
  bool end_array() override { return Close(); }

  bool key(string_t& name) override {
    if (open_.back().dict->Find(name) != nullptr) {
      return Fail(fmt::format("the name \"{}\" appears twice in one object", Shorten(name)));
    }
    open_.back().key = MakeString(std::move(name));
    return Count();
  }

  bool parse_error(size_t position, const std::string&,
                   const nlohmann::detail::exception&) override {
    return Fail(fmt::format("not valid JSON at byte {}", position));
  }

 private:
  struct Level {
    std::shared_ptr<DictObject> dict;  // only for an object
    std::vector<Value> items;
    Value key;
  };

  bool Fail(std::string fault) {
    fault_ = std::move(fault);
    return false;
  }
  bool Count() {
    return ++count_ <= kMostJsonValues || Fail(fmt::format("more than {} values", kMostJsonValues));
  }
  bool Open(bool is_object) {
    if (open_.size() >= kMaxJsonDepth) {
      return Fail(fmt::format("nested deeper than {} levels", kMaxJsonDepth));
    }
    open_.emplace_back();
    if (is_object) open_.back().dict = std::make_shared<DictObject>();
    return true;
  }
  bool Close() {
    Level level = std::move(open_.back());
    open_.pop_back();
    if (level.dict != nullptr) return Put({Kind::kDict, std::move(level.dict)});
    return Put(MakeList(std::move(level.items)));
  }
  bool Put(Value value) {
    if (open_.empty()) {
      value_ = std::move(value);
    } else if (open_.back().dict != nullptr) {
      open_.back().dict->Set(std::move(open_.back().key), std::move(value));
    } else {
      open_.back().items.push_back(std::move(value));
    }
    return Count();
  }

  std::vector<Level> open_;
  Value value_;
  size_t count_ = 0;
  std::string fault_;
};

}  // namespace

std::string DumpJson(Run& run, const Value& value, const JsonStyle& style) {
  JsonWriter writer(run, style);
  writer.Write(value);
  return writer.Take();
}

absl::StatusOr<Value> ParseJsonValue(std::string_view text) {
  if (const size_t nul = text.find('\0'); nul != std::string_view::npos) {
    return absl::InvalidArgumentError(fmt::format("not valid JSON at byte {}", nul + 1));
  }
  ValueReader reader;
  if (!nlohmann::json::sax_parse(text.begin(), text.end(), &reader)) {
    return absl::InvalidArgumentError(reader.fault());
  }
  return reader.Take();
}

Value MakeDict(Variables members) {
  auto dict = std::make_shared<DictObject>();
  for (auto& [name, value] : members) dict->Set(MakeString(std::move(name)), std::move(value));
  return {Kind::kDict, std::move(dict)};
}

}  // namespace beamline::jinja

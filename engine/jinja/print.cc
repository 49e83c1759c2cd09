#include <cmath>
#include <utility>

#include "base/utf8.h"
#include "engine/jinja/characters.h"
#include "engine/jinja/operators.h"
#include "fmt/format.h"

namespace beamline::jinja {
namespace {

std::string QuotedText(std::string_view text) {
  const bool single = text.find('\'') != std::string_view::npos;
  const bool both = single && text.find('"') != std::string_view::npos;
  const char quote = single && !both ? '"' : '\'';
  std::string made(1, quote);
  for (size_t i = 0; i < text.size();) {
    const size_t begin = i;
    const char32_t c = ReadChar(text, &i);
    if (c == '\n') {
      made += "\\n";
    } else if (c == '\r') {
      made += "\\r";
    } else if (c == '\t') {
      made += "\\t";
    } else if (c == '\\' || c == static_cast<char32_t>(quote)) {
      made.push_back('\\');
      made.push_back(static_cast<char>(c));
    } else if (IsPrintable(c)) {
      made += text.substr(begin, i - begin);
    } else if (c < 0x100) {
      made += fmt::format("\\x{:02x}", static_cast<uint32_t>(c));
    } else if (c < 0x10000) {
      made += fmt::format("\\u{:04x}", static_cast<uint32_t>(c));
    } else {
      made += fmt::format("\\U{:08x}", static_cast<uint32_t>(c));
    }
  }
  made.push_back(quote);
  return made;
}

class Writer {
 public:
  explicit Writer(Run& run) : run_(run) {}

  void Write(const Value& value) {
    const Run::Deeper deeper(run_);
    run_.Step();
    switch (value.kind) {
      case Kind::kUndefined:
        Add("Undefined");
        break;
      case Kind::kNone:
        Add("None");
        break;
      case Kind::kBool:
        Add(value.whole != 0 ? "True" : "False");
        break;
      case Kind::kInt:
        Add(fmt::to_string(value.whole));
        break;
      case Kind::kFloat:
        Add(FloatText(value.real));
        break;
      case Kind::kString:
        run_.Touch(Text(value).size());
        if (value.as<StringObject>().safe) {
          Add("Markup(" + QuotedText(Text(value)) + ")");
        } else {
          Add(QuotedText(Text(value)));
        }
        break;
      case Kind::kList:
        List("[", Items(value), "]");
        break;
      case Kind::kTuple:
        List("(", Items(value), Items(value).size() == 1 ? ",)" : ")");
        break;
      case Kind::kView:
        Add(value.as<ListObject>().name);
        List("([", Items(value), "])");
        break;
      case Kind::kDict:
        Dict(value.as<DictObject>());
        break;
      case Kind::kRange: {
        const auto& range = value.as<RangeObject>();
        Add(range.step == 1
                ? fmt::format("range({}, {})", range.start, range.stop)
                : fmt::format("range({}, {}, {})", range.start, range.stop, range.step));
        break;
      }
      default:
        run_.Fail(fmt::format("a {} cannot be printed", TypeName(value)));
    }
  }

  std::string Take() { return std::move(text_); }

 private:
  void Add(std::string_view text) {
    run_.Touch(text.size());
    text_ += text;
    run_.CheckOutput(text_.size());
  }

  void List(std::string_view begin, const std::vector<Value>& items, std::string_view end) {
    Add(begin);
    for (size_t i = 0; i < items.size(); ++i) {
      if (i > 0) Add(", ");
      Write(items[i]);
    }
    Add(end);
  }

  void Dict(const DictObject& dict) {
    Add("{");
    for (size_t i = 0; i < dict.entries.size(); ++i) {
      if (i > 0) Add(", ");
      Write(dict.entries[i].first);
      Add(": ");
      Write(dict.entries[i].second);
    }
    Add("}");
  }

  Run& run_;
  std::string text_;
};

}  // namespace

std::string FloatText(double value) {
  if (std::isnan(value)) return "nan";
  if (std::isinf(value)) return value < 0 ? "-inf" : "inf";
  std::string text = fmt::format("{}", value);
  if (text.find_first_of(".e") == std::string::npos) text += ".0";
  return text;
}

std::string ToText(Run& run, const Value& value) {
  if (value.is(Kind::kString)) {
    run.Touch(Text(value).size());
    return Text(value);
  }
  return value.is(Kind::kUndefined) ? std::string() : Repr(run, value);
}

std::string SoftText(Run& run, const Value& value) { return ToText(run, value); }

std::string Repr(Run& run, const Value& value) {
  Writer writer(run);
  writer.Write(value);
  return writer.Take();
}

}  // namespace beamline::jinja

// The limits that the comments of the requests' .proto files state are those of the engine's table
// (engine/api/request_limits.h), field by field and in both directions, and the engine keeps them:
// each is called at its end and one beyond. A field that states nothing must be known to have no
// limit. Long because requests of each kind are made.
#include <gmock/gmock.h>
#include <google/protobuf/descriptor.h>
#include <google/protobuf/message.h>
#include <gtest/gtest.h>

#include <fstream>
#include <functional>
#include <map>
#include <optional>
#include <regex>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include "engine/api/request_limits.h"
#include "fmt/format.h"
#include "server/wire/request.h"
#include "tests/engine/demo_engine.h"

namespace beamline {

// As the comments write them, which is what a failing comparison shows.
static bool operator==(const NumberRange& a, const NumberRange& b) {
  return a.min == b.min && a.max == b.max && a.excludes_min == b.excludes_min;
}
static bool operator==(const SizeRange& a, const SizeRange& b) {
  return a.min == b.min && a.max == b.max;
}
static void PrintTo(const NumberRange& range, std::ostream* out) {
  *out << fmt::format("{}{}, {}]", range.excludes_min ? "(" : "[", range.min, range.max);
}
static void PrintTo(const SizeRange& range, std::ostream* out) {
  *out << fmt::format("{} to {}", range.min, range.max);
}

}  // namespace beamline

namespace beamline::contract_limits_test {
namespace {

using google::protobuf::Descriptor;
using google::protobuf::FieldDescriptor;
using google::protobuf::Message;
using google::protobuf::Reflection;

// "Sampling.top_p".
std::string NameOf(const FieldDescriptor& field) {
  return field.containing_type()->name() + "." + field.name();
}

// By such names the comments above the fields, joined to one line.
std::map<std::string, std::string> FieldComments() {
  std::map<std::string, std::string> comments;
  std::stringstream file;
  for (const char* name : {"common", "inference", "classify"}) {
    file << std::ifstream(fmt::format(BEAMLINE_SOURCE_DIR "/proto/beamline/v1/{}.proto", name))
                .rdbuf();
  }
  const std::regex message(R"(message (\w+) \{\}?)");
  const std::regex field(R"( +(?:optional |repeated )?[\w.<>, ]+ (\w+) = \d+;)");
  const std::regex comment(R"( *// ?(.*))");
  const std::regex reference(R"(As in (\w+)\. )");
  std::string line, name, text;
  while (std::getline(file, line)) {
    std::smatch match;
    if (std::regex_match(line, match, comment)) {
      text += match[1].str() + " ";
      continue;
    }
    if (std::regex_match(line, match, message)) name = match[1];
    if (std::regex_match(line, match, field)) {
      std::smatch other;
      const bool refers = std::regex_match(text, other, reference);
      comments[name + "." + match[1].str()] =
          refers ? comments[other[1].str() + "." + match[1].str()] : text;
    }
    text.clear();
  }
  return comments;
}

// What the RPCs of Inference take.
const std::set<const Descriptor*>& Requests() {
  static const std::set<const Descriptor*> requests = [] {
    std::set<const Descriptor*> types;
    const auto* service = v1::GenerateRequest::descriptor()->file()->FindServiceByName("Inference");
    for (int i = 0; i < service->method_count(); ++i)
      types.insert(service->method(i)->input_type());
    return types;
  }();
  return requests;
}

// The fields of the requests and of the messages in them. A map counts as one field.
void AddFields(const Descriptor& message, std::map<std::string, const FieldDescriptor*>& fields) {
  for (int i = 0; i < message.field_count(); ++i) {
    const FieldDescriptor& field = *message.field(i);
    if (!fields.emplace(NameOf(field), &field).second || field.is_map()) continue;
    if (field.message_type() != nullptr) AddFields(*field.message_type(), fields);
  }
}

std::map<std::string, const FieldDescriptor*> RequestFields() {
  std::map<std::string, const FieldDescriptor*> fields;
  for (const Descriptor* request : Requests()) AddFields(*request, fields);
  return fields;
}

// The fields along a path of the contract, "limits.stop"; none when the request has no such path.
std::vector<const FieldDescriptor*> Along(const Descriptor& request, std::string_view path) {
  std::vector<const FieldDescriptor*> fields;
  const Descriptor* message = &request;
  while (!path.empty()) {
    const std::string name(path.substr(0, path.find('.')));
    path.remove_prefix(std::min(path.size(), name.size() + 1));
    const FieldDescriptor* field = message != nullptr ? message->FindFieldByName(name) : nullptr;
    if (field == nullptr) return {};
    fields.push_back(field);
    message = field->message_type();
  }
  return fields;
}

// What a comment states of a field.
RequestLimit ParseLimit(const std::string& comment, const FieldDescriptor& field) {
  RequestLimit limit;
  std::smatch match;
  const auto number = [&](size_t group) { return std::stod(match[group].str()); };
  const auto size = [&](size_t group) { return std::stoul(match[group].str()); };
  const bool is_list = field.is_repeated() && !field.is_map();
  if (std::regex_search(comment, match, std::regex(R"(([\[(])(-?\d+), (-?\d+)\])"))) {
    limit.value = {number(2), number(3), match[1] == "("};
  } else if (std::regex_search(comment, match, std::regex(R"((-?\d+) \.\. (-?\d+))"))) {
    if (is_list) limit.size = {size(1), size(2)};
    if (!is_list) limit.value = {number(1), number(2)};
  } else if (std::regex_search(comment, match, std::regex(R"(>= (-?\d+))"))) {
    limit.value = {number(1)};
  }
  if (std::regex_search(comment, match, std::regex(R"(each of (\d+) to (\d+) (bytes|tokens))"))) {
    limit.entry_size = {size(1), size(2)};
  }
  if (std::regex_search(comment, match, std::regex(R"(at most (\d+))"))) limit.size = {0, size(1)};
  return limit;
}

bool IsStated(const RequestLimit& limit) { return limit.value || limit.size || limit.entry_size; }

TEST(ContractLimits, AreThoseOfTheEnginesTable) {
  const std::map<std::string, std::string> comments = FieldComments();
  std::set<std::string> in_table;
  for (const RequestLimit& limit : kRequestLimits) {
    size_t num_requests = 0;
    for (const Descriptor* request : Requests()) {
      const auto path = Along(*request, ContractPath(limit.field));
      if (path.empty()) continue;
      ++num_requests;
      const std::string name = NameOf(*path.back());
      in_table.insert(name);
      const std::string& comment = comments.at(name);
      const RequestLimit stated = ParseLimit(comment, *path.back());
      EXPECT_EQ(stated.value, limit.value) << name << ": " << comment;
      EXPECT_EQ(stated.size, limit.size) << name << ": " << comment;
      EXPECT_EQ(stated.entry_size, limit.entry_size) << name << ": " << comment;
    }
    EXPECT_GT(num_requests, 0u) << limit.field << " is in no request";
  }
  for (const auto& [name, field] : RequestFields()) {
    if (in_table.contains(name)) continue;
    EXPECT_FALSE(IsStated(ParseLimit(comments.at(name), *field)))
        << name << " states a limit that the table does not have: " << comments.at(name);
  }
}

// What bounds them is the model, another field, or the size of a request.
TEST(ContractLimits, FieldsWithoutThemAreKnown) {
  const std::set<std::string> bounded_by_others = {"Beam.num_groups",
                                                   "Beam.num_sequences",
                                                   "Chat.documents_json",
                                                   "Chat.template",
                                                   "Chat.template_options_json",
                                                   "Chat.tools_json",
                                                   "ChatMessage.content",
                                                   "ChatMessage.members_json",
                                                   "ChatMessage.role",
                                                   "ClassifyInput.text",
                                                   "ClassifyRequest.model",
                                                   "ClassifyTokensRequest.model",
                                                   "DetokenizeRequest.ids",
                                                   "DetokenizeRequest.model",
                                                   "EncodeRequest.dimensions",
                                                   "EncodeRequest.model",
                                                   "EncodeRequest.prompt_name",
                                                   "FillMaskRequest.model",
                                                   "GenerateRequest.model",
                                                   "GenerateRequest.source_language",
                                                   "GenerateRequest.target_language",
                                                   "Prompt.text",
                                                   "RerankRequest.model",
                                                   "RerankRequest.query",
                                                   "Sampling.seed",
                                                   "ScoreRequest.model",
                                                   "ScoreRequest.source_language",
                                                   "ScoreRequest.target_language",
                                                   "Shaping.forced_eos",
                                                   "TextPair.first",
                                                   "TextPair.second",
                                                   "TokenIds.ids",
                                                   "TokenizeRequest.model",
                                                   "TokenizeRequest.text"};
  const std::map<std::string, std::string> comments = FieldComments();
  std::set<std::string> found;
  for (const auto& [name, field] : RequestFields()) {
    const FieldDescriptor::CppType type = field->cpp_type();
    const bool has_size = field->is_repeated() || type == FieldDescriptor::CPPTYPE_STRING;
    const bool has_range = type != FieldDescriptor::CPPTYPE_BOOL &&
                           type != FieldDescriptor::CPPTYPE_ENUM &&
                           type != FieldDescriptor::CPPTYPE_MESSAGE;
    if (!has_size && !has_range) continue;
    if (!IsStated(ParseLimit(comments.at(name), *field))) found.insert(name);
  }
  EXPECT_THAT(found, testing::ContainerEq(bounded_by_others));
}

// --- What the engine accepts -------------------------------------------------------------------

// Valid requests, but for the field that is tried.
v1::GenerateRequest Valid(const v1::GenerateRequest&) {
  v1::GenerateRequest message;
  message.set_model("write-en");
  message.mutable_prompt()->set_text("Package: a");
  message.mutable_limits()->set_max_new_tokens(1);
  return message;
}
v1::EncodeRequest Valid(const v1::EncodeRequest&) {
  v1::EncodeRequest message;
  message.set_model("embed-en");
  message.add_inputs()->mutable_ids()->add_ids(2);
  return message;
}
v1::ClassifyRequest Valid(const v1::ClassifyRequest&) {
  v1::ClassifyRequest message;
  message.set_model("rank");
  message.add_inputs()->mutable_ids()->add_ids(2);
  return message;
}
v1::RerankRequest Valid(const v1::RerankRequest&) {
  v1::RerankRequest message;
  message.set_model("rank");
  message.set_query("a");
  message.add_documents("b");
  return message;
}
v1::ClassifyTokensRequest Valid(const v1::ClassifyTokensRequest&) {
  v1::ClassifyTokensRequest message;
  message.set_model("tokens");
  message.add_inputs("a");
  return message;
}
v1::FillMaskRequest Valid(const v1::FillMaskRequest&) {
  v1::FillMaskRequest message;
  message.set_model("masks");
  message.add_inputs("a [MASK]");
  return message;
}
v1::ScoreRequest Valid(const v1::ScoreRequest&) {
  v1::ScoreRequest message;
  message.set_model("write-en");
  message.mutable_prompt()->set_text("a");
  message.add_continuations()->mutable_ids()->add_ids(9);
  return message;
}

Engine& Classifiers() {
  static const std::unique_ptr<Engine> engine = [] {
    EngineOptions options = TestEngineOptions();
    ModelOptions model = Demo("rank");
    model.folder = BEAMLINE_SOURCE_DIR "/tests/golden/classifiers/bert-2x10-rank";
    ModelOptions tokens = Demo("tokens");
    tokens.folder = BEAMLINE_SOURCE_DIR "/tests/golden/classifiers/bert-3x8-tokens";
    ModelOptions masks = Demo("masks");
    masks.folder = BEAMLINE_SOURCE_DIR "/tests/golden/classifiers/bert-3x8-masks";
    options.models = {model, tokens, masks};
    return *Engine::Create(options);
  }();
  return *engine;
}

template <typename Request>
absl::Status Call(const Request& message) {
  const auto request = ToEngineRequest(message);
  if (!request.ok()) return request.status();
  if constexpr (std::is_same_v<Request, v1::GenerateRequest>) {
    return SharedEngine().GenerateAndWait(*request).status();
  } else if constexpr (std::is_same_v<Request, v1::EncodeRequest>) {
    return SharedEngine().EncodeAndWait(*request).status();
  } else if constexpr (std::is_same_v<Request, v1::ClassifyRequest> ||
                       std::is_same_v<Request, v1::RerankRequest>) {
    return Classifiers().ClassifyAndWait(*request).status();
  } else if constexpr (std::is_same_v<Request, v1::ClassifyTokensRequest>) {
    return Classifiers().ClassifyTokensAndWait(*request).status();
  } else if constexpr (std::is_same_v<Request, v1::FillMaskRequest>) {
    return Classifiers().FillMaskAndWait(*request).status();
  } else {
    return SharedEngine().ScoreAndWait(*request).status();
  }
}

// Small ids, each another one.
void AddIds(double count, v1::TokenIds& ids) {
  for (int i = 0; i < count; ++i) ids.add_ids(i + 2);
}

// The last message of the path, and its field there.
struct Place {
  Message& message;
  const FieldDescriptor& field;
  const Reflection& reflection() const { return *message.GetReflection(); }
};

Place FindPlace(Message& request, std::string_view path) {
  const auto fields = Along(*request.GetDescriptor(), path);
  Message* message = &request;
  for (size_t i = 0; i + 1 < fields.size(); ++i) {
    message = message->GetReflection()->MutableMessage(message, fields[i]);
  }
  return {*message, *fields.back()};
}

void AddEntry(const Place& place, int number, double size) {
  const Reflection& reflection = place.reflection();
  if (place.field.is_map()) {
    Message& entry = *reflection.AddMessage(&place.message, &place.field);
    const Descriptor& type = *entry.GetDescriptor();
    entry.GetReflection()->SetInt32(&entry, type.map_key(), number + 2);
    entry.GetReflection()->SetFloat(&entry, type.map_value(), static_cast<float>(size));
  } else if (place.field.message_type() != nullptr) {
    Message* const entry = reflection.AddMessage(&place.message, &place.field);
    if (auto* input = dynamic_cast<v1::ClassifyInput*>(entry); input != nullptr) {
      return AddIds(size, *input->mutable_ids());
    }
    AddIds(size, *dynamic_cast<v1::Prompt*>(entry)->mutable_ids());
  } else if (place.field.cpp_type() == FieldDescriptor::CPPTYPE_STRING) {
    // Where masks are filled in every text has one.
    const bool is_masked = NameOf(place.field) == "FillMaskRequest.inputs";
    reflection.AddString(&place.message, &place.field,
                         is_masked ? "[MASK]" : std::string(static_cast<size_t>(size), 'x'));
  } else {
    reflection.AddInt32(&place.message, &place.field, number + 2);
  }
}

void SetValue(const Place& place, double value) {
  const Reflection& reflection = place.reflection();
  if (place.field.is_map()) {
    AddEntry(place, 7, value);
  } else if (place.field.cpp_type() == FieldDescriptor::CPPTYPE_FLOAT) {
    reflection.SetFloat(&place.message, &place.field, static_cast<float>(value));
  } else {
    reflection.SetInt32(&place.message, &place.field, static_cast<int32_t>(value));
  }
}

void SetSize(const Place& place, double size) {
  place.reflection().ClearField(&place.message, &place.field);
  if (!place.field.is_repeated()) {
    place.reflection().SetString(&place.message, &place.field,
                                 std::string(static_cast<size_t>(size), 'x'));
  }
  for (int i = 0; place.field.is_repeated() && i < size; ++i) AddEntry(place, i, 1);
}

using Edit = std::function<void(const Place&, double)>;

template <typename Request>
void Expect(std::string_view path, const Edit& edit, double number, bool accepted) {
  Request request = Valid(Request());
  edit(FindPlace(request, path), number);
  const absl::Status status = Call(request);
  EXPECT_EQ(status.ok(), accepted)
      << Request::descriptor()->name() << " " << path << " " << number << ": " << status;
  if (accepted) return;
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << status;
}

template <typename Request>
void ExpectKept(const RequestLimit& limit) {
  const std::string_view path = ContractPath(limit.field);
  const auto fields = Along(*Request::descriptor(), path);
  if (fields.empty()) return;
  const auto expect_sizes = [&](const SizeRange& range, const Edit& edit) {
    const auto min = static_cast<double>(range.min), max = static_cast<double>(range.max);
    Expect<Request>(path, edit, min, true);
    if (range.min > 0) Expect<Request>(path, edit, min - 1, false);
    Expect<Request>(path, edit, max, true);
    Expect<Request>(path, edit, max + 1, false);
  };
  if (limit.value.has_value()) {
    const NumberRange& range = *limit.value;
    const bool has_fraction =
        fields.back()->is_map() || fields.back()->cpp_type() == FieldDescriptor::CPPTYPE_FLOAT;
    const double step = has_fraction ? 1.0 / 1024 : 1.0;
    Expect<Request>(path, SetValue, range.excludes_min ? range.min + step : range.min, true);
    Expect<Request>(path, SetValue, range.excludes_min ? range.min : range.min - step, false);
    if (range.max != NumberRange::kNoEnd) {
      Expect<Request>(path, SetValue, range.max, true);
      Expect<Request>(path, SetValue, range.max + step, false);
    }
  }
  if (limit.size.has_value()) expect_sizes(*limit.size, SetSize);
  if (limit.entry_size.has_value()) {
    expect_sizes(*limit.entry_size,
                 [](const Place& place, double size) { AddEntry(place, 0, size); });
  }
}

TEST(ContractLimits, AreKept) {
  for (const RequestLimit& limit : kRequestLimits) {
    if (limit.field.starts_with("prompt.chat."))
      continue;  // tests/engine/chat/chat_prompts_test.cc
    ExpectKept<v1::GenerateRequest>(limit);
    ExpectKept<v1::EncodeRequest>(limit);
    ExpectKept<v1::ScoreRequest>(limit);
    ExpectKept<v1::ClassifyRequest>(limit);
    ExpectKept<v1::RerankRequest>(limit);
    ExpectKept<v1::ClassifyTokensRequest>(limit);
    ExpectKept<v1::FillMaskRequest>(limit);
  }
}

// Those whose end is another field's or the model's.
TEST(ContractLimits, OfOtherFieldsAndTheModelAreKept) {
  const auto at_width_4 = [](const Place& place, double value) {
    dynamic_cast<v1::Beam&>(place.message).set_width(4);
    SetValue(place, value);
  };
  const auto first = [](const Place& place, double value) {
    place.reflection().AddInt32(&place.message, &place.field, static_cast<int32_t>(value));
  };
  const auto beyond = [](const Place& place, double value) {
    dynamic_cast<v1::Limits&>(place.message).set_max_new_tokens(3);
    SetValue(place, value);
  };
  using Generate = v1::GenerateRequest;
  for (const int value : {0, 1, 4, 5}) {
    const bool accepted = value == 1 || value == 4;
    Expect<Generate>("beam.num_sequences", at_width_4, value, accepted);
    Expect<Generate>("beam.num_groups", at_width_4, value, accepted);
  }
  Expect<Generate>("beam.num_groups", at_width_4, 3, false);  // no divisor
  Expect<Generate>("limits.min_new_tokens", beyond, 3, true);
  Expect<Generate>("limits.min_new_tokens", beyond, 4, false);

  const int vocab_size = SharedEngine().FindModel("write-en")->vocab_size;
  for (const int id : {-1, 0, vocab_size - 1, vocab_size}) {
    const bool accepted = id >= 0 && id < vocab_size;
    Expect<Generate>("shaping.forced_eos", SetValue, id, accepted);
    for (const char* list :
         {"limits.stop_token_ids", "shaping.suppress_tokens", "prompt.ids.ids"}) {
      Expect<Generate>(list, first, id, accepted);
    }
  }
  const int dimensions = SharedEngine().FindModel("embed-en")->embedding_dimensions;
  for (const int value : {0, 1, dimensions, dimensions + 1}) {
    Expect<v1::EncodeRequest>("dimensions", SetValue, value, value >= 1 && value <= dimensions);
  }
}

}  // namespace
}  // namespace beamline::contract_limits_test

#include "engine/jinja/run.h"

#include <algorithm>
#include <utility>

#include "base/stop_check.h"
#include "base/utf8.h"
#include "fmt/format.h"

namespace beamline::jinja {

void Scope::Set(int name, Value value) {
  for (auto& [known, held] : variables) {
    if (known == name) {
      held = std::move(value);
      return;
    }
  }
  variables.emplace_back(name, std::move(value));
}

const Value* Scope::Find(int name, size_t* looked) const {
  for (const Scope* scope = this; scope != nullptr; scope = scope->parent) {
    *looked += scope->variables.size() + 1;
    for (const auto& [known, held] : scope->variables) {
      if (known == name) return &held;
    }
  }
  return nullptr;
}

void Run::Look() {
  if (steps_ > limits_.steps) {
    Fail(fmt::format("the template takes more than {} steps", limits_.steps));
  }
  next_look_ = std::min(steps_ + kStepsPerLook, limits_.steps + 1);
  absl::Status status = StopCheck::Now();
  if (!status.ok()) throw Stopped{std::move(status)};
}

void Run::Room(size_t bytes) {
  if (bytes > limits_.memory_bytes || meter_.live > limits_.memory_bytes - bytes) {
    Fail(fmt::format("the template's values take more than {} bytes", limits_.memory_bytes));
  }
  Touch(bytes);
}

void Run::Hold(Object& object, size_t bytes) {
  Room(bytes);
  object.meter = &meter_;
  object.bytes += bytes;
  meter_.live += bytes;
}

void Run::CheckDepth(const Object& object) const {
  if (object.depth > kMostValueDepth) {
    Fail(fmt::format("a value is nested deeper than {} levels", kMostValueDepth));
  }
}

void Run::CheckOutput(size_t bytes) const {
  if (bytes > limits_.output_bytes) {
    Fail(fmt::format("the template writes more than {} bytes", limits_.output_bytes));
  }
}

Value Run::String(std::string text, bool safe) {
  auto object = std::make_shared<StringObject>();
  Hold(*object, sizeof(StringObject) + text.size());
  object->ascii = IsAscii(text);
  object->text = std::move(text);
  object->safe = safe;
  return {Kind::kString, std::move(object)};
}

Value Run::Sequence(Kind kind, std::vector<Value> items) {
  auto object = std::make_shared<ListObject>();
  Hold(*object, sizeof(ListObject) + items.size() * sizeof(Value));
  for (const Value& item : items) {
    if (item.object != nullptr) object->depth = std::max(object->depth, item.object->depth);
  }
  ++object->depth;
  CheckDepth(*object);
  object->items = std::move(items);
  return {kind, std::move(object)};
}

Value Run::View(std::string_view name, std::vector<Value> items) {
  Value view = Sequence(Kind::kView, std::move(items));
  view.as<ListObject>().name = name;
  return view;
}

Value Run::Undefined(std::string message) {
  auto object = std::make_shared<UndefinedObject>();
  Hold(*object, sizeof(UndefinedObject) + message.size());
  object->message = std::move(message);
  return {Kind::kUndefined, std::move(object)};
}

Value Run::Dict(std::shared_ptr<DictObject> dict) {
  constexpr size_t kEntryBytes = 2 * sizeof(Value) + 48;  // including the hash table's share
  Hold(*dict, sizeof(DictObject) + dict->entries.size() * kEntryBytes);
  CheckDepth(*dict);
  return {Kind::kDict, std::move(dict)};
}

Value Run::Method(std::string_view name, Native native, const Value& self) {
  auto object = std::make_shared<CallableObject>();
  Hold(*object, sizeof(CallableObject));
  object->name = name;
  object->native = native;
  object->self = self;
  object->depth = self.object == nullptr ? 1 : self.object->depth + 1;
  CheckDepth(*object);
  return {Kind::kCallable, std::move(object)};
}

Value Run::Macro(const Statement& macro, Scope& scope) {
  auto object = std::make_shared<CallableObject>();
  Hold(*object, sizeof(CallableObject));
  object->macro = &macro;
  object->scope = &scope;
  return {Kind::kCallable, std::move(object)};
}

Value Run::NewNamespace() {
  auto object = std::make_shared<NamespaceObject>();
  constexpr size_t kBytes = 256;
  Hold(*object, sizeof(NamespaceObject));
  Spend(kBytes);
  object->members = &namespaces_.emplace_back();
  return {Kind::kNamespace, std::move(object)};
}

void Run::Spend(size_t bytes) {
  Room(bytes);
  meter_.live += bytes;
}

void Run::Keep(std::shared_ptr<Scope> scope) {
  constexpr size_t kBytes = 256;
  Spend(kBytes);
  kept_.push_back(std::move(scope));
}

}  // namespace beamline::jinja

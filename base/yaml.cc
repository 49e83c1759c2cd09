#include "base/yaml.h"

#include <optional>
#include <sstream>

#include "fmt/format.h"
#include "yaml-cpp/eventhandler.h"

namespace beamline {
namespace {

// Records the position of a document's root.
class RootFinder final : public YAML::EventHandler {
 public:
  const std::optional<YAML::Mark>& root() const { return root_; }

  void OnDocumentStart(const YAML::Mark&) override {}
  void OnDocumentEnd() override {}
  void OnNull(const YAML::Mark& mark, YAML::anchor_t) override { Set(mark); }
  void OnAlias(const YAML::Mark& mark, YAML::anchor_t) override { Set(mark); }
  void OnScalar(const YAML::Mark& mark, const std::string&, YAML::anchor_t,
                const std::string&) override {
    Set(mark);
  }
  void OnSequenceStart(const YAML::Mark& mark, const std::string&, YAML::anchor_t,
                       YAML::EmitterStyle::value) override {
    Set(mark);
  }
  void OnSequenceEnd() override {}
  void OnMapStart(const YAML::Mark& mark, const std::string&, YAML::anchor_t,
                  YAML::EmitterStyle::value) override {
    Set(mark);
  }
  void OnMapEnd() override {}

 private:
  void Set(const YAML::Mark& mark) {
    if (!root_.has_value()) root_ = mark;
  }

  std::optional<YAML::Mark> root_;
};

absl::Status At(std::string_view what, const YAML::Mark& mark, std::string_view problem) {
  return absl::InvalidArgumentError(fmt::format("{}:{}: {}", what, mark.line + 1, problem));
}

}  // namespace

absl::StatusOr<YAML::Node> LoadYaml(std::string_view what, const std::string& text) {
  try {
    std::istringstream stream(text);
    YAML::Parser parser(stream);
    RootFinder first, second;
    if (!parser.HandleNextDocument(first)) return YAML::Node();
    if (parser.HandleNextDocument(second)) {
      return At(what, second.root().value_or(YAML::Mark()), "is a second document; accepted: one");
    }
    return YAML::Load(text);
  } catch (const YAML::Exception& error) {
    return At(what, error.mark, error.msg);
  }
}

}  // namespace beamline

// `beamline load`, `beamline unload` and `beamline restart`, at a server's admin address.
#include <algorithm>
#include <cctype>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/command_line.h"
#include "base/command_tree.h"
#include "base/status_line.h"
#include "base/text.h"
#include "client/cli/cli.h"
#include "client/cli/format.h"
#include "client/cli/progress.h"
#include "fmt/format.h"
#include "fmt/ostream.h"

namespace beamline::cli {
namespace {

using google::protobuf::FieldDescriptor;

constexpr double kMostGraceSeconds = 86400;

struct LoadFlags {
  std::string name;
  std::string folder;
  std::vector<std::string> settings;  // "name=value"
  int32_t version = 0;                // 0: not given
};

// Flags of unload and restart.
struct LeaveFlags {
  std::string name;
  int32_t version = 0;
  int32_t replica = 0;        // restart only
  double grace_seconds = -1;  // below 0: the server's default
};

template <typename Request>
void SetLeave(const LeaveFlags& flags, Request& request) {
  request.set_name(flags.name);
  if (flags.version > 0) request.set_version(flags.version);
  if (flags.grace_seconds < 0) return;
  constexpr double kNanos = 1e9;
  const double seconds = std::floor(flags.grace_seconds);
  request.mutable_grace()->set_seconds(static_cast<int64_t>(seconds));
  request.mutable_grace()->set_nanos(
      static_cast<int32_t>((flags.grace_seconds - seconds) * kNanos));
}

// Parses the whole of `text` as a number in the type's range.
template <typename Number>
std::optional<Number> AnyNumber(const std::string& text) {
  using Limits = std::numeric_limits<Number>;
  return ParseNumber<Number>(text, Limits::lowest(), Limits::max());
}

// Sets the field from text; false if the text has the wrong type. The server checks the range.
bool SetField(const FieldDescriptor& field, const std::string& text, v1::ModelSettings& message) {
  const auto& reflection = *message.GetReflection();
  switch (field.cpp_type()) {
    case FieldDescriptor::CPPTYPE_INT32: {
      const auto number = AnyNumber<int32_t>(text);
      if (number.has_value()) reflection.SetInt32(&message, &field, *number);
      return number.has_value();
    }
    case FieldDescriptor::CPPTYPE_INT64: {
      const auto number = AnyNumber<int64_t>(text);
      if (number.has_value()) reflection.SetInt64(&message, &field, *number);
      return number.has_value();
    }
    case FieldDescriptor::CPPTYPE_BOOL:
      if (text != "true" && text != "false") return false;
      reflection.SetBool(&message, &field, text == "true");
      return true;
    case FieldDescriptor::CPPTYPE_ENUM: {
      if (text == "auto") return true;  // "auto" is the unset field
      std::string name = "DATA_TYPE_" + text;
      for (char& c : name) c = static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
      const auto* value = field.enum_type()->FindValueByName(name);
      if (value == nullptr) return false;
      reflection.SetEnum(&message, &field, value);
      return true;
    }
    default:
      if (!field.is_repeated()) {
        reflection.SetString(&message, &field, text);
        return true;
      }
      for (size_t begin = 0; begin <= text.size();) {
        const size_t end = std::min(text.find(',', begin), text.size());
        reflection.AddString(&message, &field, text.substr(begin, end - begin));
        begin = end + 1;
      }
      return true;
  }
}

absl::Status SetSetting(const std::string& setting, v1::ModelSettings& message) {
  const auto& type = *message.GetDescriptor();
  const size_t equals = setting.find('=');
  if (equals == std::string::npos) {
    return UsageError(fmt::format("--set is '{}'; accepted: NAME=VALUE", Shorten(setting)));
  }
  const std::string name = setting.substr(0, equals);
  const FieldDescriptor* field = type.FindFieldByName(name);
  if (field == nullptr) {
    std::vector<std::string> names;
    for (int i = 0; i < type.field_count(); ++i) names.push_back(type.field(i)->name());
    return UsageError(fmt::format("--set '{}': there is no setting '{}'{}", Shorten(setting),
                                  Shorten(name), DidYouMean(name, names)));
  }
  if (SetField(*field, setting.substr(equals + 1), message)) return absl::OkStatus();
  return UsageError(fmt::format("--set '{}': no value of {}", Shorten(setting), name));
}

absl::Status RunLoad(const Session& session, const LoadFlags& flags) {
  v1::LoadModelRequest request;
  request.set_name(flags.name);
  request.set_folder(flags.folder);
  if (flags.version > 0) request.set_version(flags.version);
  for (const std::string& setting : flags.settings) {
    const absl::Status status = SetSetting(setting, *request.mutable_settings());
    if (!status.ok()) return status;
  }
  const auto model = [&] {
    constexpr std::chrono::milliseconds kInterval{200};
    const StatusLine waiting(session.console.err, CanDraw(session.console.err_is_terminal),
                             kInterval, [&](double elapsed_s, size_t) {
                               return FormatWait("loading " + Shorten(flags.name, 40), elapsed_s);
                             });
    return session.client.LoadModel(request, session.options.call());
  }();
  if (!model.ok()) return model.status();
  session.output.Answer(
      *model, [&] { PrintModel(*model, session); }, [&] { PrintModelRow(*model, session.output); });
  return absl::OkStatus();
}

absl::Status RunUnload(const Session& session, const LeaveFlags& flags) {
  v1::UnloadModelRequest request;
  SetLeave(flags, request);
  const auto answer = session.client.UnloadModel(request, session.options.call());
  if (!answer.ok()) return answer.status();
  const v1::Model& model = answer->model();
  session.output.Answer(
      *answer,
      [&] {
        fmt::print(session.console.out, "{} version {} is unloaded\n", model.name(),
                   model.version());
      },
      [&] { PrintModelRow(model, session.output); });
  return absl::OkStatus();
}

absl::Status RunRestart(const Session& session, const LeaveFlags& flags) {
  v1::RestartReplicaRequest request;
  SetLeave(flags, request);
  request.set_replica(flags.replica);
  const auto model = session.client.RestartReplica(request, session.options.call());
  if (!model.ok()) return model.status();
  session.output.Answer(
      *model,
      [&] {
        fmt::print(session.console.out, "replica {} of {} version {} is restarted\n", flags.replica,
                   model->name(), model->version());
      },
      [&] { PrintModelRow(*model, session.output); });
  return absl::OkStatus();
}

}  // namespace

void AddAdminCommands(CLI::App& app, Command& chosen) {
  constexpr int32_t kMostVersions = 1 << 30;
  constexpr int32_t kMostReplica = 63;
  auto load = std::make_shared<LoadFlags>();
  CLI::App* command = app.add_subcommand(
      "load", "loads a model of the server's model folder; --address: its admin address");
  command->add_option("name", load->name, "as requests are to name it")->required();
  command->add_option("--folder", load->folder, "below the server's model_root [the name]")
      ->type_name("PATH");
  AddNumber(*command, "--model-version", load->version, "of the model [1]", 1, kMostVersions);
  AddRepeatable(*command, "--set", load->settings,
                "a setting of the model, may be repeated: max_sequences=64")
      ->type_name("NAME=VALUE");
  command->footer(
      "Loading may take longer than a call: --timeout 0 waits for its end.\n\n"
      "Examples:\n"
      "  beamline --address 127.0.0.1:50053 load second --folder write-en --set "
      "max_sequences=64\n");
  command->callback([&chosen, load] {
    chosen = [load](const Session& session) { return RunLoad(session, *load); };
  });

  auto unload = std::make_shared<LeaveFlags>();
  command = app.add_subcommand(
      "unload", "unloads a model when its requests are answered; --address: the admin address");
  command->add_option("name", unload->name, "a model")
      ->required()
      ->type_name(std::string(kModelValue));
  AddNumber(*command, "--model-version", unload->version, "of the model [the only one]", 1,
            kMostVersions);
  AddNumber(*command, "--grace", unload->grace_seconds,
            "how long its requests may take [the server's drain_timeout_ms]", 0.0,
            kMostGraceSeconds)
      ->type_name("SECONDS");
  command->footer(
      "Examples:\n"
      "  beamline --address 127.0.0.1:50053 unload second --grace 5\n");
  command->callback([&chosen, unload] {
    chosen = [unload](const Session& session) { return RunUnload(session, *unload); };
  });

  auto restart = std::make_shared<LeaveFlags>();
  command = app.add_subcommand(
      "restart",
      "restarts a replica of a model while the others answer; --address: the admin "
      "address");
  command->add_option("name", restart->name, "a model")
      ->required()
      ->type_name(std::string(kModelValue));
  AddNumber(*command, "--model-version", restart->version, "of the model [the only one]", 1,
            kMostVersions);
  AddNumber(*command, "--replica", restart->replica, "its number, from 0 [0]", 0, kMostReplica);
  AddNumber(*command, "--grace", restart->grace_seconds,
            "how long its requests may take [the server's drain_timeout_ms]", 0.0,
            kMostGraceSeconds)
      ->type_name("SECONDS");
  command->footer(
      "Examples:\n"
      "  beamline --address 127.0.0.1:50053 restart write-en --replica 1\n");
  command->callback([&chosen, restart] {
    chosen = [restart](const Session& session) { return RunRestart(session, *restart); };
  });
}

}  // namespace beamline::cli

#include "server/http/openai_handler.h"

#include <set>
#include <utility>

#include "base/build_info.h"
#include "base/text.h"
#include "fmt/format.h"
#include "fmt/ranges.h"
#include "nlohmann/json.hpp"
#include "server/http/completion_call.h"
#include "server/http/embedding_call.h"
#include "server/http/http_call.h"
#include "server/http/http_text.h"
#include "server/http/openai_errors.h"
#include "server/wire/errors.h"

namespace beamline {
namespace {

using nlohmann::ordered_json;

constexpr std::string_view kModelPath = "/v1/models/";

// A web page may send other content types to any address without a CORS preflight.
std::optional<HttpAnswer> CheckType(const HttpRequest& request) {
  const std::string_view type(request.content_type);
  std::string_view essence = type.substr(0, type.find(';'));
  while (essence.ends_with(' ') || essence.ends_with('\t')) essence.remove_suffix(1);
  if (!type.empty() && !IsSameWord(essence, "application/json")) {
    return ErrorAnswer(
        415, fmt::format("Content-Type is '{}'; accepted: application/json", Shorten(type)));
  }
  const std::string& coding = request.content_encoding;
  if (!coding.empty() && !IsSameWord(coding, "identity")) {
    return ErrorAnswer(
        415, fmt::format("Content-Encoding is '{}'; accepted: identity", Shorten(coding)));
  }
  return std::nullopt;
}

}  // namespace

enum class OpenAiHandler::Endpoint : uint8_t {
  kCompletions,
  kChat,
  kEmbeddings,
  kModels,
  kModel,
  kHealth,
  kMetrics,
  kVersion
};

struct OpenAiHandler::Route {
  std::string_view path;  // with a slash at the end: a prefix of paths
  std::string_view method;
  Endpoint endpoint;
  std::optional<Right> right;  // none: no authentication
  Rpc rpc = Rpc::kGenerate;    // for records and metrics, if there is a right
};

const OpenAiHandler::Route OpenAiHandler::kRoutes[] = {
    {"/v1/completions", "POST", Endpoint::kCompletions, Right::kInference, Rpc::kGenerate},
    {"/v1/chat/completions", "POST", Endpoint::kChat, Right::kInference, Rpc::kGenerate},
    {"/v1/embeddings", "POST", Endpoint::kEmbeddings, Right::kInference, Rpc::kEncode},
    {"/v1/models", "GET", Endpoint::kModels, Right::kAny, Rpc::kListModels},
    {kModelPath, "GET", Endpoint::kModel, Right::kAny, Rpc::kGetModel},
    {"/metrics", "GET", Endpoint::kMetrics, Right::kAny, Rpc::kListModels},
    {"/version", "GET", Endpoint::kVersion, Right::kAny, Rpc::kListModels},
    {"/health", "GET", Endpoint::kHealth, std::nullopt},
    {"/v1/health", "GET", Endpoint::kHealth, std::nullopt}};

OpenAiHandler::OpenAiHandler(ServiceContext& services, std::function<bool()> is_serving,
                             OperatorPages pages)
    : services_(services),
      is_serving_(std::move(is_serving)),
      pages_(std::move(pages)),
      started_(NowInSeconds()) {}

bool OpenAiHandler::IsOn(const Route& route) const {
  if (route.endpoint == Endpoint::kMetrics) return pages_.scrape != nullptr;
  return route.endpoint != Endpoint::kVersion || pages_.version;
}

const OpenAiHandler::Route* OpenAiHandler::FindRoute(std::string_view path) const {
  for (const Route& route : kRoutes) {
    if (!IsOn(route)) continue;
    const bool is_beginning = route.path.ends_with('/');
    if (is_beginning ? path.size() > route.path.size() && path.starts_with(route.path)
                     : path == route.path) {
      return &route;
    }
  }
  return nullptr;
}

std::string OpenAiHandler::Paths() const {
  std::set<std::string> paths;
  for (const Route& route : kRoutes) {
    if (!IsOn(route)) continue;
    paths.insert(fmt::format("{} {}{}", route.method, route.path,
                             route.path.ends_with('/') ? "{model}" : ""));
  }
  return fmt::format("{}", fmt::join(paths, ", "));
}

std::optional<HttpAnswer> OpenAiHandler::CheckHead(HttpRequest& request) {
  const Route* route = FindRoute(request.path);
  if (route == nullptr) {
    return ErrorAnswer(404,
                       fmt::format("there is no '{}'; paths: {}", Shorten(request.path), Paths()),
                       "unknown_url");
  }
  const bool is_head = request.method == "HEAD" && route->method == "GET";
  if (request.method != route->method && !is_head) {
    HttpAnswer answer =
        ErrorAnswer(405,
                    fmt::format("the method of {} is '{}'; accepted: {}", route->path,
                                Shorten(request.method), route->method),
                    "method_not_allowed");
    answer.headers.emplace_back("Allow", route->method == "GET" ? "GET, HEAD" : "POST");
    return answer;
  }
  if (route->right.has_value()) {
    Shown shown;
    shown.authorization = request.authorization;
    shown.place = "header";
    shown.subject = request.subject;
    auto identity = Enter(services_, shown, *route->right);
    if (!identity.ok()) {
      Caller caller = MakeCaller(std::nullopt, "", request.client_id, request.host);
      caller.peer = request.host;
      LogRefusal(services_, route->rpc, caller, identity.status());
      return ErrorAnswer(ToRpcStatus(identity.status()));
    }
    request.identity = *std::move(identity);
  }
  return route->method == "POST" ? CheckType(request) : std::nullopt;
}

void OpenAiHandler::Handle(const std::shared_ptr<Exchange>& exchange) {
  switch (FindRoute(exchange->request().path)->endpoint) {
    case Endpoint::kCompletions:
      return std::make_shared<CompletionCall>(services_, exchange, /*is_chat=*/false)->Start();
    case Endpoint::kEmbeddings:
      return std::make_shared<EmbeddingCall>(services_, exchange)->Start();
    case Endpoint::kChat:
      return std::make_shared<CompletionCall>(services_, exchange, /*is_chat=*/true)->Start();
    case Endpoint::kModels:
      return ListModels(*exchange);
    case Endpoint::kModel:
      return GetModel(
          *exchange,
          Unescape(std::string_view(exchange->request().path).substr(kModelPath.size())));
    case Endpoint::kHealth:
      return TellHealth(*exchange);
    case Endpoint::kMetrics:
      return pages_.scrape(exchange);
    case Endpoint::kVersion: {
      const ordered_json version = {{"version", ThisBuild().version}};
      return exchange->Answer({.body = version.dump()}, nullptr);
    }
  }
}

HttpAnswer OpenAiHandler::Fault(int status, const std::string& message) {
  return ErrorAnswer(status, message);
}

std::string OpenAiHandler::ModelJson(const ModelInfo& model) const {
  ordered_json json = {
      {"id", model.name}, {"object", "model"}, {"created", started_}, {"owned_by", "beamline"}};
  // Other servers of this API use this name.
  json["max_model_len"] =
      model.max_total_tokens > 0 ? model.max_total_tokens : model.max_input_tokens;
  return json.dump(-1, ' ', false, ordered_json::error_handler_t::replace);
}

std::shared_ptr<CallState> OpenAiHandler::StateOf(Exchange& exchange, Rpc rpc) const {
  auto state = std::make_shared<CallState>(services_, rpc);
  state->SetRequestId(exchange.request().request_id);
  if (const auto caller = CallerOf(exchange.request()); caller.ok()) state->SetCaller(*caller);
  return state;
}

void OpenAiHandler::ListModels(Exchange& exchange) {
  std::string list;
  std::set<std::string> named;
  for (const auto& model : services_.models.models()) {
    if (model->state != ModelState::kReady || !named.insert(model->name).second) continue;
    list += (list.empty() ? "" : ",") + ModelJson(*services_.models.Find(model->name));
  }
  const auto state = StateOf(exchange, Rpc::kListModels);
  AnswerAtOnce(exchange, state, {.body = R"({"object":"list","data":[)" + list + "]}"});
}

void OpenAiHandler::GetModel(Exchange& exchange, std::string_view name) {
  const auto state = StateOf(exchange, Rpc::kGetModel);
  const auto model = services_.models.Find(name);
  if (model == nullptr || model->state != ModelState::kReady) {
    return FailAtOnce(exchange, state,
                      absl::NotFoundError(fmt::format("there is no model '{}'; models: {}{}",
                                                      Shorten(name), services_.models.Names(),
                                                      services_.models.Suggestion(name))));
  }
  state->SetModel(model->name);
  AnswerAtOnce(exchange, state, {.body = ModelJson(*model)});
}

void OpenAiHandler::TellHealth(Exchange& exchange) {
  const bool is_serving = is_serving_();
  HttpAnswer answer;
  answer.status = is_serving ? 200 : 503;
  answer.body = is_serving ? R"({"status":"SERVING"})" : R"({"status":"NOT_SERVING"})";
  if (!is_serving) answer.headers.emplace_back("Retry-After", "1");
  exchange.Answer(std::move(answer), nullptr);
}

}  // namespace beamline

// OpenAI's API: routes paths to calls, and checks permissions.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "server/calls/call_state.h"
#include "server/http/exchange.h"

namespace beamline {

// Additional paths, from the setting http_paths.
struct OperatorPages {
  bool version = false;
  // Answers a scrape; any thread. Null: no /metrics.
  std::function<void(const std::shared_ptr<Exchange>&)> scrape;
};

class OpenAiHandler final : public HttpHandler {
 public:
  // `is_serving`: the result of /health; any thread. `services` outlives the handler.
  OpenAiHandler(ServiceContext& services, std::function<bool()> is_serving, OperatorPages pages);

  std::optional<HttpAnswer> CheckHead(HttpRequest& request) override;
  void Handle(const std::shared_ptr<Exchange>& exchange) override;
  HttpAnswer Fault(int status, const std::string& message) override;

 private:
  enum class Endpoint : uint8_t;
  struct Route;

  static const Route kRoutes[];
  bool IsOn(const Route& route) const;
  // Null if there is no such path.
  const Route* FindRoute(std::string_view path) const;
  // All paths, for errors.
  std::string Paths() const;
  std::shared_ptr<CallState> StateOf(Exchange& exchange, Rpc rpc) const;
  void ListModels(Exchange& exchange);
  void GetModel(Exchange& exchange, std::string_view name);
  void TellHealth(Exchange& exchange);
  std::string ModelJson(const ModelInfo& model) const;

  ServiceContext& services_;
  const std::function<bool()> is_serving_;
  const OperatorPages pages_;
  const int64_t started_;  // seconds since 1970
};

}  // namespace beamline

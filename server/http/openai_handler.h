// OpenAI's API: which path is which call, and who may make it.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "server/calls/call_state.h"
#include "server/http/exchange.h"

namespace beamline {

class OpenAiHandler final : public HttpHandler {
 public:
  // `is_serving` says what /health answers; any thread. `services` outlives the handler.
  OpenAiHandler(ServiceContext& services, std::function<bool()> is_serving);

  std::optional<HttpAnswer> CheckHead(HttpRequest& request) override;
  void Handle(const std::shared_ptr<Exchange>& exchange) override;
  HttpAnswer Fault(int status, const std::string& message) override;

 private:
  std::shared_ptr<CallState> StateOf(Exchange& exchange, Rpc rpc) const;
  void ListModels(Exchange& exchange);
  void GetModel(Exchange& exchange, std::string_view name);
  void TellHealth(Exchange& exchange);
  std::string ModelJson(const ModelInfo& model) const;

  ServiceContext& services_;
  const std::function<bool()> is_serving_;
  const int64_t started_;  // seconds since 1970
};

}  // namespace beamline

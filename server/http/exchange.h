// An HTTP request and its answer, without sockets: the interface for protocols over HTTP.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace beamline {

struct HttpRequest {
  std::string method;      // "POST"
  std::string path;        // of the target, without the query; not unescaped
  std::string body;        // complete
  std::string request_id;  // x-request-id, or a generated one; returned with the answer
  std::optional<std::string> authorization;
  std::optional<std::string> client_id;   // x-client-id
  std::optional<std::string> timeout_ms;  // x-request-timeout-ms
  std::string content_type;
  std::string content_encoding;
  std::optional<std::string> traceparent;
  std::string host;      // the peer's address without the port, as gRPC writes it: "ipv4:10.0.0.7"
  std::string subject;   // the verified client certificate's subject name
  std::string identity;  // the authenticated identity; set by HttpHandler::CheckHead
};

struct HttpAnswer {
  int status = 200;
  std::string body;
  std::string content_type = "application/json";
  std::vector<std::pair<std::string, std::string>> headers;
};

// A request that is being answered. Any thread. It is answered once: by Answer, or by calls of
// Write up to one with is_last.
class Exchange {
 public:
  // Called when the bytes are written to the socket (true) or the client has gone (false). The
  // thread must not compute.
  using Sent = std::function<void(bool sent)>;

  virtual ~Exchange() = default;

  virtual const HttpRequest& request() const = 0;
  virtual void Answer(HttpAnswer answer, Sent sent) = 0;
  // Writes a piece of a stream of events, with status 200. Call it only after the previous piece's
  // `sent`.
  virtual void Write(std::string piece, bool is_last, Sent sent) = 0;
  // `gone` is called once if the client closes its connection before the answer is sent, or at once
  // if it has closed already. The answer is still owed. Call OnGone before the handler's Handle
  // returns.
  virtual void OnGone(std::function<void()> gone) = 0;
};

// Answers requests. Thread safe; called on threads that must not compute.
class HttpHandler {
 public:
  virtual ~HttpHandler() = default;

  // Checks the head before the body is read. An answer ends the request.
  virtual std::optional<HttpAnswer> CheckHead(HttpRequest& request) = 0;
  // Takes the complete request. The handler must answer it.
  virtual void Handle(const std::shared_ptr<Exchange>& exchange) = 0;
  // The answer to a request that cannot be read. `status`: 400 or another client error, or 503.
  virtual HttpAnswer Fault(int status, const std::string& message) = 0;
};

}  // namespace beamline

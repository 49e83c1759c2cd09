// A request of HTTP and the way back for its answer, without sockets: what protocols over HTTP see.
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
  std::string path;        // of the target, without the query; as the client wrote it
  std::string body;        // whole
  std::string request_id;  // x-request-id, or one that was made up; comes back in the answer
  std::optional<std::string> authorization;
  std::optional<std::string> client_id;   // x-client-id
  std::optional<std::string> timeout_ms;  // x-request-timeout-ms
  std::string content_type;
  std::string content_encoding;
  std::optional<std::string> traceparent;
  std::string host;      // the peer's: "ipv4:10.0.0.7", as gRPC writes it, without the port
  std::string subject;   // the name in the client's certificate, which TLS has checked
  std::string identity;  // who the gate says calls; set by HttpHandler::CheckHead
};

struct HttpAnswer {
  int status = 200;
  std::string body;
  std::string content_type = "application/json";
  std::vector<std::pair<std::string, std::string>> headers;
};

// One request that is being answered. Any thread. It is answered once: by Answer, or by calls of
// Write of which the last says so.
class Exchange {
 public:
  // Told when it is with the system (true) or the client has gone (false), on a thread that must
  // not compute.
  using Sent = std::function<void(bool sent)>;

  virtual ~Exchange() = default;

  virtual const HttpRequest& request() const = 0;
  virtual void Answer(HttpAnswer answer, Sent sent) = 0;
  // A piece of an answer with status 200 that is a stream of events. No other piece is on its way:
  // the one before has been told to be sent.
  virtual void Write(std::string piece, bool is_last, Sent sent) = 0;
  // `gone` is called once, when the client has closed its connection before the answer was sent;
  // at once where it has done so already. The answer is still owed. To be called before the
  // handler's Handle returns.
  virtual void OnGone(std::function<void()> gone) = 0;
};

// Who answers. Thread safe; called on threads that must not compute.
class HttpHandler {
 public:
  virtual ~HttpHandler() = default;

  // By its head, before the body is read: an answer ends the request.
  virtual std::optional<HttpAnswer> CheckHead(HttpRequest& request) = 0;
  // The whole request; owes an answer.
  virtual void Handle(const std::shared_ptr<Exchange>& exchange) = 0;
  // What a request is answered with that cannot be read: status is 400 or another of the client's
  // errors, or 503.
  virtual HttpAnswer Fault(int status, const std::string& message) = 0;
};

}  // namespace beamline

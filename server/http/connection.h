// An HTTP/1.1 connection: reads requests one after the other, passes each to the handler and writes
// its answer. All but the functions of Exchange run on its strand.
#pragma once

#include <array>
#include <atomic>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/ssl/context.hpp>
#include <boost/asio/ssl/stream.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/beast/http/parser.hpp>
#include <boost/beast/http/string_body.hpp>
#include <chrono>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "server/guard/tls_watch.h"
#include "server/http/body_budget.h"
#include "server/http/exchange.h"
#include "server/http/http_options.h"
#include "server/telemetry/metrics/http_stats.h"

namespace beamline {

// State shared by a listener's connections. Outlives them.
struct HttpShared {
  const HttpOptions options;
  HttpHandler& handler;
  HttpStats& stats;
  std::atomic<bool> draining{false};            // every answer closes its connection
  BodyBudget bodies{options.max_bodies_bytes};  // of requests without an answer
};

class HttpConnection final : public Exchange, public std::enable_shared_from_this<HttpConnection> {
 public:
  using TlsContext = std::shared_ptr<boost::asio::ssl::context>;

  // Owns `fd`. `tls`: null for plain text. `on_end` is called when the connection is destroyed.
  HttpConnection(boost::asio::io_context& io, int fd, TlsContext tls, HttpShared& shared,
                 std::function<void()> on_end);
  ~HttpConnection() override;

  // Any thread:
  void Start();
  // Ends the connection. If it waits for a request, or with `at_once`, it is closed now; else after
  // the current answer.
  void End(bool at_once);
  // True if it can be closed without losing an answer: no request is being answered.
  bool is_idle() const { return idle_; }

  const HttpRequest& request() const override { return request_; }
  void Answer(HttpAnswer answer, Sent sent) override;
  void Write(std::string piece, bool is_last, Sent sent) override;
  void OnGone(std::function<void()> gone) override;

 private:
  using Error = boost::system::error_code;
  using Parser = boost::beast::http::request_parser<boost::beast::http::string_body>;
  enum class State : uint8_t { kHandshake, kHead, kBody, kBusy, kLinger, kClosed };
  struct Outgoing {
    std::string bytes;
    Sent sent;
    bool is_last = false;  // ends the answer
  };
  // Calls `tell` when the connection is destroyed. Declared first, so that it is destroyed last.
  struct EndTeller {
    std::function<void()> tell;
    ~EndTeller() { tell(); }
  };

  void FindPeer(int fd);
  void OnHandshake(Error error);
  void Read();
  void OnRead(Error error, size_t num_bytes);
  void OnReadEnd();
  void Parse();
  // Parses received bytes. True if more can be parsed.
  bool ParseSome();
  bool ChargeBody();
  void UnchargeBody();
  // Call when the head is complete. False: the request has been refused.
  bool TakeHead();
  std::optional<HttpAnswer> CheckSyntax();
  void TakeRequest();
  void RefuseParsing(Error error);
  // Answers a request without reading the rest of it, and closes the connection.
  void Refuse(HttpAnswer answer);

  void SendAnswer(HttpAnswer answer, Sent sent);
  void SendPiece(std::string piece, bool is_last, Sent sent);
  std::string Head(int status, std::string_view content_type);
  void Queue(Outgoing outgoing);
  std::chrono::milliseconds TimeToWrite(size_t num_bytes) const;
  void WriteNext();
  void OnWritten(Error error, size_t num_bytes);
  void FailQueue();
  // Call when the answer is written.
  void Finish();
  void Linger();
  void TellGone();
  void Close();
  void Arm(std::chrono::milliseconds time);
  void Disarm();
  void OnTime();

  EndTeller end_teller_;
  std::unique_ptr<TlsHandshake> handshake_;  // of TLS, until it is finished
  HttpShared& shared_;
  boost::asio::ip::tcp::socket socket_;
  TlsContext tls_context_;
  std::optional<boost::asio::ssl::stream<boost::asio::ip::tcp::socket&>> tls_;
  boost::asio::steady_timer timer_;
  uint64_t timer_number_ = 0;  // of the armed timer; others are ignored
  const std::chrono::steady_clock::time_point opened_ = std::chrono::steady_clock::now();
  std::string host_;
  std::string subject_;

  State state_ = State::kHandshake;
  std::atomic<bool> idle_{true};
  std::array<char, 8192> incoming_;  // buffer of the read in flight
  std::string unparsed_;
  bool reading_ = false;
  bool peer_ended_ = false;       // the client has closed its sending side
  std::optional<Parser> parser_;  // of the request being read
  size_t charged_bytes_ = 0;
  std::string charged_client_;  // the client charged for bodies

  HttpRequest request_;  // the request being answered
  bool is_http_1_0_ = false;
  bool keep_alive_ = true;
  bool is_head_method_ = false;
  bool has_begun_answer_ = false;
  std::function<void()> gone_;
  std::deque<Outgoing> queue_;
  size_t written_ = 0;  // bytes written of the queue's first
  // Deadline for the queue's first to be written to the socket.
  std::chrono::steady_clock::time_point write_end_;
  bool writing_ = false;
  bool ending_ = false;
  size_t lingered_bytes_ = 0;
};

}  // namespace beamline

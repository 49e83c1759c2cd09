// A connection of HTTP/1.1: reads requests one after the other, gives each to the handler and
// writes its answer. All but the Exchange's functions run on its strand.
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

#include "server/accept/handshakes.h"
#include "server/http/body_budget.h"
#include "server/http/exchange.h"
#include "server/http/http_options.h"
#include "server/metrics/http_stats.h"

namespace beamline {

// What the connections of a listener share; outlives them.
struct HttpShared {
  const HttpOptions options;
  HttpHandler& handler;
  HttpStats& stats;
  std::atomic<bool> draining{false};            // every answer ends its connection
  BodyBudget bodies{options.max_bodies_bytes};  // of requests that are not answered yet
};

class HttpConnection final : public Exchange, public std::enable_shared_from_this<HttpConnection> {
 public:
  using TlsContext = std::shared_ptr<boost::asio::ssl::context>;

  // Owns `fd`. `tls` null: plain text, else its handshake begins where it was handed over.
  // `on_end` is called when nothing of it is left.
  HttpConnection(boost::asio::io_context& io, int fd, TlsContext tls, HttpShared& shared,
                 std::function<void()> on_end);
  ~HttpConnection() override;

  // Any thread:
  void Start();
  // Ends it: at once when it waits for a request, else with the answer that is under way, or
  // without it.
  void End(bool at_once);
  // Whether nothing is lost but time when it ends now: no request is being answered.
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
    bool is_last = false;  // of the answer
  };
  // Says that nothing of the connection is left: a member that goes last.
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
  // Parses what there is; true when more can be.
  bool ParseSome();
  bool ChargeBody();
  void UnchargeBody();
  // The head is whole. False: the request has been refused.
  bool TakeHead();
  std::optional<HttpAnswer> CheckSyntax();
  void TakeRequest();
  void RefuseParsing(Error error);
  // Answers a request that is not read to its end, and ends the connection.
  void Refuse(HttpAnswer answer);

  void SendAnswer(HttpAnswer answer, Sent sent);
  void SendPiece(std::string piece, bool is_last, Sent sent);
  std::string Head(int status, std::string_view content_type);
  void Queue(Outgoing outgoing);
  std::chrono::milliseconds TimeToWrite(size_t num_bytes) const;
  void WriteNext();
  void OnWritten(Error error, size_t num_bytes);
  void FailQueue();
  // The answer is written.
  void Finish();
  void Linger();
  void TellGone();
  void Close();
  void Arm(std::chrono::milliseconds time);
  void Disarm();
  void OnTime();

  EndTeller end_teller_;
  std::unique_ptr<Handshakes::Handshake> handshake_;  // of TLS, until it is finished
  HttpShared& shared_;
  boost::asio::ip::tcp::socket socket_;
  TlsContext tls_context_;
  std::optional<boost::asio::ssl::stream<boost::asio::ip::tcp::socket&>> tls_;
  boost::asio::steady_timer timer_;
  uint64_t timer_number_ = 0;  // of the timer that counts
  const std::chrono::steady_clock::time_point opened_ = std::chrono::steady_clock::now();
  std::string host_;
  std::string subject_;

  State state_ = State::kHandshake;
  std::atomic<bool> idle_{true};
  std::array<char, 8192> incoming_;  // of the read under way
  std::string unparsed_;
  bool reading_ = false;
  bool peer_ended_ = false;       // the client sends nothing any more
  std::optional<Parser> parser_;  // of the request that comes
  size_t charged_bytes_ = 0;
  std::string charged_client_;  // for whose bodies

  HttpRequest request_;  // the one that is answered
  bool is_http_1_0_ = false;
  bool keep_alive_ = true;
  bool is_head_method_ = false;
  bool has_begun_answer_ = false;
  std::function<void()> gone_;
  std::deque<Outgoing> queue_;
  size_t written_ = 0;                               // of the first of the queue
  std::chrono::steady_clock::time_point write_end_;  // by when that must be with the system
  bool writing_ = false;
  bool ending_ = false;
  size_t lingered_bytes_ = 0;
};

}  // namespace beamline

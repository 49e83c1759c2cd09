// Long because one connection's states meet here: reading, writing, timing and ending.
#include "server/http/connection.h"

#include <algorithm>
#include <array>
#include <boost/asio/buffer.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/strand.hpp>
#include <boost/beast/http/error.hpp>
#include <boost/beast/http/field.hpp>
#include <ctime>
#include <utility>

#include "base/text.h"
#include "fmt/chrono.h"
#include "fmt/format.h"
#include "server/http/http_text.h"
#include "server/net/peer_address.h"
#include "server/security/tls_peer.h"
#include "server/telemetry/trace_context.h"

namespace beamline {
namespace {

namespace asio = boost::asio;
namespace http = boost::beast::http;

// Limit of bytes that a client sends ahead of the current answer.
constexpr size_t kMostPipelinedBytes = 64 << 10;
constexpr size_t kWriteBytes = 256 << 10;  // a slow client must read some of this within write_time
// Limit of bytes that a client may still send before it sees that its request is refused.
constexpr size_t kMostLingeringBytes = 1 << 20;
constexpr std::chrono::milliseconds kLingerTime{1000};

// Headers that identify the caller or the content. Each may occur only once.
constexpr std::array<std::string_view, 8> kSingleHeaders = {
    "host",         "authorization",    "x-client-id", "x-request-timeout-ms",
    "content-type", "content-encoding", "expect",      "transfer-encoding"};

std::string_view View(boost::beast::string_view text) { return {text.data(), text.size()}; }

template <typename Parser>
std::string Field(const Parser& parser, std::string_view name) {
  return std::string(View(parser.get()[boost::beast::string_view(name.data(), name.size())]));
}

template <typename Parser>
std::optional<std::string> FindField(const Parser& parser, std::string_view name) {
  const auto& fields = parser.get();
  const auto found = fields.find(boost::beast::string_view(name.data(), name.size()));
  if (found == fields.end()) return std::nullopt;
  return std::string(View(found->value()));
}

}  // namespace

HttpConnection::HttpConnection(asio::io_context& io, int fd, TlsContext tls, HttpShared& shared,
                               std::function<void()> on_end)
    : end_teller_{std::move(on_end)},
      shared_(shared),
      socket_(asio::make_strand(io)),
      tls_context_(std::move(tls)),
      timer_(socket_.get_executor()) {
  FindPeer(fd);
  if (tls_context_ == nullptr) return;
  handshake_ = TlsHandOver::Claim().handshake;
  tls_.emplace(socket_, *tls_context_);
}

HttpConnection::~HttpConnection() { UnchargeBody(); }

void HttpConnection::FindPeer(int fd) {
  sockaddr_storage address{};
  socklen_t size = sizeof(address);
  const bool known = getpeername(fd, reinterpret_cast<sockaddr*>(&address), &size) == 0;
  const bool is_v6 = known && address.ss_family == AF_INET6;
  if (known) host_ = HostText(AddressText(address), is_v6);
  Error error;
  socket_.assign(is_v6 ? asio::ip::tcp::v6() : asio::ip::tcp::v4(), fd, error);
}

void HttpConnection::Start() {
  asio::post(socket_.get_executor(), [self = shared_from_this()] {
    self->Arm(self->shared_.options.head_time);
    if (!self->tls_.has_value()) return self->OnHandshake({});
    self->tls_->async_handshake(asio::ssl::stream_base::server,
                                [self](Error error) { self->OnHandshake(error); });
  });
}

void HttpConnection::OnHandshake(Error error) {
  if (state_ != State::kHandshake) return;
  if (handshake_ != nullptr && !error) handshake_->SetFinished();
  handshake_ = nullptr;
  if (error) return Close();
  if (tls_.has_value()) subject_ = PeerSubjectName(tls_->native_handle());
  state_ = State::kHead;
  Read();
}

void HttpConnection::End(bool at_once) {
  asio::post(socket_.get_executor(), [self = shared_from_this(), at_once] {
    self->ending_ = true;
    const bool waits =
        self->state_ == State::kHandshake || (self->state_ == State::kHead && self->queue_.empty());
    if (at_once || waits) self->Close();
  });
}

// --- Reading

void HttpConnection::Read() {
  if (reading_ || peer_ended_ || state_ == State::kClosed) return;
  if (state_ == State::kBusy && unparsed_.size() >= kMostPipelinedBytes) return;
  reading_ = true;
  const auto on_read = [self = shared_from_this()](Error error, size_t num_bytes) {
    self->OnRead(error, num_bytes);
  };
  if (tls_.has_value()) {
    tls_->async_read_some(asio::buffer(incoming_), on_read);
  } else {
    socket_.async_read_some(asio::buffer(incoming_), on_read);
  }
}

void HttpConnection::OnRead(Error error, size_t num_bytes) {
  reading_ = false;
  if (state_ == State::kClosed) return;
  if (error) return OnReadEnd();
  if (state_ == State::kLinger) {
    lingered_bytes_ += num_bytes;
    return lingered_bytes_ > kMostLingeringBytes ? Close() : Read();
  }
  unparsed_.append(incoming_.data(), num_bytes);
  if (state_ == State::kBusy) return Read();
  Parse();
}

void HttpConnection::OnReadEnd() {
  peer_ended_ = true;
  // A closed connection and a closed sending side look alike. Requests are cancelled; an answer
  // that is complete already is still written.
  if (state_ == State::kBusy) return TellGone();
  Close();
}

void HttpConnection::Parse() {
  while (ParseSome()) {
  }
  if (state_ == State::kHead || state_ == State::kBody) Read();
}

bool HttpConnection::ParseSome() {
  if (state_ != State::kHead && state_ != State::kBody) return false;
  if (!parser_.has_value()) {
    // RFC 9112, 2.2: empty lines before a request line are ignored.
    unparsed_.erase(0, unparsed_.find_first_not_of("\r\n"));
    if (unparsed_.empty()) return false;
    parser_.emplace();
    parser_->header_limit(static_cast<uint32_t>(shared_.options.max_head_bytes));
    parser_->body_limit(shared_.options.max_body_bytes);
    Arm(shared_.options.head_time);
  }
  if (unparsed_.empty()) return false;
  Error error;
  const size_t used = parser_->put(asio::buffer(unparsed_), error);
  unparsed_.erase(0, used);
  if (error && error != http::error::need_more) {
    RefuseParsing(error);
    return false;
  }
  if (!ChargeBody()) return false;
  if (state_ == State::kHead && parser_->is_header_done()) {
    if (!TakeHead()) return false;
    state_ = State::kBody;
  }
  if (parser_->is_done()) {
    TakeRequest();
    return false;
  }
  // The line of a chunk's size, or the trailer after the last chunk.
  if (state_ == State::kBody && unparsed_.size() > shared_.options.max_head_bytes) {
    Refuse(shared_.handler.Fault(400, "a line between the body's chunks is too long"));
    return false;
  }
  return used > 0 && !unparsed_.empty();
}

bool HttpConnection::ChargeBody() {
  const size_t size = parser_->get().body().size();
  if (size <= charged_bytes_) return true;
  const BodyBudget::Refusal refusal =
      shared_.bodies.Take(charged_client_, charged_bytes_, size - charged_bytes_);
  if (refusal == BodyBudget::Refusal::kNone) {
    charged_bytes_ = size;
    return true;
  }
  const size_t most = shared_.bodies.limit();
  // Frees the bytes before the client gets the error, so that its next request finds room.
  parser_->get().body().clear();
  parser_->get().body().shrink_to_fit();
  UnchargeBody();
  HttpAnswer answer = shared_.handler.Fault(
      503,
      refusal == BodyBudget::Refusal::kAll
          ? fmt::format("the requests that this server is reading have {} bytes, the most", most)
          : fmt::format("the client's requests that this server is reading have {} bytes, the "
                        "most of one client",
                        most / 2));
  answer.headers.emplace_back("Retry-After", "1");
  Refuse(std::move(answer));
  return false;
}

void HttpConnection::UnchargeBody() {
  shared_.bodies.Give(charged_client_, charged_bytes_);
  charged_bytes_ = 0;
}

bool HttpConnection::TakeHead() {
  const auto& head = parser_->get();
  request_ = HttpRequest();
  request_.method = std::string(View(head.method_string()));
  request_.path = PathOf(View(head.target()));
  request_.request_id = UsableRequestId(Field(*parser_, "x-request-id"));
  request_.authorization = FindField(*parser_, "authorization");
  request_.client_id = FindField(*parser_, "x-client-id");
  request_.traceparent = FindField(*parser_, kTraceParentKey);
  request_.timeout_ms = FindField(*parser_, "x-request-timeout-ms");
  request_.content_type = Field(*parser_, "content-type");
  request_.content_encoding = Field(*parser_, "content-encoding");
  request_.host = host_;
  request_.subject = subject_;
  is_http_1_0_ = head.version() < 11;
  is_head_method_ = head.method() == http::verb::head;
  keep_alive_ = parser_->keep_alive();
  std::optional<HttpAnswer> refusal = CheckSyntax();
  if (refusal.has_value()) keep_alive_ = false;
  if (!refusal.has_value()) refusal = shared_.handler.CheckHead(request_);
  if (refusal.has_value()) {
    // The rest of the connection is the body of a request that is not read.
    keep_alive_ = keep_alive_ && parser_->is_done();
    state_ = State::kBusy;
    parser_.reset();
    Disarm();
    SendAnswer(*std::move(refusal), nullptr);
    Read();
    return false;
  }
  if (parser_->is_done()) return true;
  charged_client_ = request_.identity.empty() ? host_ : request_.identity;
  if (!is_http_1_0_ && FindField(*parser_, "expect").has_value()) {
    Queue({.bytes = "HTTP/1.1 100 Continue\r\n\r\n", .sent = nullptr});
  }
  Arm(shared_.options.body_time);
  return true;
}

std::optional<HttpAnswer> HttpConnection::CheckSyntax() {
  HttpHandler& handler = shared_.handler;
  // A proxy before this server may have used another one of several values.
  for (const std::string_view name : kSingleHeaders) {
    if (parser_->get().count(boost::beast::string_view(name.data(), name.size())) > 1) {
      return handler.Fault(400, fmt::format("the header {} comes twice", name));
    }
  }
  if (!is_http_1_0_ && !FindField(*parser_, "host").has_value()) {
    return handler.Fault(400, "the header Host is missing");
  }
  // The parser treats any other transfer coding as no body at all.
  const auto coding = FindField(*parser_, "transfer-encoding");
  if (coding.has_value() && is_http_1_0_) {
    return handler.Fault(400, "Transfer-Encoding is given; accepted: none in HTTP/1.0");
  }
  if (coding.has_value() && !IsSameWord(*coding, "chunked")) {
    return handler.Fault(
        501, fmt::format("Transfer-Encoding is '{}'; accepted: chunked", Shorten(*coding)));
  }
  const auto expected = FindField(*parser_, "expect");
  if (expected.has_value() && !IsSameWord(*expected, "100-continue")) {
    return handler.Fault(417,
                         fmt::format("Expect is '{}'; accepted: 100-continue", Shorten(*expected)));
  }
  return std::nullopt;
}

void HttpConnection::TakeRequest() {
  state_ = State::kBusy;
  idle_ = false;
  Disarm();
  request_.body = std::move(parser_->get().body());
  parser_.reset();
  shared_.handler.Handle(shared_from_this());
  if (peer_ended_) return TellGone();
  Read();  // to detect the client's end, and to read pipelined requests
}

void HttpConnection::RefuseParsing(Error error) {
  const HttpOptions& options = shared_.options;
  if (error == http::error::body_limit || error == http::error::buffer_overflow) {
    return Refuse(shared_.handler.Fault(
        413, fmt::format("the body has more than {} bytes (max_receive_bytes)",
                         options.max_body_bytes)));
  }
  if (error == http::error::header_limit) {
    return Refuse(shared_.handler.Fault(
        431, fmt::format("the headers have more than {} bytes", options.max_head_bytes)));
  }
  Refuse(
      shared_.handler.Fault(400, fmt::format("the request is not HTTP/1.1: {}", error.message())));
}

void HttpConnection::Refuse(HttpAnswer answer) {
  // The head may not have been read.
  if (request_.request_id.empty()) request_.request_id = UsableRequestId("");
  keep_alive_ = false;
  state_ = State::kBusy;
  parser_.reset();
  Disarm();
  SendAnswer(std::move(answer), nullptr);
  Read();
}

// --- Writing

void HttpConnection::Answer(HttpAnswer answer, Sent sent) {
  asio::post(socket_.get_executor(), [self = shared_from_this(), answer = std::move(answer),
                                      sent = std::move(sent)]() mutable {
    self->SendAnswer(std::move(answer), std::move(sent));
  });
}

void HttpConnection::Write(std::string piece, bool is_last, Sent sent) {
  asio::post(socket_.get_executor(), [self = shared_from_this(), piece = std::move(piece), is_last,
                                      sent = std::move(sent)]() mutable {
    self->SendPiece(std::move(piece), is_last, std::move(sent));
  });
}

void HttpConnection::OnGone(std::function<void()> gone) { gone_ = std::move(gone); }

std::string HttpConnection::Head(int status, std::string_view content_type) {
  const bool is_old = shared_.options.age.count() > 0 &&
                      std::chrono::steady_clock::now() - opened_ > shared_.options.age;
  keep_alive_ = keep_alive_ && !is_old && !ending_ && !peer_ended_ && !shared_.draining;
  const std::time_t now = std::time(nullptr);
  std::string head = fmt::format(
      "HTTP/1.1 {} {}\r\nDate: {:%a, %d %b %Y %H:%M:%S GMT}\r\nContent-Type: {}\r\n"
      "x-request-id: {}\r\n",
      status, ReasonPhrase(status), fmt::gmtime(now), content_type, request_.request_id);
  if (!keep_alive_) head += "Connection: close\r\n";
  if (keep_alive_ && is_http_1_0_) head += "Connection: keep-alive\r\n";
  return head;
}

void HttpConnection::SendAnswer(HttpAnswer answer, Sent sent) {
  if (state_ != State::kBusy) return sent ? sent(false) : void();
  shared_.stats.Count(answer.status);
  std::string head = Head(answer.status, answer.content_type);
  for (const auto& [name, value] : answer.headers) head += fmt::format("{}: {}\r\n", name, value);
  head += fmt::format("Content-Length: {}\r\n\r\n", answer.body.size());
  const bool has_body = !is_head_method_ && !answer.body.empty();
  Queue({.bytes = std::move(head), .sent = has_body ? nullptr : sent, .is_last = !has_body});
  if (has_body) {
    Queue({.bytes = std::move(answer.body), .sent = std::move(sent), .is_last = true});
  }
}

void HttpConnection::SendPiece(std::string piece, bool is_last, Sent sent) {
  if (state_ != State::kBusy) return sent ? sent(false) : void();
  std::string bytes;
  if (!has_begun_answer_) {
    shared_.stats.Count(200);
    has_begun_answer_ = true;
    if (is_http_1_0_) keep_alive_ = false;  // HTTP/1.0 clients do not know chunks
    bytes = Head(200, "text/event-stream; charset=utf-8");
    bytes += "Cache-Control: no-cache\r\nX-Accel-Buffering: no\r\n";
    bytes += is_http_1_0_ ? "\r\n" : "Transfer-Encoding: chunked\r\n\r\n";
  }
  if (is_http_1_0_) {
    bytes += piece;
  } else {
    // An empty chunk would end the body.
    if (!piece.empty()) bytes += fmt::format("{:x}\r\n{}\r\n", piece.size(), piece);
    if (is_last) bytes += "0\r\n\r\n";
  }
  Queue({.bytes = std::move(bytes), .sent = std::move(sent), .is_last = is_last});
}

void HttpConnection::Queue(Outgoing outgoing) {
  if (outgoing.is_last) {
    // No work for the client remains. `sent` reports whether it gets its answer: the client's end
    // may be noticed before the end of the write.
    gone_ = nullptr;
    // Frees the bytes before the client has its answer, so that its next request finds room.
    request_.body = std::string();
    UnchargeBody();
    if (shared_.options.gives_place_unread) idle_ = true;
  }
  queue_.push_back(std::move(outgoing));
  if (!writing_) WriteNext();
}

std::chrono::milliseconds HttpConnection::TimeToWrite(size_t num_bytes) const {
  const HttpOptions& options = shared_.options;
  return options.write_time +
         std::chrono::milliseconds(1000 * num_bytes / options.least_bytes_per_second);
}

void HttpConnection::WriteNext() {
  if (state_ == State::kClosed || queue_.empty()) return;
  writing_ = true;
  const std::string& bytes = queue_.front().bytes;
  const auto now = std::chrono::steady_clock::now();
  if (written_ == 0) write_end_ = now + TimeToWrite(bytes.size());
  if (state_ == State::kBusy) {
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(write_end_ - now);
    Arm(std::min(shared_.options.write_time, std::max(left, std::chrono::milliseconds(0))));
  }
  const auto some =
      asio::buffer(bytes.data() + written_, std::min(kWriteBytes, bytes.size() - written_));
  const auto on_written = [self = shared_from_this()](Error error, size_t num_bytes) {
    self->OnWritten(error, num_bytes);
  };
  if (tls_.has_value()) {
    tls_->async_write_some(some, on_written);
  } else {
    socket_.async_write_some(some, on_written);
  }
}

void HttpConnection::OnWritten(Error error, size_t num_bytes) {
  writing_ = false;
  if (error || state_ == State::kClosed) {
    Close();
    return FailQueue();
  }
  written_ += num_bytes;
  if (written_ < queue_.front().bytes.size()) return WriteNext();
  Outgoing done = std::move(queue_.front());
  queue_.pop_front();
  written_ = 0;
  if (state_ == State::kBusy) Disarm();
  if (done.is_last) Finish();
  if (done.sent) done.sent(true);
  if (!writing_) WriteNext();
}

void HttpConnection::FailQueue() {
  std::deque<Outgoing> queue = std::move(queue_);
  queue_.clear();
  for (Outgoing& one : queue) {
    if (one.sent) one.sent(false);
  }
}

void HttpConnection::Finish() {
  gone_ = nullptr;
  idle_ = true;
  has_begun_answer_ = false;
  is_head_method_ = false;
  request_ = HttpRequest();
  if (!keep_alive_ || peer_ended_ || ending_) return Linger();
  state_ = State::kHead;
  if (shared_.options.idle_time.count() > 0) Arm(shared_.options.idle_time);
  // Posted, as the caller must first call `sent` of the last answer.
  asio::post(socket_.get_executor(), [self = shared_from_this()] { self->Parse(); });
}

void HttpConnection::Linger() {
  // Closing with unread bytes would reset the connection, and the client might lose its answer.
  if (peer_ended_) return Close();
  state_ = State::kLinger;
  Arm(kLingerTime);
  if (tls_.has_value()) {
    tls_->async_shutdown([self = shared_from_this()](Error) { self->Close(); });
    return;
  }
  Error error;
  socket_.shutdown(asio::ip::tcp::socket::shutdown_send, error);
  Read();
}

// --- Ending

void HttpConnection::TellGone() {
  if (gone_) std::exchange(gone_, nullptr)();
}

void HttpConnection::Close() {
  if (state_ == State::kClosed) return;
  state_ = State::kClosed;
  Disarm();
  Error error;
  socket_.close(error);
  TellGone();
  UnchargeBody();
  if (!writing_) FailQueue();
}

void HttpConnection::Arm(std::chrono::milliseconds time) {
  timer_.expires_after(time);
  timer_.async_wait([weak = weak_from_this(), number = ++timer_number_](Error error) {
    const auto self = weak.lock();
    if (self != nullptr && !error && number == self->timer_number_) self->OnTime();
  });
}

void HttpConnection::Disarm() {
  ++timer_number_;
  timer_.cancel();
}

void HttpConnection::OnTime() {
  const bool has_begun = parser_.has_value();
  if ((state_ != State::kHead && state_ != State::kBody) || !has_begun || writing_) return Close();
  Refuse(shared_.handler.Fault(
      408, state_ == State::kHead ? "the headers took too long" : "the body took too long"));
}

}  // namespace beamline

#include "server/http/connections.h"

#include <unistd.h>

#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ssl/context.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/system/system_error.hpp>
#include <condition_variable>
#include <map>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "fmt/format.h"
#include "server/http/connection.h"
#include "spdlog/spdlog.h"

namespace beamline {
namespace {

namespace asio = boost::asio;

// These threads only move bytes and do TLS handshakes: microseconds a request.
constexpr int kThreads = 2;

using TlsContext = std::shared_ptr<asio::ssl::context>;

asio::const_buffer Buffer(const std::string& text) { return {text.data(), text.size()}; }

// Null if OpenSSL refuses what TlsSource has checked.
TlsContext MakeContext(const TlsMaterial& material, const TlsFiles& files) {
  auto context = std::make_shared<asio::ssl::context>(asio::ssl::context::tls_server);
  boost::system::error_code error;
  const auto check = [&error](boost::system::error_code one) {
    if (one) error = one;
  };
  boost::system::error_code one;
  check(context->set_options(asio::ssl::context::default_workarounds |
                                 asio::ssl::context::no_sslv2 | asio::ssl::context::no_sslv3 |
                                 asio::ssl::context::no_tlsv1 | asio::ssl::context::no_tlsv1_1 |
                                 asio::ssl::context::no_compression,
                             one));
  check(context->use_certificate_chain(Buffer(material.certificate), one));
  check(context->use_private_key(Buffer(material.key), asio::ssl::context::pem, one));
  if (!material.client_ca.empty()) {
    check(context->add_certificate_authority(Buffer(material.client_ca), one));
    const int required =
        files.require_client_certificate ? asio::ssl::verify_fail_if_no_peer_cert : 0;
    check(context->set_verify_mode(asio::ssl::verify_peer | required, one));
  }
  if (!error) return context;
  spdlog::error("http_listen cannot use the certificate: {}", error.message());
  return nullptr;
}

class Connections final : public HttpConnections {
 public:
  Connections(const HttpOptions& options, HttpHandler& handler, HttpStats& stats,
              std::shared_ptr<TlsSource> tls)
      : shared_{options, handler, stats}, tls_(std::move(tls)) {
    try {
      for (int i = 0; i < kThreads; ++i) threads_.emplace_back([this] { io_.run(); });
    } catch (...) {
      EndThreads();
      throw;
    }
  }

  ~Connections() override {
    EndAll(true);
    {
      std::unique_lock lock(mutex_);
      ended_.wait(lock, [this] { return connections_.empty(); });
    }
    EndThreads();
  }

  void Take(int fd) override {
    const TlsContext tls = tls_ == nullptr ? nullptr : Context();
    if (tls_ != nullptr && tls == nullptr) {
      close(fd);
      return;
    }
    std::shared_ptr<HttpConnection> connection;
    {
      std::lock_guard lock(mutex_);
      const uint64_t number = next_number_++;
      by_fd_[fd] = number;
      connection = std::make_shared<HttpConnection>(io_, fd, tls, shared_,
                                                    [this, number] { Forget(number); });
      connections_.emplace(number, connection);
    }
    connection->Start();
  }

  bool IsIdle(int fd) override {
    std::shared_ptr<HttpConnection> connection;
    {
      std::lock_guard lock(mutex_);
      const auto number = by_fd_.find(fd);
      if (number == by_fd_.end()) return false;
      const auto found = connections_.find(number->second);
      // The connection has ended, and its descriptor may belong to something else.
      if (found == connections_.end()) {
        by_fd_.erase(number);
        return false;
      }
      connection = found->second.lock();
    }
    return connection != nullptr && connection->is_idle();
  }

  void StartDraining() override { shared_.draining = true; }

  void Finish(std::chrono::milliseconds time) override {
    EndAll(false);
    std::unique_lock lock(mutex_);
    ended_.wait_for(lock, time, [this] { return connections_.empty(); });
  }

 private:
  void EndThreads() {
    work_.reset();
    for (std::thread& thread : threads_) thread.join();
  }

  TlsContext Context() {
    const auto current = tls_->Current();
    std::lock_guard lock(mutex_);
    if (current != material_) {
      material_ = current;
      if (TlsContext made = MakeContext(*current, tls_->files()); made != nullptr) {
        context_ = std::move(made);
      }
    }
    return context_;
  }

  void EndAll(bool at_once) {
    std::vector<std::shared_ptr<HttpConnection>> all;
    {
      std::lock_guard lock(mutex_);
      for (const auto& [number, connection] : connections_) {
        if (auto alive = connection.lock()) all.push_back(std::move(alive));
      }
    }
    for (const auto& connection : all) connection->End(at_once);
  }

  void Forget(uint64_t number) {
    std::lock_guard lock(mutex_);
    connections_.erase(number);
    if (connections_.empty()) ended_.notify_all();
  }

  HttpShared shared_;
  const std::shared_ptr<TlsSource> tls_;
  asio::io_context io_{kThreads};
  // Makes io_ open its descriptors now and not at the first connection, when none may be left.
  asio::steady_timer opens_descriptors_{io_};
  asio::executor_work_guard<asio::io_context::executor_type> work_{io_.get_executor()};
  std::mutex mutex_;  // guards all below, except threads_
  std::condition_variable ended_;
  std::map<uint64_t, std::weak_ptr<HttpConnection>> connections_;
  // Connection numbers by descriptor, including some of connections that have ended.
  absl::flat_hash_map<int, uint64_t> by_fd_;
  uint64_t next_number_ = 0;
  std::shared_ptr<const TlsMaterial> material_;  // the version that context_ was made of
  TlsContext context_;
  std::vector<std::thread> threads_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<HttpConnections>> HttpConnections::Start(
    const HttpOptions& options, HttpHandler& handler, HttpStats& stats,
    std::shared_ptr<TlsSource> tls) {
  try {
    return std::make_unique<Connections>(options, handler, stats, std::move(tls));
  } catch (const boost::system::system_error& error) {
    return absl::UnavailableError(fmt::format("HTTP cannot be served: {}", error.code().message()));
  }
}

}  // namespace beamline

// A server with an HTTP address, over an engine that the test drives.
#pragma once

#include <cstdlib>
#include <string>
#include <utility>
#include <vector>

#include "tests/server/http/http_client.h"
#include "tests/server/service_fixture.h"

namespace beamline {

class HttpTest : public ServiceTest {
 protected:
  void ServeHttp(ServerConfig config = {}, const std::vector<ModelOptions>& counted = {}) {
    config.http_listen = "127.0.0.1:0";
    Serve(config, counted);
    const std::string address = server_->http_address();
    port_ = std::atoi(address.c_str() + address.rfind(':') + 1);
  }
  // A new connection's only request.
  HttpReply Post(const std::string& path, const std::string& body,
                 const std::vector<std::pair<std::string, std::string>>& headers = {}) const {
    return HttpClient(port_).Post(path, body, headers);
  }
  HttpReply Get(const std::string& path,
                const std::vector<std::pair<std::string, std::string>>& headers = {}) const {
    return HttpClient(port_).Get(path, headers);
  }
  HttpReply Say(const std::string& bytes) const {
    HttpClient client(port_);
    client.Send(bytes);
    return client.Read();
  }
  // Whether the number of open connections, as a scrape shows it, becomes this one.
  bool ConnectionsBecome(int64_t count) const {
    for (int i = 0; i < 2000 && metrics_->http().connections.open != count; ++i) {
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
    }
    return metrics_->http().connections.open == count;
  }

  int port_ = 0;
};

inline constexpr char kPrompt[] = R"({"model":"writer","prompt":"p"})";
inline constexpr char kStream[] = R"({"model":"writer","prompt":"p","stream":true})";

}  // namespace beamline

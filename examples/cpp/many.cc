// Translates all arguments concurrently, without a thread for each, and prints the results in
// order. Then streams a generated text.
//
// usage: many HOST:PORT TEXT...
#include <chrono>
#include <cstddef>
#include <future>
#include <iostream>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "beamline/client.h"

namespace {

using Translation = absl::StatusOr<beamline::v1::GenerateResponse>;

// Turns a call into a future. The callback, which fulfils the promise, runs on a thread of gRPC's.
std::future<Translation> Translate(beamline::Client& client, const std::string& text) {
  beamline::v1::GenerateRequest request;
  request.set_model("translate-en-de");
  request.mutable_prompt()->set_text(text);
  auto promise = std::make_shared<std::promise<Translation>>();
  std::future<Translation> future = promise->get_future();
  client.GenerateAsync(std::move(request),
                       [promise](Translation answer) { promise->set_value(std::move(answer)); },
                       {.timeout = std::chrono::seconds(30)});
  return future;
}

std::future<absl::Status> Write(beamline::Client& client, const std::string& prompt) {
  beamline::v1::GenerateRequest request;
  request.set_model("write-en");
  request.mutable_prompt()->set_text(prompt);
  request.mutable_greedy();
  request.mutable_limits()->set_max_new_tokens(24);
  auto promise = std::make_shared<std::promise<absl::Status>>();
  std::future<absl::Status> future = promise->get_future();
  client.GenerateStreamAsync(
      std::move(request),
      [](const beamline::v1::GenerateStreamResponse& message) {
        for (const auto& delta : message.deltas()) std::cout << delta.text() << std::flush;
        return true;  // false ends the call
      },
      [promise](const absl::StatusOr<beamline::v1::StreamEnd>& end) {
        promise->set_value(end.status());
      },
      {.timeout = std::chrono::seconds(30)});
  return future;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 3) {
    std::cerr << "usage: many HOST:PORT TEXT...\n";
    return 2;
  }
  beamline::Client client({.address = argv[1], .retry = {.max_attempts = 5}});
  if (const auto status = client.WaitUntilServing("translate-en-de", {std::chrono::seconds(60)});
      !status.ok()) {
    std::cerr << status << "\n";
    return 1;
  }
  std::vector<std::future<Translation>> translations;
  for (int i = 2; i < argc; ++i) translations.push_back(Translate(client, argv[i]));
  for (auto& future : translations) {
    const Translation translation = future.get();
    if (!translation.ok()) {
      std::cerr << translation.status() << "\n";
      return 1;
    }
    std::cout << translation->sequences(0).text() << "\n";
  }
  const absl::Status written = Write(client, "Package: hello\nSynopsis:").get();
  std::cout << "\n";
  if (!written.ok()) std::cerr << written << "\n";
  return written.ok() ? 0 : 1;
}

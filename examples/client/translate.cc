// Translates a text through a server, with beam search.
//
// usage: translate HOST:PORT TEXT
#include <chrono>
#include <iostream>

#include "beamline/client.h"

int main(int argc, char** argv) {
  if (argc != 3) {
    std::cerr << "usage: translate HOST:PORT TEXT\n";
    return 2;
  }
  // Retries if the server is busy or restarts, within the timeout below.
  beamline::Client client({.address = argv[1], .retry = {.max_attempts = 5}});
  beamline::v1::GenerateRequest request;
  request.set_model("translate-en-de");
  request.mutable_prompt()->set_text(argv[2]);
  request.mutable_beam()->set_width(4);
  const auto answer = client.Generate(request, {.timeout = std::chrono::seconds(30)});
  if (!answer.ok()) {
    std::cerr << answer.status() << "\n";
    return 1;
  }
  std::cout << answer->sequences(0).text() << "\n";
  return 0;
}

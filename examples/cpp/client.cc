// Compares embeddings, and shows how to handle errors and deadlines.
//
// usage: client HOST:PORT
//
// If the name resolves to several servers (dns:///beamline:50051), calls are distributed over them.
#include "beamline/client.h"

#include <chrono>
#include <cmath>
#include <cstddef>
#include <iomanip>
#include <iostream>
#include <string>
#include <vector>

namespace {

using beamline::CallOptions;
using beamline::Client;

constexpr CallOptions kSoon = {.timeout = std::chrono::seconds(30)};

double Cosine(const beamline::v1::Embedding& one, const beamline::v1::Embedding& other) {
  double product = 0;
  double one_square = 0;
  double other_square = 0;
  for (int i = 0; i < one.values_size(); ++i) {
    product += static_cast<double>(one.values(i)) * other.values(i);
    one_square += static_cast<double>(one.values(i)) * one.values(i);
    other_square += static_cast<double>(other.values(i)) * other.values(i);
  }
  return product / std::sqrt(one_square * other_square);
}

// Finds the two most similar texts.
absl::Status Embed(Client& client) {
  const std::vector<std::string> texts = {"edit photos", "an image manipulation program",
                                          "a mail server"};
  beamline::v1::EncodeRequest request;
  request.set_model("embed-en");
  for (const std::string& text : texts) request.add_inputs()->set_text(text);
  const auto answer = client.Encode(request, kSoon);
  if (!answer.ok()) return answer.status();
  double best = -2;
  size_t first = 0;
  size_t second = 0;
  for (size_t i = 0; i < texts.size(); ++i) {
    for (size_t j = 0; j < i; ++j) {
      const double cosine =
          Cosine(answer->embeddings(static_cast<int>(i)), answer->embeddings(static_cast<int>(j)));
      if (cosine <= best) continue;
      best = cosine;
      first = j;
      second = i;
    }
  }
  std::cout << "closest: " << texts[first] << ", " << texts[second] << " (cosine " << std::fixed
            << std::setprecision(4) << best << ")\n";
  return absl::OkStatus();
}

// Sends a request that the server refuses: the error names the field.
absl::Status Refuse(Client& client) {
  beamline::v1::GenerateRequest request;
  request.set_model("write-en");
  request.mutable_prompt()->set_text("Hello");
  request.mutable_limits()->set_max_new_tokens(0);
  const absl::Status status = client.Generate(request, kSoon).status();
  if (!absl::IsInvalidArgument(status))
    return absl::InternalError("not refused: " + status.ToString());
  std::cout << "refused: " << beamline::InvalidField(status) << ": " << status.message() << "\n";
  return absl::OkStatus();
}

// Sets a deadline that is too short. (A stream would end with what there is instead.)
absl::Status Expire(Client& client) {
  beamline::v1::GenerateRequest request;
  request.set_model("write-en");
  request.mutable_prompt()->set_text("Package: hello");
  const absl::Status status =
      client.Generate(request, {.timeout = std::chrono::milliseconds(1)}).status();
  if (!absl::IsDeadlineExceeded(status))
    return absl::InternalError("not late: " + status.ToString());
  std::cout << "late: no answer within 1 ms\n";
  return absl::OkStatus();
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) {
    std::cerr << "usage: client HOST:PORT\n";
    return 2;
  }
  // Retries if the server is busy or restarts, after the time that it names, within a call's
  // timeout.
  Client client({.address = argv[1],
                 .retry = {.max_attempts = 5},
                 .service_config = R"({"loadBalancingConfig": [{"round_robin": {}}]})"});
  for (const auto show : {Embed, Refuse, Expire}) {
    const absl::Status status = show(client);
    if (status.ok()) continue;
    std::cerr << status << "\n";
    return 1;
  }
  return 0;
}

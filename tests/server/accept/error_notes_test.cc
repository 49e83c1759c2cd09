// By what gRPC's own functions leave in their results.
#include "server/accept/error_notes.h"

#include <gtest/gtest.h>

#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "grpc/status.h"
#include "grpc/support/alloc.h"
#include "grpcpp/generic/async_generic_service.h"
#include "grpcpp/grpcpp.h"
#include "server/accept/grpc_types.h"
#include "tests/server/accept/asked_calls.h"

void grpc_error_get_status(absl::Status error, grpc_core::Timestamp deadline,
                           grpc_status_code* code, std::string* message,
                           grpc_http2_error_code* http_error, const char** error_string);

namespace beamline::error_notes_test {
namespace {

class ErrorNotesTest : public testing::Test {
 protected:
  void SetUp() override {
    if (!std::string_view(grpc::Version()).starts_with("1.51.")) {
      GTEST_SKIP() << "gRPC is " << grpc::Version();
    }
  }

  // What gRPC makes of an error: whether it writes the text for debugging.
  bool WritesText() {
    grpc_status_code code = GRPC_STATUS_OK;
    std::string message;
    const char* text = nullptr;
    grpc_error_get_status(absl::ResourceExhaustedError("too much"), grpc_core::Timestamp(), &code,
                          &message, nullptr, &text);
    EXPECT_EQ(code, GRPC_STATUS_RESOURCE_EXHAUSTED);
    EXPECT_EQ(message, "too much");
    const bool writes = text != nullptr;
    gpr_free(const_cast<char*>(text));
    return writes;
  }
};

TEST_F(ErrorNotesTest, CodesAndMessagesStay) {
  SpareErrorNotes();
  EXPECT_FALSE(WritesText());
}

// A server's answer with an error, which passes through all of it.
TEST_F(ErrorNotesTest, ClientsGetTheErrorsOfCalls) {
  SpareErrorNotes();
  class Refuses final : public grpc::CallbackGenericService {};  // UNIMPLEMENTED, of all
  Refuses service;
  const auto [server, port] = ServeCalls(service);
  ASSERT_NE(server, nullptr);
  AskedCalls asked;
  const auto stub = ConnectTo(port);
  for (int i = 0; i < 20; ++i) asked.Ask(*stub);
  asked.ExpectAll(grpc::StatusCode::UNIMPLEMENTED);
  server->Shutdown();
}

}  // namespace
}  // namespace beamline::error_notes_test

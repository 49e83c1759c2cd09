#include "server/request_log.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <sstream>
#include <thread>

#include "base/field_error.h"
#include "spdlog/sinks/ringbuffer_sink.h"
#include "spdlog/spdlog.h"
#include "tests/server/service_fixture.h"

namespace beamline::request_log_test {
namespace {

using testing::HasSubstr;
using testing::Not;

// What is logged while it lives.
class LogCapture {
 public:
  explicit LogCapture(spdlog::level::level_enum level) : before_(spdlog::default_logger()) {
    auto logger = std::make_shared<spdlog::logger>("test", lines_);
    logger->set_pattern("%l %v");
    logger->set_level(level);
    spdlog::set_default_logger(std::move(logger));
  }
  ~LogCapture() { spdlog::set_default_logger(before_); }

  std::string text() const {
    std::string text;
    for (const std::string& line : lines_->last_formatted()) text += line;
    return text;
  }

 private:
  std::shared_ptr<spdlog::logger> before_;
  std::shared_ptr<spdlog::sinks::ringbuffer_sink_mt> lines_ =
      std::make_shared<spdlog::sinks::ringbuffer_sink_mt>(1000);
};

TEST(RequestLog, ALineTellsTheRequest) {
  CallRecord record = {.rpc = Rpc::kScore,
                       .model = "write-en",
                       .code = absl::StatusCode::kOutOfRange,
                       .duration = std::chrono::microseconds(1500)};
  record.request_id = "a7";
  EXPECT_EQ(RequestLine(record),
            "request rpc=Score model=\"write-en\" request_id=\"a7\" code=OUT_OF_RANGE "
            "seconds=0.001500");
  record.fault = "step failed";
  EXPECT_THAT(RequestLine(record), HasSubstr(" fault=\"step failed\""));
}

TEST(RequestLog, ClientsCannotWriteLinesOfTheirOwn) {
  CallRecord record;
  record.request_id = "x\" code=OK\r\n2026-01-01 error \x1B[31mfeigned\xC2\x85\xE2\x80\xA8\xFF";
  const std::string line = RequestLine(record);
  for (const char c : line) EXPECT_TRUE(c >= ' ' && c <= '~') << line;
  EXPECT_THAT(line, HasSubstr("request_id=\"x\\\" code=OK\\r\\n2026"));
  record.request_id = std::string(100000, 'x');
  EXPECT_LT(RequestLine(record).size(), 400u);
}

TEST(RequestLog, LevelsTellFaultsFromErrorsFromTheRest) {
  const LogCapture log(spdlog::level::debug);
  CallRecord record;
  LogRequest(record);
  record.code = absl::StatusCode::kResourceExhausted;
  LogRequest(record);
  record.code = absl::StatusCode::kInvalidArgument;
  LogRequest(record);
  record.code = absl::StatusCode::kInternal;
  record.fault = "why";
  LogRequest(record);
  std::istringstream lines(log.text());
  for (const char* level : {"debug", "debug", "info", "error"}) {
    std::string line;
    std::getline(lines, line);
    EXPECT_EQ(line.substr(0, line.find(' ')), level) << line;
  }
}

class RequestLogTest : public ServiceTest {
 protected:
  void TearDown() override {
    client_.reset();
    server_.reset();  // before the capture, which its threads log to
  }

  // The log, once it has the text: a call's line follows its status.
  std::string WaitFor(const std::string& text) {
    for (int i = 0; i < 2000 && log_.text().find(text) == std::string::npos; ++i) {
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
    }
    return log_.text();
  }

  LogCapture log_{spdlog::level::info};
};

TEST_F(RequestLogTest, FailedRequestsAreLoggedUnderTheirIds) {
  Serve();
  v1::GenerateRequest request = Request();
  request.set_request_id("refused-1");
  engine_->Refuse(FieldError("limits.max_new_tokens", "0", "1 to 9"));
  EXPECT_FALSE(client_->Generate(request, kSoon).ok());
  EXPECT_THAT(WaitFor("refused-1"), HasSubstr("info request rpc=Generate model=\"writer\" "
                                              "request_id=\"refused-1\" code=INVALID_ARGUMENT"));
  request.set_request_id("fault-2");
  engine_->Refuse(absl::InternalError("/models/secret.bin is torn"));
  const auto ignore = [](const v1::GenerateStreamResponse&) { return true; };
  const absl::Status status = client_->GenerateStream(request, ignore, kSoon).status();
  EXPECT_THAT(std::string(status.message()), Not(HasSubstr("secret")));
  EXPECT_THAT(WaitFor("fault-2"),
              HasSubstr("error request rpc=GenerateStream model=\"writer\" request_id=\"fault-2\" "
                        "code=INTERNAL"));
  EXPECT_THAT(log_.text(), HasSubstr("fault=\"/models/secret.bin is torn\""));
  // A text that is not UTF-8 does not hide the id.
  engine_->Refuse(absl::OkStatus());
  request.set_request_id("bytes-3");
  request.mutable_prompt()->set_text("\xFF");
  EXPECT_FALSE(client_->Generate(request, kSoon).ok());
  EXPECT_THAT(WaitFor("bytes-3"), HasSubstr("request_id=\"bytes-3\" code=INVALID_ARGUMENT"));
}

}  // namespace
}  // namespace beamline::request_log_test

#include "client/cli/ordered_answers.h"

#include <gtest/gtest.h>

#include <sstream>

namespace beamline::cli::ordered_answers_test {
namespace {

using Answers = OrderedAnswers<v1::EncodeResponse, v1::EncodeManyResponse>;

constexpr std::string_view kAnswerColumns[] = {"input", "model", "error"};

class OrderedAnswersTest : public testing::Test {
 protected:
  static v1::EncodeResponse Response(const std::string& model) {
    v1::EncodeResponse response;
    response.set_model(model);
    return response;
  }

  Answers MakeAnswers(const Session& session) {
    return {session,
            {[this](const v1::EncodeResponse& response) { out_ << response.model() << "\n"; },
             kAnswerColumns,
             [&session](size_t number, const v1::EncodeResponse& response) {
               session.output.CsvRow(
                   kAnswerColumns,
                   std::vector<std::string>{std::to_string(number), response.model(), ""});
             }}};
  }

  std::ostringstream out_, err_;
  Console console_ = {-1, out_, err_};
  Client client_{ClientOptions{.address = "127.0.0.1:1"}};  // never connects
  GlobalOptions options_;
  Output output_{out_, OutputFormat::kTable, Style()};
  Session session_ = {client_, console_, options_, output_};
};

TEST_F(OrderedAnswersTest, PrintsInTheOrderOfTheRequests) {
  Answers answers = MakeAnswers(session_);
  answers.Take(2, Response("c"));
  answers.Take(1, absl::InvalidArgumentError("inputs has 0 entries"));
  EXPECT_EQ(out_.str(), "");
  answers.Take(0, Response("a"));
  EXPECT_EQ(out_.str(), "a\n\nc\n");
  EXPECT_EQ(err_.str(), "line 2: INVALID_ARGUMENT: inputs has 0 entries\n");
  EXPECT_EQ(answers.Result(), absl::InvalidArgumentError("1 of 3 lines failed"));
}

TEST_F(OrderedAnswersTest, ACallThatFailsBeforeTheFirstLineIsTheError) {
  Answers answers = MakeAnswers(session_);
  LineSource lines(console_);
  const absl::Status status = AnswerLines<v1::EncodeRequest>(
      session_, lines, answers,
      [](const std::string&) -> absl::StatusOr<v1::EncodeRequest> { return v1::EncodeRequest(); },
      [](const auto&, const auto&) { return absl::UnavailableError("no server"); });
  EXPECT_EQ(status, absl::UnavailableError("no server"));
}

TEST_F(OrderedAnswersTest, JsonIsOneMessageALine) {
  Output output(out_, OutputFormat::kJson, Style());
  const Session session = {client_, console_, options_, output};
  Answers answers = MakeAnswers(session);
  answers.Take(0, Response("a"));
  answers.Take(1, Response("b"));
  std::istringstream lines(out_.str());
  std::string line;
  std::getline(lines, line);
  EXPECT_NE(line.find(R"("request_id":"1")"), std::string::npos) << line;
  std::getline(lines, line);
  EXPECT_NE(line.find(R"("model":"b")"), std::string::npos) << line;
  EXPECT_TRUE(answers.Result().ok());
}

TEST_F(OrderedAnswersTest, CsvHasARowForEachLineAndItsError) {
  Output output(out_, OutputFormat::kCsv, Style());
  const Session session = {client_, console_, options_, output};
  Answers answers = MakeAnswers(session);
  answers.Take(1, absl::InvalidArgumentError("bad, \"very\""));
  answers.Take(0, Response("a"));
  EXPECT_EQ(out_.str(),
            "input,model,error\r\n1,a,\r\n2,,\"INVALID_ARGUMENT: bad, \"\"very\"\"\"\r\n");
}

}  // namespace
}  // namespace beamline::cli::ordered_answers_test

// What the program prints and the status it ends with, of answers and errors that the server
// decides.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <fstream>
#include <string>
#include <vector>

#include "tests/client/cli/cli_runner.h"
#include "tests/scratch_path.h"

namespace beamline::cli::cli_output_test {
namespace {

using testing::HasSubstr;
using testing::Not;
using testing::SizeIs;
using testing::StartsWith;
using Arguments = std::vector<std::string>;

constexpr char kFigures[] =
    "5 prompt (2 cached) + 3 generated tokens, first after 2.0 ms, "
    "10.0 ms in all (300 tokens/s)";

void ExpectPrints(const Arguments& arguments, const std::string& out, const std::string& err,
                  const std::string& input = "") {
  const RecordingServer server;
  const CliResult result = RunCli(server, arguments, input);
  EXPECT_EQ(result.status, 0) << arguments[0];
  EXPECT_EQ(result.out, out) << arguments[0];
  EXPECT_EQ(result.err, err) << arguments[0];
}

TEST(Output, OfGenerate) {
  const std::string summary = std::string("(") + kFigures + ", EOS)\n";
  ExpectPrints({"generate", "p"}, "<p>\n", summary);
  ExpectPrints({"translate", "p", "q"}, "<p>\n<q>\n", summary + summary);
  ExpectPrints({"generate", "--stream", "p"}, "<p>\n", std::string("(") + kFigures + ", LENGTH)\n");
  ExpectPrints({"generate", "--beam", "2", "--n", "2", "p"},
               "[1] score -1.0000\n<p>\n[2] score -2.0000\n<p>\n",
               std::string("(") + kFigures + ", EOS, EOS)\n");
  ExpectPrints({"generate", "--logprobs", "2", "--prompt-logprobs", "0", "p"},
               "       7   -0.5000\n<p>\n       7   -0.5000  7:-0.5000  8:-1.5000\n", summary);
}

TEST(Output, OfGenerateAsJson) {
  const RecordingServer server;
  const CliResult whole = RunCli(server, {"generate", "--json", "--request-id", "r", "p"});
  EXPECT_THAT(whole.out, StartsWith("{\"sequences\":[{\"ids\":[],\"text\":\"\\u003cp\\u003e\","));
  EXPECT_THAT(whole.out, HasSubstr("\"timing\":{\"first_token\":\"0.002s\",\"total\":\"0.010s\"}"));
  EXPECT_THAT(whole.out, HasSubstr("\"model\":\"writer\",\"request_id\":\"r\""));
  EXPECT_EQ(whole.err, "");
  const CliResult stream = RunCli(server, {"--json", "generate", "--stream", "p"});
  EXPECT_EQ(std::count(stream.out.begin(), stream.out.end(), '\n'), 3);  // a line for each message
  EXPECT_THAT(stream.out, HasSubstr("\"text\":\"p\\u003e\""));
  EXPECT_THAT(stream.out, HasSubstr("\"finish_reason\":\"FINISH_REASON_LENGTH\""));
  EXPECT_EQ(stream.err, "");
}

TEST(Output, OfLinesIsInTheirOrder) {
  RecordingServer server;
  server.AnswerBackwards();
  const TextFile file("one\nbad\nthree\n");
  for (const Arguments& source : {Arguments{"--file", file.path()}, {"--file", "-"}, {"-"}, {}}) {
    Arguments arguments = {"generate"};
    arguments.insert(arguments.end(), source.begin(), source.end());
    const CliResult lines = RunCli(server, arguments, "one\nbad\nthree\n");
    EXPECT_EQ(lines.status, 1);
    EXPECT_EQ(lines.out, "<one>\n\n<three>\n");
    EXPECT_EQ(lines.err,
              "line 2: INVALID_ARGUMENT: prompt is bad\n"
              "beamline: INVALID_ARGUMENT: 1 of 3 lines failed\n");
  }
  const CliResult json = RunCli(server, {"--json", "encode", "--file", file.path()});
  EXPECT_EQ(json.status, 1);
  EXPECT_THAT(json.out, StartsWith("{\"request_id\":\"1\",\"response\":{\"embeddings\":[{"));
  EXPECT_THAT(json.out, HasSubstr("\n{\"request_id\":\"2\",\"error\":{\"code\":3,\"message\":"
                                  "\"prompt is bad\",\"details\":[]}}\n{\"request_id\":\"3\","));
  const CliResult good = RunCli(server, {"generate", "--file", "-"}, "a\nb");
  EXPECT_EQ(good.status, 0);
  EXPECT_EQ(good.err, "(2 answers, 6 generated tokens)\n");
  EXPECT_EQ(RunCli(server, {"encode", "-"}, "abc\n").out,
            "    3 tokens     8 dimensions   3.0000  1.0000  1.0000  1.0000  1.0000  1.0000 ...\n");
}

TEST(Output, OfEncode) {
  ExpectPrints(
      {"encode", "--dimensions", "2", "a", "a text that is longer\nthan the table shows it"},
      "   text                                      tokens  vectors  "
      "dimensions  first values\n"
      "1  a                                              1        1  "
      "         2    1.0000  1.0000\n"
      "2  a text that is longer t ... ble shows it      45        1  "
      "         2   45.0000  1.0000\n"
      "\n"
      "similarity       1       2\n"
      "         1  1.0000  0.7226\n"
      "         2  0.7226  1.0000\n",
      "(4 tokens, 3.0 ms in all)\n");
  const RecordingServer server;
  EXPECT_THAT(RunCli(server, {"encode", "a"}).out, Not(HasSubstr("similarity")));
  EXPECT_THAT(RunCli(server, {"encode", "a", "--json"}).out,
              StartsWith("{\"embeddings\":[{\"values\":[1,1,1,1,1,1,1,1],\"num_vectors\":1,"
                         "\"dimensions\":8,\"num_tokens\":1}],"));
}

TEST(Output, OfScore) {
  ExpectPrints({"score", "p", "\n\"c\"", "d"},
               "logprob  tokens  a token  continuation\n"
               "-3.0000       2  -1.5000  \"\\n\\\"c\\\"\"\n"
               "-6.0000       2  -3.0000  \"d\"\n",
               "(6 prompt tokens, 4.0 ms in all)\n");
  ExpectPrints({"score", "--per-token", "p", "c"},
               "logprob  tokens  a token  continuation\n"
               "-3.0000       2  -1.5000  \"c\"\n"
               "                 -1.5000    id 40\n"
               "                 -1.5000    id 41\n",
               "(6 prompt tokens, 4.0 ms in all)\n");
  const RecordingServer server;
  EXPECT_THAT(RunCli(server, {"score", "--json", "p", "c"}).out,
              StartsWith("{\"scores\":[{\"logprob\":-3,\"num_tokens\":2,\"tokens\":[]}],"));
}

TEST(Output, OfClasses) {
  ExpectPrints({"classify", "a", "b"},
               "   score    label  text\n"
               "1   0.2500  up     a\n"
               "   -1.5000  down\n"
               "2   0.2500  up     b\n"
               "   -3.0000  down\n",
               "(6 tokens, 2.0 ms in all)\n");
  ExpectPrints({"classify", "--pairs", "--output", "csv", "a", "b"},
               "input,tokens,label,score\r\n1,3,up,0.25\r\n1,3,down,-1.5\r\n", "");
  ExpectPrints({"rerank", "q", "a", "b"},
               "score   document  tokens  text\n"
               "0.5000         2       4  b\n"
               "0.0000         1       4  a\n",
               "(8 tokens, 2.0 ms in all)\n");
  ExpectPrints({"rerank", "--output", "csv", "q", "a", "b,"},
               "document,score,tokens,text\r\n2,0.5,4,\"b,\"\r\n1,0,4,a\r\n", "");
}

TEST(Output, OfClassesOfTokens) {
  ExpectPrints({"classify-tokens", "ab", "cd"},
               "   bytes  score   label  text\n"
               "1   0..1  0.7500  B-PER  a\n"
               "2   0..1  0.7500  B-PER  c\n",
               "(6 tokens, 2.0 ms in all)\n");
  ExpectPrints({"classify-tokens", "--aggregation", "simple", "--output", "csv", "ab"},
               "input,begin,end,label,score,text\r\n1,0,2,PER,0.5,ab\r\n", "");
}

TEST(Output, OfFilledMasks) {
  ExpectPrints({"fill-mask", "ab"},
               "   mask  score   token  sequence\n"
               "1     1  0.5000  fox    ab fox\n",
               "(6 tokens, 2.0 ms in all)\n");
  ExpectPrints({"fill-mask", "--output", "csv", "ab"},
               "input,mask,id,token,score,sequence\r\n1,1,9,fox,0.5,ab fox\r\n", "");
}

TEST(Output, OfTokens) {
  ExpectPrints({"tokenize", "--model", "m", "ab"},
               "id  bytes  piece\n"
               " 0         [CLS]  (special)\n"
               "97   0..1  a\n"
               "98   1..2  b\n",
               "(3 tokens of m)\n");
  ExpectPrints({"tokenize", "--no-special-tokens", "--json"},
               "{\"tokens\":[{\"id\":97,\"piece\":\"a\",\"begin\":0,\"end\":1,\"special\":false}],"
               "\"model\":\"\"}\n",
               "", "a\n");
  ExpectPrints({"detokenize", "5", "6"}, "(5)(6)\n", "");
  ExpectPrints({"detokenize"}, "(5)(6)\n(7)\n", "", "5 6\n7\n");
  ExpectPrints({"detokenize", "--json", "5"}, "{\"text\":\"(5)\",\"model\":\"\"}\n", "");
  const RecordingServer server;
  const CliResult lines = RunCli(server, {"detokenize", "--json"}, "5\nx\n7\n");
  EXPECT_EQ(lines.status, 1);
  EXPECT_THAT(lines.out, HasSubstr("\n{\"error\":{\"code\":3,\"message\":\"'x' is not a token id\","
                                   "\"details\":[]}}\n{\"text\":\"(7)\""));
}

TEST(Output, OfLoadsAndUnloads) {
  const RecordingServer server;
  EXPECT_THAT(RunCli(server, {"load", "m"}).out,
              StartsWith("name               m\nversion            1\nstate              ready\n"));
  EXPECT_EQ(RunCli(server, {"unload", "m"}).out, "m version 1 is unloaded\n");
  EXPECT_THAT(RunCli(server, {"load", "m", "--json"}).out, StartsWith("{\"name\":\"m\","));
  EXPECT_THAT(RunCli(server, {"unload", "m", "--json"}).out,
              StartsWith("{\"model\":{\"name\":\"m\","));
}

TEST(Output, OfModels) {
  ExpectPrints({"models"},
               "name        version  state   task       architecture  parameters  type      max "
               "input  device\n"
               "writer            1  ready   generate   Model          1,234,567  bfloat16      "
               "2,048  cpu\n"
               "translator        1  ready   translate  Model          1,234,567  bfloat16      "
               "2,048  cpu\n"
               "embedder          1  ready   encode     Model          1,234,567  bfloat16      "
               "2,048  cpu\n"
               "broken            1  ready   encode     Model          1,234,567  bfloat16      "
               "2,048  cpu\n"
               "torn             12  failed\n"
               "torn version 12: config.json: torn\n",
               "");
  ExpectPrints({"models", "embedder"},
               "name               embedder\n"
               "version            1\n"
               "state              ready\n"
               "task               encode\n"
               "architecture       Model\n"
               "parameters         1,234,567 bfloat16\n"
               "layers             2 encoder, 3 decoder, hidden size 64\n"
               "tokenizer          pieces, 6,000 ids\n"
               "longest input      2,048 tokens\n"
               "decoder positions  4,096\n"
               "tokens of a step   1,024\n"
               "running sequences  128\n"
               "embedding          64 dimensions\n"
               "prompt name        query\n"
               "weights            3.0 MiB\n"
               "cache              5.0 MiB in 1,000 blocks of 16 tokens\n"
               "replica            cpu (a processor)\n",
               "");
  const RecordingServer server;
  EXPECT_THAT(RunCli(server, {"models", "--json"}).out, StartsWith("{\"models\":[{\"name\":\"wri"));
  EXPECT_THAT(RunCli(server, {"models", "writer", "--json"}).out,
              StartsWith("{\"name\":\"writer\",\"architecture\":\"Model\",\"task\":\"TASK_GENER"));
  const CliResult missing = RunCli(server, {"models", "nobody"});
  EXPECT_EQ(missing.status, 1);
  EXPECT_EQ(missing.err, "beamline: NOT_FOUND: there is no model 'nobody'\n");
}

TEST(Output, OfHealth) {
  ExpectPrints({"health"}, "SERVING\n", "");
  ExpectPrints({"health", "writer", "--json"}, "{\"status\":\"SERVING\"}\n", "");
  const RecordingServer server;
  const CliResult broken = RunCli(server, {"health", "broken"});
  EXPECT_EQ(broken.status, 1);
  EXPECT_EQ(broken.out, "NOT_SERVING\n");
  EXPECT_EQ(broken.err, "beamline: UNAVAILABLE: the server is not serving\n");
}

const std::vector<Arguments>& EveryCommand() {
  static const std::vector<Arguments> commands = {{"generate", "--model", "m", "--no-stream", "t"},
                                                  {"generate", "--model", "m", "--stream", "t"},
                                                  {"generate", "--model", "m", "--file", "-"},
                                                  {"encode", "t"},
                                                  {"encode", "-"},
                                                  {"score", "--model", "m", "p", "c"},
                                                  {"tokenize", "t"},
                                                  {"detokenize", "1"}};
  return commands;
}

// Sent once: whether to try again is for the caller to say.
TEST(Errors, HaveTheServersCodeAndOneLine) {
  for (const Arguments& command : EveryCommand()) {
    RecordingServer server;
    server.Fail({grpc::StatusCode::UNAVAILABLE, "over\n\xE2\x80\xAEthere"});
    const CliResult result = RunCli(server, command, "line\n");
    EXPECT_EQ(result.status, 1) << command[0];
    EXPECT_THAT(result.err, HasSubstr("beamline: UNAVAILABLE: over <U+202E>there\n")) << command[0];
    EXPECT_THAT(server.calls(), SizeIs(1)) << command[0];
  }
}

TEST(Errors, OfAServerThatDoesNotAnswerComeInTime) {
  for (const Arguments& command : EveryCommand()) {
    RecordingServer server;
    server.Hang();
    Arguments arguments = {"--timeout", "0.2"};
    arguments.insert(arguments.end(), command.begin(), command.end());
    const auto start = std::chrono::steady_clock::now();
    const CliResult result = RunCli(server, arguments, "line\n");
    EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(10)) << command[0];
    EXPECT_EQ(result.status, 1) << command[0];
    EXPECT_THAT(result.err, HasSubstr("beamline: DEADLINE_EXCEEDED: ")) << command[0];
  }
}

// What came stays, and has the end of its line.
TEST(Errors, OfAStreamComeBehindItsText) {
  RecordingServer server;
  server.Fail({grpc::StatusCode::ABORTED, "enough"});
  const CliResult cut = RunCli(server, {"generate", "--model", "m", "--stream", "t"});
  EXPECT_EQ(cut.out, "<\n");
  EXPECT_EQ(cut.err, "beamline: ABORTED: enough\n");
  server.Fail(grpc::Status::OK);
  server.LoseEnds();
  const CliResult lost = RunCli(server, {"generate", "--model", "m", "--stream", "t"});
  EXPECT_EQ(lost.status, 1);
  EXPECT_EQ(lost.err, "beamline: DATA_LOSS: the stream ended without its last message\n");
}

TEST(Errors, OfADefaultModelThatIsNotClearAreTheServers) {
  const RecordingServer server;
  // Two encoders: the request goes out without a name.
  EXPECT_EQ(RunCli(server, {"encode", "t"}).status, 0);
  EXPECT_EQ(server.encodes()[0].model(), "");
  RecordingServer failing;
  failing.Fail({grpc::StatusCode::INTERNAL, "no list"});
  for (const char* command : {"generate", "translate"}) {
    EXPECT_EQ(RunCli(failing, {command, "t"}).err, "beamline: INTERNAL: no list\n");
  }
  EXPECT_THAT(failing.generates(), SizeIs(0));
}

// Of two models that generate, the one with a chat template converses and the other continues
// texts.
TEST(Models, WithAChatTemplateAreTheDefaultOfConversationsAlone) {
  RecordingServer server;
  EXPECT_EQ(RunCli(server, {"chat"}, "hi\n").status, 0);
  EXPECT_EQ(server.generates().back().model(), "writer");
  v1::Model talker;
  talker.set_name("talker");
  talker.set_task(v1::TASK_GENERATE);
  talker.set_state(v1::MODEL_STATE_READY);
  talker.add_chat_templates("default");
  server.Add(talker);
  const std::string chat = ScratchPath("default_model.json");
  std::ofstream(chat) << R"([{"role": "user", "content": "hi"}])";
  EXPECT_EQ(RunCli(server, {"chat"}, "hi\n").status, 0);
  EXPECT_EQ(server.generates().back().model(), "talker");
  EXPECT_EQ(RunCli(server, {"generate", "--chat", chat}).status, 0);
  EXPECT_EQ(server.generates().back().model(), "talker");
  EXPECT_EQ(RunCli(server, {"generate", "t"}).status, 0);
  EXPECT_EQ(server.generates().back().model(), "writer");
  EXPECT_EQ(RunCli(server, {"score", "p", "c"}).status, 0);
  EXPECT_EQ(server.scores().back().model(), "writer");
  // Two of a kind: the server's answer lists them.
  talker.set_name("second");
  server.Add(talker);
  EXPECT_EQ(RunCli(server, {"chat"}, "hi\n").status, 0);
  EXPECT_EQ(server.generates().back().model(), "");
}

// Nothing is sent of a line that cannot be.
TEST(Errors, OfALineAreItsOwn) {
  const RecordingServer server;
  const CliResult result = RunCli(server, {"tokenize", "-"}, "a\n\xFF\nb\n");
  EXPECT_EQ(result.status, 1);
  EXPECT_THAT(server.tokenizes(), SizeIs(2));
  EXPECT_EQ(result.err,
            "(2 tokens of )\nline 2: INVALID_ARGUMENT: the text is not valid UTF-8\n"
            "(2 tokens of )\nbeamline: INVALID_ARGUMENT: 1 of 3 lines failed\n");
  for (const char* command : {"generate", "encode", "tokenize", "detokenize"}) {
    const CliResult empty = RunCli(server, {command}, "");
    EXPECT_EQ(empty.status, 2) << command;
    EXPECT_EQ(empty.err,
              "beamline: there is no text: give one, or lines on standard input (see 'beamline "
              "--help')\n");
  }
}

TEST(Errors, OfNumbersNameNoRangeThatIsNotThere) {
  const RecordingServer server;
  const auto error = [&](const Arguments& options) {
    Arguments arguments = {"generate", "t"};
    arguments.insert(arguments.end(), options.begin(), options.end());
    const CliResult result = RunCli(server, arguments);
    EXPECT_EQ(result.status, 2);
    return result.err.substr(0, result.err.find(" (see"));
  };
  EXPECT_EQ(error({"--temperature", "nan"}),
            "beamline: --temperature is 'nan'; accepted: a finite number");
  EXPECT_EQ(error({"--top-p", "1e39"}), "beamline: --top-p is '1e39'; accepted: a finite number");
  EXPECT_EQ(error({"--top-k", "x"}),
            "beamline: --top-k is 'x'; accepted: a whole number of 32 bits");
  EXPECT_EQ(error({"--seed", "-1"}),
            "beamline: --seed is '-1'; accepted: 0 to 18446744073709551615");
  EXPECT_EQ(error({"--timeout", "-1"}), "beamline: --timeout is '-1'; accepted: 0 to 1000000");
}

}  // namespace
}  // namespace beamline::cli::cli_output_test

// Formats answers for a terminal.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "beamline/v1/inference.pb.h"
#include "client/cli/style.h"
#include "google/protobuf/duration.pb.h"
#include "google/protobuf/message.h"
#include "google/rpc/status.pb.h"

namespace beamline::cli {

// One line of JSON with the proto field names, including unset and zero fields.
std::string ToJson(const google::protobuf::Message& message);

// The error as a google.rpc.Status. Keeps the server's details if their types are known here.
google::rpc::Status ToProto(const absl::Status& status);
std::string ErrorJson(const absl::Status& status);

// "850 us", "3.1 ms", "2.45 s".
std::string FormatDuration(const google::protobuf::Duration& duration);
double Seconds(const google::protobuf::Duration& duration);
// In quotes, on one line: "a\"b\nc".
std::string Quote(std::string_view text);
// "15.9 MiB".
std::string FormatBytes(int64_t bytes);
// "8,376,320".
std::string FormatCount(int64_t count);
// "EOS" of FINISH_REASON_EOS.
std::string FormatFinish(v1::FinishReason reason);

// "17 prompt + 19 generated tokens, first after 2.1 ms, 25.0 ms in all (760 tokens/s), EOS".
std::string SummaryLine(const v1::Usage& usage, const v1::Timing& timing,
                        const std::vector<v1::FinishReason>& reasons);

// Aligns the columns of rows, two spaces apart; the first row is the header. Widths count visible
// characters, not bytes or style codes. Numbers are right-aligned.
std::string FormatTable(const std::vector<std::vector<std::string>>& rows,
                        const Style& style = Style());

}  // namespace beamline::cli
